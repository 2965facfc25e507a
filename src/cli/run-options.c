/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Options of `lodgectl run`: each bad value is one line that names it, the rule and the next step. */
#include "cli/run-options.h"

#include "cli/host-checks.h"
#include "cli/timer-option.h"
#include "cli/verb-options.h"

#include "common/i18n.h"
#include "common/lodge-error.h"
#include "common/units.h"

#include <hv/domain.h>

#include <string.h>
#include <unistd.h>

#define VCPUS_MAX         8
#define LOCK_SAMPLING_MAX 1000000u
#define TIMEOUT_MAX_S     4e6 /* what a main loop's timer holds in ms */
#define DEFAULT_BYTES     (512 * HV_MIB)

/* What stands on the command line, before it is checked. */
typedef struct {
    char *kernel, *initrd, *append, *memory, *vcpus, *workers, *engine, *serial, *timeout,
        *on_reboot, *stats, *lock_sampling, *debug, *policy, *boost, *pv, *clock_policy;
    char **timers;
    gboolean testdev;
} Given;

static void given_clear(Given *given)
{
    g_free(given->kernel);
    g_free(given->initrd);
    g_free(given->append);
    g_free(given->memory);
    g_free(given->vcpus);
    g_free(given->workers);
    g_free(given->engine);
    g_free(given->serial);
    g_free(given->timeout);
    g_free(given->on_reboot);
    g_free(given->stats);
    g_free(given->lock_sampling);
    g_strfreev(given->timers);
    g_free(given->debug);
    g_free(given->policy);
    g_free(given->boost);
    g_free(given->pv);
    g_free(given->clock_policy);
}

static gboolean take_memory(LodgeRunOptions *options, const char *text, GError **error)
{
    guint64 available, bytes = DEFAULT_BYTES;

    if (text && !lodge_verb_options_take_memory(text, &bytes, error)) {
        return FALSE;
    }
    if (lodge_host_available_memory("", &available) && bytes > available) {
        g_autofree char *wants = lodge_format_bytes(bytes);

        return lodge_error_refuse(
            error,
            _("--memory %s: the machine needs %s, and this host has %" G_GUINT64_FORMAT
              " MiB available"),
            text ? text : "512M", wants, available / HV_MIB);
    }
    options->memory_bytes = bytes;
    return TRUE;
}

static gboolean take_count(const char *option, const char *text, guint most, guint standard,
                           guint *count_out, GError **error)
{
    *count_out = standard;
    return !text || lodge_verb_options_take_count(option, text, most, count_out, error);
}

static gboolean take_cpus(LodgeRunOptions *options, const Given *given, GError **error)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    guint cores = online > 0 ? (guint)online : 1;

    return take_count("--vcpus", given->vcpus, VCPUS_MAX, 1, &options->vcpus, error) &&
           take_count("--workers", given->workers, cores, MIN(options->vcpus, cores),
                      &options->workers, error);
}

static gboolean take_serial(LodgeRunOptions *options, const char *text, GError **error)
{
    if (!text || strcmp(text, "stdio") == 0) {
        options->serial = LODGE_SERIAL_STDIO;
    } else if (strcmp(text, "none") == 0) {
        options->serial = LODGE_SERIAL_NONE;
    } else if (text[0] != '\0') {
        options->serial = LODGE_SERIAL_FILE;
        options->serial_path = g_strdup(text);
    } else {
        return lodge_error_refuse(error, _("--serial: expected stdio, none or a file's path"));
    }
    return TRUE;
}

static gboolean take_timeout(LodgeRunOptions *options, const char *text, GError **error)
{
    char *end = NULL;

    if (!text) {
        return TRUE;
    }
    options->timeout_s = g_ascii_strtod(text, &end);
    if (end == text || *end != '\0' || !(options->timeout_s > 0) ||
        options->timeout_s > TIMEOUT_MAX_S) {
        return lodge_error_refuse(
            error, _("--timeout %s: expected seconds, more than 0 and at most 4,000,000"), text);
    }
    return TRUE;
}

static gboolean take_on_reboot(LodgeRunOptions *options, const char *text, GError **error)
{
    if (text && strcmp(text, "restart") != 0 && strcmp(text, "exit") != 0) {
        return lodge_error_refuse(error, _("--on-reboot %s: expected restart or exit"), text);
    }
    options->restart = !text || strcmp(text, "restart") == 0;
    return TRUE;
}

