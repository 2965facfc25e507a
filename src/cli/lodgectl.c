/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lodgectl: chooses the verb. */
#include "cli/verb.h"

#include "common/i18n.h"
#include "common/lodge-error.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const LodgeVerb verbs[] = {
    {"run", N_("start a machine in this terminal, without a daemon"), lodge_verb_run},
    {"list", N_("list machines"), lodge_verb_list},
    {"create", N_("create machines from a definition"), lodge_verb_create},
    {"start", N_("start machines, or let paused ones go on"), lodge_verb_start},
    {"stop", N_("ask guests to shut down, and wait"), lodge_verb_stop},
    {"destroy", N_("end machines at once"), lodge_verb_destroy},
    {"delete", N_("delete machines, whatever their state"), lodge_verb_delete},
    {"console", N_("connect this terminal to a machine's serial console"), lodge_verb_console},
    {"top", N_("show what machines use"), lodge_verb_top},
    {"timers", N_("show machines' virtual timers"), lodge_verb_timers},
    {"locks", N_("show the locks that cost machines most"), lodge_verb_locks},
    {"host", N_("show the hypervisor and its host"), lodge_verb_host},
    {"doctor", N_("check this host, and say what to do next"), lodge_verb_doctor},
};

static void print_help(void)
{
    g_print("%s\n\n", _("Usage: lodgectl VERB [OPTION…]"));
    for (gsize i = 0; i < G_N_ELEMENTS(verbs); i++) {
        g_print("  %-10s %s\n", verbs[i].name, _(verbs[i].summary));
    }
    g_print("\n%s\n",
            _("“lodgectl VERB --help” explains a verb; “lodgectl --version” the version."));
}

int lodge_verb_fail(const GError *error)
{
    gboolean input =
        g_error_matches(error, LODGE_ERROR, LODGE_ERROR_INPUT) || error->domain == G_OPTION_ERROR;

    g_printerr("lodgectl: %s\n", error->message);
    return input ? LODGE_EXIT_BAD_INPUT : LODGE_EXIT_FAILED;
}

/* Started with one of them closed, the next file to be opened would take its place, and the machine's
 * output go into whatever that is. */
static void open_standard_files(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) < 0) {
            _exit(LODGE_EXIT_FAILED);
        }
    }
}

/* What was done is one thing; that nobody could be told of it is a failure of its own. */
static int end_output(int status)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        g_printerr(_("lodgectl: Cannot write standard output: %s\n"), g_strerror(errno));
        return status ? status : LODGE_EXIT_FAILED;
    }
    return status;
}

int main(int argc, char **argv)
{
    open_standard_files();
    setlocale(LC_ALL, "");
    textdomain("lodge");
    if (argc < 2 || strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 ||
        strcmp(argv[1], "-h") == 0) {
        print_help();
        return argc < 2 ? LODGE_EXIT_BAD_INPUT : LODGE_EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        g_print("lodgectl %s\n", LODGE_VERSION);
        return LODGE_EXIT_OK;
    }
    for (gsize i = 0; i < G_N_ELEMENTS(verbs); i++) {
        if (strcmp(argv[1], verbs[i].name) == 0) {
            return end_output(verbs[i].run(argc - 1, argv + 1));
        }
    }
    g_printerr(_("lodgectl: “%s” is no verb; “lodgectl --help” lists them\n"), argv[1]);
    return LODGE_EXIT_BAD_INPUT;
}
