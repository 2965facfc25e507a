/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `lodgectl destroy`: as if the power were cut. */
#include "cli/verb.h"

#include "cli/machine-bulk.h"
#include "common/i18n.h"

static LodgeBulkOutcome destroy(LodgeBulk *bulk, gpointer item, gpointer user_data, GError **error)
{
    LodgeMachine *machine = item;

    (void)bulk;
    (void)user_data;
    if (!machine->active) {
        return lodge_machine_bulk_spare(_("is shut off"), error);
    }
    if (virDomainDestroy(machine->domain) < 0) {
        return lodge_machine_bulk_judge(machine, LODGE_WISH_OFF, _("cannot be destroyed"),
                                        _("is shut off"), error);
    }
    return LODGE_BULK_DONE;
}

int lodge_verb_destroy(int argc, char **argv)
{
    static const LodgeMachineBulk verb = {
        .help = {.verb = "destroy",
                 .parameters = N_("NAME|GLOB…"),
                 .summary = N_("Ends machines at once, as if the power were cut. What their guests "
                               "have not saved is lost;\ntheir definitions stay."),
                 .max = LODGE_VERB_MANY,
                 .jobs = 8},
        .bulk = {.doing = N_("destroying"), .done = N_("destroyed"), .act = destroy},
    };

    return lodge_machine_bulk_run(&verb, argc, argv);
}
