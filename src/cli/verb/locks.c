/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `lodgectl locks`: the machines' locks of the hypervisor that cost most. */
#include "cli/verb.h"

#include "cli/group-verb.h"
#include "common/i18n.h"

enum { LOST = 10 };

static const LodgeColumn columns[] = {
    {"machine", N_("MACHINE"), LODGE_CELL_TEXT},
    {"class", N_("LOCK"), LODGE_CELL_TEXT},
    {"instance", N_("NO."), LODGE_CELL_NUMBER},
    {"kind", N_("KIND"), LODGE_CELL_TEXT},
    {"rank", NULL, LODGE_CELL_NUMBER},
    {"acquired", N_("TAKEN"), LODGE_CELL_NUMBER},
    {"contended", N_("WAITED"), LODGE_CELL_NUMBER},
    {"parked", N_("SLEPT"), LODGE_CELL_NUMBER},
    {"try_failed", NULL, LODGE_CELL_NUMBER},
    {"waiters_max", NULL, LODGE_CELL_NUMBER},
    [LOST] = {"lost", N_("LOST"), LODGE_CELL_SPAN},
    {"wait.total", N_("WAIT"), LODGE_CELL_SPAN},
    {"wait.p50", NULL, LODGE_CELL_SPAN},
    {"wait.p99", N_("p99"), LODGE_CELL_SPAN},
    {"wait.max", NULL, LODGE_CELL_SPAN},
    {"hold.p50", N_("HOLD p50"), LODGE_CELL_SPAN},
    {"hold.p99", N_("p99"), LODGE_CELL_SPAN},
    {"hold.max", NULL, LODGE_CELL_SPAN},
    {"acquire.p50", N_("TAKING"), LODGE_CELL_SPAN},
    {"acquire.p99", NULL, LODGE_CELL_SPAN},
};

int lodge_verb_locks(int argc, char **argv)
{
    static const LodgeGroupVerb verb = {
        .help = {.verb = "locks",
                 .parameters = N_("[NAME|GLOB…]"),
                 .summary =
                     N_("Shows the hypervisor's locks that cost machines most, the worst first."
                        "\nOn a terminal it stays; q leaves."),
                 .max = LODGE_VERB_MANY},
        .group = "lock",
        .lacking = N_("its machines have no statistics of locks"),
        .columns = columns,
        .count = G_N_ELEMENTS(columns),
        .order = LOST,
    };

    return lodge_group_verb_run(&verb, argc, argv);
}