static gboolean take_policy(LodgeRunOptions *options, const Given *given, GError **error)
{
    const char *policy = given->policy ? given->policy : "credit";
    const char *boost = given->boost ? given->boost : "on";

    if (strcmp(policy, "credit") != 0 && strcmp(policy, "host") != 0) {
        return lodge_error_refuse(error, _("--policy %s: expected credit or host"), policy);
    }
    if (strcmp(boost, "on") != 0 && strcmp(boost, "off") != 0) {
        return lodge_error_refuse(error, _("--boost %s: expected on or off"), boost);
    }
    options->host_policy = strcmp(policy, "host") == 0;
    options->boost = strcmp(boost, "on") == 0;
    if (options->host_policy && given->workers) {
        return lodge_error_refuse(
            error,
            _("--workers %s: with --policy host each virtual CPU has a thread of its "
              "own; leave one of the two out"),
            given->workers);
    }
    return TRUE;
}

static gboolean take_stats(LodgeRunOptions *options, const char *text, GError **error)
{
    static const struct {
        const char *name;
        LodgeStats stats;
    } known[] = {
        {"json", LODGE_STATS_JSON},
        {"locks", LODGE_STATS_LOCKS},
        {"locks-json", LODGE_STATS_LOCKS_JSON},
    };
    gsize length = text ? strcspn(text, ":") : 0;

    if (!text) {
        return TRUE;
    }
    for (guint i = 0; i < G_N_ELEMENTS(known); i++) {
        if (strlen(known[i].name) == length && strncmp(text, known[i].name, length) == 0) {
            options->stats = known[i].stats;
        }
    }
    if (options->stats == LODGE_STATS_NONE || (text[length] == ':' && text[length + 1] == '\0')) {
        return lodge_error_refuse(
            error, _("--stats %s: expected json, locks or locks-json, or one with :FILE after it"),
            text);
    }
    options->stats_path = text[length] ? g_strdup(text + length + 1) : NULL;
    return TRUE;
}

static void lock_sampling_clear(gpointer data)
{
    g_free(((LodgeLockSampling *)data)->class_name);
}

static gboolean take_lock_sampling(LodgeRunOptions *options, const char *text, GError **error)
{
    g_auto(GStrv) parts = text ? g_strsplit(text, ",", -1) : NULL;

    if (!text) {
        return TRUE;
    }
    options->lock_sampling = g_array_new(FALSE, FALSE, sizeof(LodgeLockSampling));
    g_array_set_clear_func(options->lock_sampling, lock_sampling_clear);
    for (guint i = 0; i == 0 || parts[i]; i++) {
        const char *equals = parts[i] ? strchr(parts[i], '=') : NULL;
        LodgeLockSampling one;
        guint64 number;

        if (!equals || equals == parts[i] ||
            !g_ascii_string_to_unsigned(equals + 1, 10, 0, LOCK_SAMPLING_MAX, &number, NULL)) {
            return lodge_error_refuse(
                error,
                _("--lock-sampling %s: expected CLASS=N, more with commas between; N from "
                  "1, each taking, to %u, one in so many, or 0, none"),
                text, LOCK_SAMPLING_MAX);
        }
        one = (LodgeLockSampling){g_strndup(parts[i], (gsize)(equals - parts[i])), (guint)number};
        g_array_append_val(options->lock_sampling, one);
    }
    return TRUE;
}

static gboolean take_debug(LodgeRunOptions *options, const char *text, GError **error)
{
    static const struct {
        const char *name;
        guint flag;
    } known[] = {
        {"force-io-exit", HV_DOMAIN_FORCE_IO_EXIT},
        {"trace-blocks", HV_DOMAIN_TRACE_BLOCKS},
    };
    g_auto(GStrv) names = text ? g_strsplit(text, ",", -1) : NULL;

    if (text && !names[0]) {
        return lodge_error_refuse(error, _("--debug: expected force-io-exit or trace-blocks"));
    }
    for (guint i = 0; names && names[i]; i++) {
        guint at = 0;

        while (at < G_N_ELEMENTS(known) && strcmp(names[i], known[at].name) != 0) {
            at++;
        }
        if (at == G_N_ELEMENTS(known)) {
            return lodge_error_refuse(
                error,
                _("--debug %s: expected force-io-exit or trace-blocks, or both with a "
                  "comma between"),
                text);
        }
        options->debug_flags |= known[at].flag;
    }
    return TRUE;
}

