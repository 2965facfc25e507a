/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The common options, checked. */
#include "cli/verb-options.h"

#include "common/i18n.h"
#include "common/lodge-error.h"
#include "common/units.h"

#include <hv/types.h>

#include <string.h>

#define JOBS_MOST        256
#define INTERVAL_DEFAULT 2.0
#define INTERVAL_LEAST   0.1
#define INTERVAL_MOST    3600.0
#define MEMORY_MIN       (2 * HV_MIB)

static void add_common(GOptionContext *context, LodgeVerbOptions *options, guint wanted)
{
    const GOptionEntry connect[] = {
        {"connect", 'c', 0, G_OPTION_ARG_FILENAME, &options->connect,
         N_("libvirt's name of the hypervisor (default lodge:///session)"), N_("URI")},
        {NULL},
    };
    const struct {
        guint when;
        GOptionEntry entries[3];
    } groups[] = {
        {LODGE_VERB_OPTION_JSON,
         {{"json", 0, 0, G_OPTION_ARG_NONE, &options->json, N_("print JSON, for programs"), NULL},
          {NULL}}},
        {LODGE_VERB_OPTION_ALL,
         {{"all", 'a', 0, G_OPTION_ARG_NONE, &options->all, N_("all machines"), NULL}, {NULL}}},
        {LODGE_VERB_OPTION_JOBS,
         {{"jobs", 'j', 0, G_OPTION_ARG_INT, &options->jobs,
           N_("how many machines at a time, 1 to 256"), N_("N")},
          {NULL}}},
        {LODGE_VERB_OPTION_LIVE,
         {{"once", 0, 0, G_OPTION_ARG_NONE, &options->once,
           N_("print once, as it does where output is no terminal"), NULL},
          {"interval", 'n', 0, G_OPTION_ARG_FILENAME, &options->interval,
           N_("seconds between two looks, 0.1 to 3600 (default 2)"), N_("SECONDS")},
          {NULL}}},
    };

    g_option_context_add_main_entries(context, connect, "lodge");
    for (gsize i = 0; i < G_N_ELEMENTS(groups); i++) {
        if (wanted & groups[i].when) {
            g_option_context_add_main_entries(context, groups[i].entries, "lodge");
        }
    }
}

static GOptionContext *make_context(const LodgeVerbHelp *help, const GOptionEntry *own,
                                    LodgeVerbOptions *options, guint wanted)
{
    GOptionContext *context = g_option_context_new(help->parameters ? _(help->parameters) : NULL);

    g_option_context_set_summary(context, _(help->summary));
    g_option_context_set_description(context, help->description ? _(help->description) : NULL);
    if (own) {
        g_option_context_add_main_entries(context, own, "lodge");
    }
    add_common(context, options, wanted);
    return context;
}

static gboolean check_interval(LodgeVerbOptions *options, GError **error)
{
    char *end = NULL;

    options->interval_s = INTERVAL_DEFAULT;
    if (!options->interval) {
        return TRUE;
    }
    options->interval_s = g_ascii_strtod(options->interval, &end);
    if (end == options->interval || *end != '\0' || !(options->interval_s >= INTERVAL_LEAST) ||
        options->interval_s > INTERVAL_MOST) {
        return lodge_error_refuse(error, _("--interval %s: expected seconds from 0.1 to 3600"),
                                  options->interval);
    }
    return TRUE;
}

static gboolean check_parameters(const LodgeVerbOptions *options, const LodgeVerbHelp *help,
                                 GError **error)
{
    guint count = g_strv_length(options->parameters);

    if (count > help->max) {
        return lodge_error_refuse(
            error, _("“%s” is one argument too many; “lodgectl %s --help” tells what it takes"),
            options->parameters[help->max], help->verb);
    }
    if (count < help->min) {
        return lodge_error_refuse(error,
                                  _("%s is missing; “lodgectl %s --help” tells what it takes"),
                                  _(help->parameters), help->verb);
    }
    for (guint i = 0; i < count; i++) {
        if (!g_utf8_validate(options->parameters[i], -1, NULL)) {
            return lodge_error_refuse(error, _("Argument %u is not UTF-8, as all names are"),
                                      i + 1);
        }
    }
    return TRUE;
}

void lodge_verb_options_refuse(GError **error, const char *verb)
{
    g_autofree char *text = error && *error ? g_strdup((*error)->message) : NULL;

    g_clear_error(error);
    lodge_error_refuse(error, _("%s; “lodgectl %s --help” lists the options"), text, verb);
}

gboolean lodge_verb_options_parse(LodgeVerbOptions *options, const LodgeVerbHelp *help,
                                  guint wanted, const GOptionEntry *own, int argc, char **argv,
                                  GError **error)
{
    g_autofree char *program = g_strdup_printf("lodgectl %s", help->verb);
    g_autoptr(GOptionContext) context = NULL;

    memset(options, 0, sizeof(*options));
    options->jobs = (int)help->jobs;
    g_set_prgname(program);
    context = make_context(help, own, options, wanted);
    if (!g_option_context_parse(context, &argc, &argv, error)) {
        lodge_verb_options_refuse(error, help->verb);
        return FALSE;
    }
    /* "--" before names that begin with "-" is left to us. */
    if (argc > 1 && strcmp(argv[1], "--") == 0) {
        argv++;
        argc--;
    }
    options->parameters = g_new0(char *, (gsize)argc);
    for (int i = 1; i < argc; i++) {
        options->parameters[i - 1] = g_strdup(argv[i]);
    }
    if ((wanted & LODGE_VERB_OPTION_JOBS) && (options->jobs < 1 || options->jobs > JOBS_MOST)) {
        return lodge_error_refuse(error, _("--jobs %d: expected a number from 1 to %d"),
                                  options->jobs, JOBS_MOST);
    }
    return check_interval(options, error) && check_parameters(options, help, error);
}

gboolean lodge_verb_options_take_count(const char *option, const char *text, guint most,
                                       guint *count_out, GError **error)
{
    guint64 value;

    if (!g_ascii_string_to_unsigned(text, 10, 1, most, &value, NULL)) {
        return lodge_error_refuse(error, _("%s %s: expected a number from 1 to %u"), option, text,
                                  most);
    }
    *count_out = (guint)value;
    return TRUE;
}

gboolean lodge_verb_options_take_memory(const char *text, guint64 *bytes_out, GError **error)
{
    if (!lodge_parse_memory(text, bytes_out, error)) {
        g_prefix_error(error, "--memory: ");
        return FALSE;
    }
    if (*bytes_out < MEMORY_MIN || *bytes_out % HV_MIB) {
        return lodge_error_refuse(
            error, _("--memory %s: a machine's memory is a multiple of 1 MiB, at least 2 MiB"),
            text);
    }
    return TRUE;
}

void lodge_verb_options_clear(LodgeVerbOptions *options)
{
    g_clear_pointer(&options->connect, g_free);
    g_clear_pointer(&options->interval, g_free);
    g_clear_pointer(&options->parameters, g_strfreev);
}
