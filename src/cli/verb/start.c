/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `lodgectl start`: from shut off, or from a pause. */
#include "cli/verb.h"

#include "cli/machine-bulk.h"
#include "common/i18n.h"

static LodgeBulkOutcome start(LodgeBulk *bulk, gpointer item, gpointer user_data, GError **error)
{
    LodgeMachine *machine = item;
    int rc;

    (void)bulk;
    (void)user_data;
    if (machine->active && machine->state != VIR_DOMAIN_PAUSED) {
        return lodge_machine_bulk_spare(_("is running"), error);
    }
    if (machine->active) {
        rc = virDomainResume(machine->domain);
    } else {
        rc = virDomainCreate(machine->domain);
    }
    if (rc < 0) {
        return lodge_machine_bulk_judge(machine, LODGE_WISH_RUNNING, _("cannot be started"),
                                        _("is running"), error);
    }
    return LODGE_BULK_DONE;
}

int lodge_verb_start(int argc, char **argv)
{
    static const LodgeMachineBulk verb = {
        .help = {.verb = "start",
                 .parameters = N_("NAME|GLOB…"),
                 .summary = N_("Starts machines that are shut off, and lets paused ones go on."),
                 .max = LODGE_VERB_MANY,
                 .jobs = 8},
        .bulk = {.doing = N_("starting"), .done = N_("started"), .act = start},
    };

    return lodge_machine_bulk_run(&verb, argc, argv);
}