/* What is named is shown, and nothing else. */
static gboolean take_pv(LodgeRunOptions *options, const char *text, GError **error)
{
    static const struct {
        const char *name;
        guint parts;
    } known[] = {
        {"on", HV_PV_PART_ALL},      {"off", 0},
        {"clock", HV_PV_PART_CLOCK}, {"steal", HV_PV_PART_STEAL},
        {"eoi", HV_PV_PART_EOI},     {"unhalt", HV_PV_PART_UNHALT},
        {"flush", HV_PV_PART_FLUSH}, {"ipi", HV_PV_PART_IPI},
        {"yield", HV_PV_PART_YIELD}, {"poll", HV_PV_PART_POLL},
    };
    g_auto(GStrv) names = g_strsplit(text ? text : "on", ",", -1);
    guint shown = 0;

    for (guint i = 0; i == 0 || names[i]; i++) {
        guint at = 0;

        while (at < G_N_ELEMENTS(known) && g_strcmp0(names[i], known[at].name) != 0) {
            at++;
        }
        if (at == G_N_ELEMENTS(known)) {
            return lodge_error_refuse(
                error,
                _("--pv %s: expected on, off, or parts with commas between: clock, steal, "
                  "eoi, unhalt, flush, ipi, yield, poll"),
                text);
        }
        shown |= known[at].parts;
    }
    options->pv_hidden = HV_PV_PART_ALL & ~shown;
    return TRUE;
}

static gboolean take_time(LodgeRunOptions *options, const Given *given, GError **error)
{
    const char *policy = given->clock_policy ? given->clock_policy : "advance";
    guint taken = 0;

    if (strcmp(policy, "advance") != 0 && strcmp(policy, "freeze") != 0) {
        return lodge_error_refuse(error, _("--clock-policy %s: expected advance or freeze"),
                                  policy);
    }
    options->time.clock_policy = strcmp(policy, "freeze") == 0 ? HV_CLOCK_FREEZE : HV_CLOCK_ADVANCE;
    for (guint i = 0; given->timers && given->timers[i]; i++) {
        if (!lodge_timer_option_parse(&options->time, &taken, given->timers[i], error)) {
            return FALSE;
        }
    }
    return TRUE;
}

static gboolean check(LodgeRunOptions *options, Given *given, GError **error)
{
    if (!given->kernel) {
        return lodge_error_refuse(
            error, _("--kernel is missing: name a kernel image, such as /boot/vmlinuz-*"));
    }
    options->kernel = g_steal_pointer(&given->kernel);
    options->initrd = g_steal_pointer(&given->initrd);
    options->append = given->append ? g_steal_pointer(&given->append) : g_strdup("");
    options->engine = given->engine ? g_steal_pointer(&given->engine) : g_strdup("auto");
    options->testdev = given->testdev;
    return take_memory(options, given->memory, error) && take_cpus(options, given, error) &&
           take_policy(options, given, error) && take_serial(options, given->serial, error) &&
           take_timeout(options, given->timeout, error) &&
           take_on_reboot(options, given->on_reboot, error) &&
           take_stats(options, given->stats, error) &&
           take_lock_sampling(options, given->lock_sampling, error) &&
           take_time(options, given, error) && take_debug(options, given->debug, error) &&
           take_pv(options, given->pv, error);
}

