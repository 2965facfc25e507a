/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `lodgectl doctor`: what is wrong with this host, and what to do about it. */
#include "cli/verb.h"

#include "cli/daemon-checks.h"
#include "cli/host-checks.h"
#include "cli/verb-options.h"
#include "common/i18n.h"

int lodge_verb_doctor(int argc, char **argv)
{
    static const LodgeVerbHelp help = {
        .verb = "doctor",
        .summary = N_("Checks what machines need of this host, and says what to do next."),
        .description = N_("Exit status: 0 when nothing keeps machines from running, 1 otherwise."),
    };
    g_autofree char *root = NULL;
    const GOptionEntry own[] = {
        {"root", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_FILENAME, &root,
         N_("where /proc, /sys and /dev are, for tests"), N_("FOLDER")},
        {NULL},
    };
    g_auto(LodgeVerbOptions) options = {0};
    g_autoptr(LodgeFindings) findings = lodge_findings_new();
    g_autoptr(GError) error = NULL;
    g_autofree char *text = NULL;

    if (!lodge_verb_options_parse(&options, &help, LODGE_VERB_OPTION_JSON, own, argc, argv,
                                  &error)) {
        return lodge_verb_fail(error);
    }
    lodge_daemon_check(findings, options.connect);
    lodge_host_check(findings, root ? root : "");
    text = options.json ? lodge_findings_to_json(findings) : lodge_findings_to_text(findings);
    g_print("%s", text);
    return lodge_findings_have_problem(findings) ? LODGE_EXIT_FAILED : LODGE_EXIT_OK;
}
