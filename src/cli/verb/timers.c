/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `lodgectl timers`: the machines' virtual timers, and what became of their ticks. */
#include "cli/verb.h"

#include "cli/group-verb.h"
#include "common/i18n.h"

static const LodgeColumn columns[] = {
    {"machine", N_("MACHINE"), LODGE_CELL_TEXT},
    {"name", N_("TIMER"), LODGE_CELL_TEXT},
    {"policy", N_("POLICY"), LODGE_CELL_TEXT},
    {"vcpu", N_("VCPU"), LODGE_CELL_NUMBER},
    {"irq", NULL, LODGE_CELL_NUMBER},
    {"armed", N_("ARMED"), LODGE_CELL_FLAG},
    {"period_ns", N_("PERIOD"), LODGE_CELL_SPAN},
    {"fired", N_("FIRED"), LODGE_CELL_NUMBER},
    {"issued", NULL, LODGE_CELL_NUMBER},
    {"accepted", N_("ACCEPTED"), LODGE_CELL_NUMBER},
    {"merged", N_("MERGED"), LODGE_CELL_NUMBER},
    {"discarded", N_("DISCARDED"), LODGE_CELL_NUMBER},
    {"masked_skips", NULL, LODGE_CELL_NUMBER},
    {"pending", N_("PENDING"), LODGE_CELL_NUMBER},
    {"backlog_max", NULL, LODGE_CELL_NUMBER},
    {"retargets", NULL, LODGE_CELL_NUMBER},
    {"period_clamped", NULL, LODGE_CELL_NUMBER},
    {"late.p50", N_("LATE p50"), LODGE_CELL_SPAN},
    {"late.p99", N_("p99"), LODGE_CELL_SPAN},
    {"late.max", N_("max"), LODGE_CELL_SPAN},
    {"jitter.p50", NULL, LODGE_CELL_SPAN},
    {"jitter.p99", N_("JITTER p99"), LODGE_CELL_SPAN},
};

int lodge_verb_timers(int argc, char **argv)
{
    static const LodgeGroupVerb verb = {
        .help = {.verb = "timers",
                 .parameters = N_("[NAME|GLOB…]"),
                 .summary =
                     N_("Shows machines' virtual timers: ticks that fell due, what became of "
                        "them, and how late they came.\nOn a terminal it stays; q leaves."),
                 .max = LODGE_VERB_MANY},
        .group = "timer",
        .lacking = N_("its machines have no statistics of timers"),
        .columns = columns,
        .count = G_N_ELEMENTS(columns),
    };

    return lodge_group_verb_run(&verb, argc, argv);
}