static GOptionContext *make_context(Given *given)
{
    const GOptionEntry entries[] = {
        /* All as they are typed: bytes, which need not be text in the locale's encoding. */
        {"kernel", 'k', 0, G_OPTION_ARG_FILENAME, &given->kernel,
         N_("Linux bzImage, ELF with a PVH note, or Multiboot ELF"), N_("FILE")},
        {"initrd", 'i', 0, G_OPTION_ARG_FILENAME, &given->initrd, N_("initial RAM disk"),
         N_("FILE")},
        {"append", 'a', 0, G_OPTION_ARG_FILENAME, &given->append, N_("kernel command line"),
         N_("TEXT")},
        {"memory", 'm', 0, G_OPTION_ARG_FILENAME, &given->memory,
         N_("memory; bare numbers are MiB (default 512)"), N_("N[K|M|G]")},
        {"vcpus", 'c', 0, G_OPTION_ARG_FILENAME, &given->vcpus, N_("virtual CPUs (default 1)"),
         N_("1…8")},
        {"workers", 0, 0, G_OPTION_ARG_FILENAME, &given->workers,
         N_("host threads that run them (default: one each, at most one a core)"), N_("N")},
        {"policy", 0, 0, G_OPTION_ARG_FILENAME, &given->policy,
         N_("share the workers by weight, or a host thread for each virtual CPU (default credit)"),
         N_("credit|host")},
        {"boost", 0, 0, G_OPTION_ARG_FILENAME, &given->boost,
         N_("let a virtual CPU give its place to the one it waits for (default on)"), N_("on|off")},
        {"engine", 0, 0, G_OPTION_ARG_FILENAME, &given->engine, N_("auto or soft"), N_("NAME")},
        {"serial", 0, 0, G_OPTION_ARG_FILENAME, &given->serial,
         N_("where the serial port goes; a file is truncated (default stdio)"),
         N_("stdio|FILE|none")},
        {"timeout", 0, 0, G_OPTION_ARG_FILENAME, &given->timeout,
         N_("stop after so many seconds, exit status 4"), N_("S")},
        {"on-reboot", 0, 0, G_OPTION_ARG_FILENAME, &given->on_reboot,
         N_("what a guest's reboot does (default restart)"), N_("restart|exit")},
        {"testdev", 0, 0, G_OPTION_ARG_NONE, &given->testdev,
         N_("add the test devices of kvm-unit-tests"), NULL},
        {"stats", 0, 0, G_OPTION_ARG_FILENAME, &given->stats,
         N_("print all statistics, or a table of all locks, at exit, on stderr or into a file"),
         N_("json|locks|locks-json[:FILE]")},
        {"lock-sampling", 0, 0, G_OPTION_ARG_FILENAME, &given->lock_sampling,
         N_("time one taking in N of the locks of a class (default 64)"), N_("CLASS=N[,CLASS=N]")},
        {"timer", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &given->timers,
         N_("leave a timer out, or say what becomes of its missed ticks: merge, discard, delay or "
            "catchup"),
         N_("NAME,present=no|policy=…")},
        {"clock-policy", 0, 0, G_OPTION_ARG_FILENAME, &given->clock_policy,
         N_("whether time passes for the guest while it cannot run, as when the host sleeps "
            "(default advance)"),
         N_("advance|freeze")},
        {"pv", 0, 0, G_OPTION_ARG_FILENAME, &given->pv,
         N_("what the guest sees of KVM's paravirtual interface (default on)"),
         N_("on|off|PART[,PART]")},
        {"debug", 0, 0, G_OPTION_ARG_FILENAME, &given->debug,
         N_("debugging: force-io-exit, trace-blocks, or both"), N_("WHAT[,WHAT]")},
        {NULL},
    };
    GOptionContext *context = g_option_context_new(NULL);

    g_option_context_add_main_entries(context, entries, "lodge");
    g_option_context_set_summary(
        context, _("Starts a machine in this terminal. Ctrl-A X leaves it, Ctrl-A H helps."));
    g_option_context_set_description(
        context,
        _("Exit status: 0 power-off (or reboot, with --on-reboot exit), 1 own failure, 2 bad "
          "input,\n3 crash or triple fault, 4 timeout, 5 all vCPUs halted with interrupts off,\n"
          "32+N debug exit, 130 Ctrl-A X, 128+N signal N."));
    return context;
}

gboolean lodge_run_options_parse(LodgeRunOptions *options, int argc, char **argv, GError **error)
{
    Given given = {0};
    g_autoptr(GOptionContext) context = make_context(&given);
    gboolean good;

    memset(options, 0, sizeof(*options));
    g_set_prgname("lodgectl run");
    good = g_option_context_parse(context, &argc, &argv, error);
    if (!good) {
        lodge_verb_options_refuse(error, "run");
    }
    if (good && argc > 1) {
        good = lodge_error_refuse(error, _("“%s” is no option; “lodgectl run --help” lists them"),
                                  argv[1]);
    }
    good = good && check(options, &given, error);
    given_clear(&given);
    return good;
}

void lodge_run_options_clear(LodgeRunOptions *options)
{
    g_clear_pointer(&options->kernel, g_free);
    g_clear_pointer(&options->initrd, g_free);
    g_clear_pointer(&options->append, g_free);
    g_clear_pointer(&options->engine, g_free);
    g_clear_pointer(&options->serial_path, g_free);
    g_clear_pointer(&options->stats_path, g_free);
    g_clear_pointer(&options->lock_sampling, g_array_unref);
}
