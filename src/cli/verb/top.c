/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `lodgectl top`: what machines use, the busiest first. */
#include "cli/verb.h"

#include "cli/live.h"
#include "cli/machines.h"
#include "cli/stats.h"
#include "common/i18n.h"

enum { NAME, STATE, VCPUS, CPU, WAIT, RESIDENT, MEMORY, EXITS, HALTS, KICKS, CPU_TIME, ENGINE };

static const LodgeColumn columns[] = {
    [NAME] = {"machine", N_("MACHINE"), LODGE_CELL_TEXT},
    [STATE] = {"state", N_("STATE"), LODGE_CELL_TEXT},
    [VCPUS] = {"vcpus", N_("VCPUS"), LODGE_CELL_NUMBER},
    [CPU] = {"cpu_percent", N_("CPU%"), LODGE_CELL_REAL},
    [WAIT] = {"ready_percent", N_("READY%"), LODGE_CELL_REAL},
    [RESIDENT] = {"resident_bytes", N_("RESIDENT"), LODGE_CELL_BYTES},
    [MEMORY] = {"memory_bytes", N_("MEMORY"), LODGE_CELL_BYTES},
    [EXITS] = {"exits_per_s", N_("EXITS/s"), LODGE_CELL_REAL},
    [HALTS] = {"halts_per_s", N_("HALTS/s"), LODGE_CELL_REAL},
    [KICKS] = {"kicks_per_s", N_("KICKS/s"), LODGE_CELL_REAL},
    [CPU_TIME] = {"cpu_time_ns", N_("CPU TIME"), LODGE_CELL_SPAN},
    [ENGINE] = {"engine", N_("ENGINE"), LODGE_CELL_TEXT},
};

enum { RATE_CPU, RATE_READY, RATE_EXITS, RATE_HALTS, RATE_KICKS, RATES };

/* What was counted at a look. */
typedef struct {
    gint64 moment_us;
    gboolean known[RATES];
    guint64 count[RATES];
} Sample;

static guint64 ready_ns(const LodgeStats *stats)
{
    guint64 vcpus, one, sum = 0;

    lodge_stats_number(stats, "vcpu.maximum", &vcpus);
    for (guint i = 0; i < MIN(vcpus, LODGE_STATS_GROUPS_MOST); i++) {
        g_autofree char *name = g_strdup_printf("vcpu.%u.wait", i);

        lodge_stats_number(stats, name, &one);
        sum += one;
    }
    return sum;
}

static Sample *sample_new(const LodgeStats *stats)
{
    Sample *sample = g_new0(Sample, 1);
    guint64 unused;

    sample->moment_us = g_get_monotonic_time();
    sample->known[RATE_CPU] = lodge_stats_number(stats, "cpu.time", &sample->count[RATE_CPU]);
    sample->known[RATE_READY] = lodge_stats_number(stats, "vcpu.0.wait", &unused);
    sample->count[RATE_READY] = ready_ns(stats);
    sample->known[RATE_EXITS] = lodge_stats_number(stats, "engine.exits.io", &unused);
    sample->count[RATE_EXITS] = lodge_stats_sum(stats, "engine.exits.");
    sample->known[RATE_HALTS] =
        lodge_stats_number(stats, "sched.halts", &sample->count[RATE_HALTS]);
    sample->known[RATE_KICKS] =
        lodge_stats_number(stats, "sched.kicks", &sample->count[RATE_KICKS]);
    return sample;
}

/* A machine that has started anew counts from 0: no rate until the next look. */
static void set_rate(LodgeTable *table, guint column, const Sample *before, const Sample *now,
                     guint rate, double scale)
{
    gint64 span_us = before ? now->moment_us - before->moment_us : 0;

    if (span_us > 0 && now->known[rate] && before->known[rate] &&
        now->count[rate] >= before->count[rate]) {
        lodge_table_set_real(table, column,
                             (double)(now->count[rate] - before->count[rate]) * scale /
                                 ((double)span_us / 1e6));
    }
}

static void set_number(LodgeTable *table, guint column, const LodgeStats *stats, const char *name,
                       guint64 scale)
{
    guint64 number;

    if (lodge_stats_number(stats, name, &number)) {
        lodge_table_set_number(table, column, number < G_MAXUINT64 / scale ? number * scale : 0);
    }
}

static void add_machine(LodgeTable *table, GHashTable *samples, const LodgeStats *stats)
{
    const Sample *before = g_hash_table_lookup(samples, stats->name);
    Sample *now = sample_new(stats);
    const double per_cent = 100 / 1e9; /* of a CPU: ns a second */
    guint64 state;

    lodge_table_add_row(table);
    lodge_table_set_text(table, NAME, stats->name);
    lodge_stats_number(stats, "state.state", &state);
    lodge_table_set_text(table, STATE, lodge_machine_state_name((int)MIN(state, 100)));
    set_number(table, VCPUS, stats, "vcpu.current", 1);
    set_number(table, RESIDENT, stats, "balloon.rss", 1024);
    set_number(table, MEMORY, stats, "balloon.current", 1024);
    set_number(table, CPU_TIME, stats, "cpu.time", 1);
    lodge_table_set_text(table, ENGINE, lodge_stats_text(stats, "engine.name"));
    set_rate(table, CPU, before, now, RATE_CPU, per_cent);
    set_rate(table, WAIT, before, now, RATE_READY, per_cent);
    set_rate(table, EXITS, before, now, RATE_EXITS, 1);
    set_rate(table, HALTS, before, now, RATE_HALTS, 1);
    set_rate(table, KICKS, before, now, RATE_KICKS, 1);
    g_hash_table_replace(samples, g_strdup(stats->name), now);
}

/* @user_data: the Samples of the last look, by name. */
static LodgeTable *look(virConnectPtr connection, GStrv words, gpointer user_data, GError **error)
{
    g_autoptr(GPtrArray) all = lodge_stats_fetch(connection, words, error);
    LodgeTable *table;

    if (!all) {
        return NULL;
    }
    table = lodge_table_new(columns, G_N_ELEMENTS(columns));
    for (guint i = 0; i < all->len; i++) {
        add_machine(table, user_data, g_ptr_array_index(all, i));
    }
    lodge_table_sort(table, CPU);
    return table;
}

int lodge_verb_top(int argc, char **argv)
{
    static const LodgeVerbHelp help = {
        .verb = "top",
        .parameters = N_("[NAME|GLOB…]"),
        .summary =
            N_("Shows what machines use, the busiest first. On a terminal it stays; q leaves."),
        .description =
            N_("Rates are of the time between two looks, so that the first table comes "
               "after the interval.\nREADY% is time in which vCPUs wanted a CPU and had none."),
        .max = LODGE_VERB_MANY,
    };
    g_autoptr(GHashTable) samples = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);

    return lodge_live_run(&help, 2, look, samples, argc, argv);
}
