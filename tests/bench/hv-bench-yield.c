/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * `hv-bench yield`: one to three machines, each with as many vCPUs as there are pCPUs, whose vCPUs
 * want a lock all the time. What a directed yield to the one that is next is worth.
 *
 * Gains are run by run, with the same seed: over `vanilla`, where the guest has no paravirtual lock;
 * and over `kick`, where it has one, and who was kicked waits for its turn. More than its part of what
 * one machine has alone is not to be had. Rows in real time say how much of its CPUs the host let it
 * have, without which they say little, and by how much the simulation of the same machines is off,
 * which without a row of 20 or less predicts nothing of this host. --sweep changes one parameter at a
 * time, and marks where `boost+penalty`, the product's way, loses against one of the two.
 */
#include "bench/hv-bench-yield.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const variant_names[] = {"vanilla",       "kick",       "boost",
                                            "boost+penalty", "pause-loop", NULL};
static const char *const engine_names[] = {"sim", "real", NULL};
static const char *const vms_names[] = {"1", "2", "3", NULL};
static const char *const sweep_names[] = {"off", "on", NULL};

/* Of variants: those that gains are over. */
#define YIELD_BASES (UINT64_C(1) << YIELD_VANILLA | UINT64_C(1) << YIELD_KICK)

enum engine { ENGINE_SIM, ENGINE_REAL, ENGINES };

/* ---- parameters ---- */

#define SWEEP_MAX 4

static const struct {
    const char *name;
    size_t offset;
    uint64_t min, max;
} known[] = {
    {"pcpus", offsetof(struct yield_parameters, pcpus), 1, YIELD_VCPUS_MAX},
    {"think_ns", offsetof(struct yield_parameters, think_ns), 1, 1000000000},
    {"hold_ns", offsetof(struct yield_parameters, hold_ns), 1, 1000000000},
    {"spin_ns", offsetof(struct yield_parameters, spin_ns), 1, 1000000000},
    {"ipi_every", offsetof(struct yield_parameters, ipi_every), 0, 1000000},
    {"slice_ns", offsetof(struct yield_parameters, slice_ns), 500000, 100000000},
    {"jitter_pct", offsetof(struct yield_parameters, jitter_pct), 0, 90},
    {"kick_ns", offsetof(struct yield_parameters, kick_ns), 0, 1000000},
    {"halt_ns", offsetof(struct yield_parameters, halt_ns), 0, 1000000},
    {"switch_ns", offsetof(struct yield_parameters, switch_ns), 0, 1000000},
};

struct table {
    struct yield_parameters standard;
    uint64_t others[HV_ARRAY_LEN(known)][SWEEP_MAX];
    unsigned count[HV_ARRAY_LEN(known)];
};

static uint64_t *parameter_of(struct yield_parameters *parameters, unsigned index)
{
    return (uint64_t *)(void *)((char *)parameters + known[index].offset);
}

static bool read_value(const char *word, unsigned index, uint64_t *value_out)
{
    return bench_read_number(word, known[index].min, known[index].max, value_out);
}

/* One line; false when it says nothing that can be understood. */
static bool read_parameter(struct table *table, char *line)
{
    char *save = NULL;
    const char *word = strtok_r(line, " \t\n", &save);
    unsigned index = 0;

    if (!word || word[0] == '#') {
        return true;
    }
    while (index < HV_ARRAY_LEN(known) && strcmp(word, known[index].name) != 0) {
        index++;
    }
    word = strtok_r(NULL, " \t\n", &save);
    if (index == HV_ARRAY_LEN(known) || !word ||
        !read_value(word, index, parameter_of(&table->standard, index))) {
        return false;
    }
    while ((word = strtok_r(NULL, " \t\n", &save))) {
        if (table->count[index] == SWEEP_MAX ||
            !read_value(word, index, &table->others[index][table->count[index]++])) {
            return false;
        }
    }
    return true;
}

static int read_parameters(const struct bench *bench, struct table *table)
{
    FILE *file = fopen(BENCH_YIELD_PARAMETERS, "re");
    char line[256];
    unsigned number = 0;
    int status = 0;

    if (!file) {
        return bench_fail(bench, "%s: %s", BENCH_YIELD_PARAMETERS, strerror(errno));
    }
    while (status == 0 && fgets(line, sizeof(line), file)) {
        number++;
        if (!read_parameter(table, line)) {
            status = bench_fail(bench, "%s:%u: no parameter with values in its range",
                                BENCH_YIELD_PARAMETERS, number);
        }
    }
    fclose(file);
    for (unsigned i = 0; status == 0 && i < HV_ARRAY_LEN(known); i++) {
        if (known[i].min > 0 && *parameter_of(&table->standard, i) == 0) {
            status = bench_fail(bench, "%s: %s is missing", BENCH_YIELD_PARAMETERS, known[i].name);
        }
    }
    return status;
}

/* ---- runs ---- */

enum figure {
    FIGURE_RECORDS,
    FIGURE_GAIN,
    FIGURE_GAIN_KICK,
    FIGURE_SUCCESS,
    FIGURE_SHARE_ERROR,
    FIGURE_KICKS,
    FIGURE_HALTS,
    FIGURE_ATTEMPTED,
    FIGURE_SWITCHES,
    /* Of rows in real time. */
    FIGURE_CPU,
    FIGURE_MISS,
    FIGURES,
};

static const char *const figure_names[FIGURES] = {
    [FIGURE_RECORDS] = "records_per_s",
    [FIGURE_GAIN] = "gain_pct",
    [FIGURE_GAIN_KICK] = "gain_over_kick_pct",
    [FIGURE_SUCCESS] = "yield_success_pct",
    [FIGURE_SHARE_ERROR] = "share_error_pct",
    [FIGURE_KICKS] = "kicks_per_s",
    [FIGURE_HALTS] = "halts_per_s",
    [FIGURE_ATTEMPTED] = "yields_per_s",
    [FIGURE_SWITCHES] = "switches_per_s",
    [FIGURE_CPU] = "cpu_pct",
    [FIGURE_MISS] = "model_miss_pct",
};

static double gain_over(const struct yield_result *result, const struct yield_result *base)
{
    return base->records_per_s > 0 ? 100 * (result->records_per_s / base->records_per_s - 1) : 0;
}

static void note_run(struct bench_series *figures, unsigned run, const struct yield_result *results,
                     enum yield_variant variant, double seconds)
{
    const struct yield_result *result = &results[variant];
    double *values[FIGURES];

    for (unsigned i = 0; i < FIGURES; i++) {
        values[i] = &figures->each[i].runs[run];
    }
    *values[FIGURE_RECORDS] = result->records_per_s;
    *values[FIGURE_GAIN] = gain_over(result, &results[YIELD_VANILLA]);
    *values[FIGURE_GAIN_KICK] = gain_over(result, &results[YIELD_KICK]);
    *values[FIGURE_SUCCESS] =
        result->attempted > 0 ? 100 * result->successful / result->attempted : 0;
    *values[FIGURE_SHARE_ERROR] = result->share_error_pct;
    *values[FIGURE_KICKS] = result->kicks / seconds;
    *values[FIGURE_HALTS] = result->halts / seconds;
    *values[FIGURE_ATTEMPTED] = result->attempted / seconds;
    *values[FIGURE_SWITCHES] = result->switches / seconds;
    *values[FIGURE_CPU] = result->cpu_pct;
    *values[FIGURE_MISS] = result->miss_pct;
}

struct plan {
    struct bench *bench;
    enum engine engine;
    unsigned vms;
    uint64_t span_ns;
    struct bench_series *figures[YIELD_VARIANTS];
};

static int run_one(const struct plan *plan, const struct yield_parameters *parameters,
                   enum yield_variant variant, unsigned run, struct yield_result *result_out)
{
    uint64_t seed = plan->bench->seed + run * 7919 + 1;
    struct yield_result model;
    int rc = yield_run_sim(parameters, variant, plan->vms, plan->span_ns, seed, &model);

    if (plan->engine == ENGINE_SIM) {
        *result_out = model;
        return rc;
    }
    if (rc == 0) {
        rc = yield_run_real(parameters, variant, plan->vms, plan->span_ns, seed, result_out);
    }
    if (rc == 0 && result_out->records_per_s > 0) {
        result_out->miss_pct = gain_over(&model, result_out);
    }
    return rc;
}

/* All that are chosen, and those that gains are over, in each run beginning with another. */
static int run_variants(struct plan *plan, const struct yield_parameters *parameters,
                        uint64_t chosen)
{
    double seconds = (double)plan->span_ns / 1e9;

    for (unsigned run = 0; run < plan->bench->runs; run++) {
        struct yield_result results[YIELD_VARIANTS];

        for (unsigned i = 0; i < YIELD_VARIANTS; i++) {
            enum yield_variant variant = (enum yield_variant)((run + i) % YIELD_VARIANTS);

            if ((chosen | YIELD_BASES) >> variant & 1) {
                int rc = run_one(plan, parameters, variant, run, &results[variant]);

                if (rc < 0) {
                    return bench_fail(plan->bench, "cannot run %u machines: %s", plan->vms,
                                      strerror(-rc));
                }
            }
        }
        for (unsigned i = 0; i < YIELD_VARIANTS; i++) {
            if (chosen >> i & 1) {
                note_run(plan->figures[i], run, results, (enum yield_variant)i, seconds);
            }
        }
    }
    return 0;
}

static void print_rows(const struct plan *plan, uint64_t chosen, const char *swept, uint64_t value)
{
    struct bench *bench = plan->bench;

    for (unsigned i = 0; i < YIELD_VARIANTS; i++) {
        if (!(chosen >> i & 1)) {
            continue;
        }
        bench_row_begin_as(bench, "yield", engine_names[plan->engine]);
        bench_row_text(bench, "variant", variant_names[i]);
        bench_row_number(bench, "vms", plan->vms);
        if (swept) {
            double over_vanilla = bench_figure_median(&plan->figures[i]->each[FIGURE_GAIN]);
            double over_kick = bench_figure_median(&plan->figures[i]->each[FIGURE_GAIN_KICK]);
            double gain = over_vanilla < over_kick ? over_vanilla : over_kick;

            bench_row_text(bench, "parameter", swept);
            bench_row_number(bench, "value", value);
            bench_row_text(bench, "region", gain < -1 ? "loses" : gain > 1 ? "wins" : "even");
        }
        for (unsigned figure = 0; figure < (plan->engine == ENGINE_REAL ? FIGURES : FIGURE_CPU);
             figure++) {
            bench_row_figure(bench, figure_names[figure], &plan->figures[i]->each[figure]);
        }
        bench_row_end(bench);
    }
}

static int run_sweep(struct plan *plan, const struct table *table)
{
    uint64_t chosen = UINT64_C(1) << YIELD_PENALTY;
    int status = 0;

    for (unsigned i = 0; i < HV_ARRAY_LEN(known); i++) {
        for (unsigned k = 0; status == 0 && k < table->count[i]; k++) {
            struct yield_parameters parameters = table->standard;

            *parameter_of(&parameters, i) = table->others[i][k];
            status = run_variants(plan, &parameters, chosen);
            if (status == 0) {
                print_rows(plan, chosen, known[i].name, table->others[i][k]);
            }
        }
    }
    return status;
}

static int run_plan(struct plan *plan, const struct table *table)
{
    struct bench *bench = plan->bench;
    struct yield_parameters parameters = table->standard;
    uint64_t chosen = bench_option(bench, "--variant");
    int status;

    plan->span_ns = bench_option(bench, "--span") * HV_NS_PER_MS;
    if (plan->engine == ENGINE_REAL) {
        long online = sysconf(_SC_NPROCESSORS_ONLN);

        parameters.pcpus =
            online > 0 && online < YIELD_VCPUS_MAX ? (uint64_t)online : YIELD_VCPUS_MAX;
    }
    status = run_variants(plan, &parameters, chosen);
    if (status == 0) {
        print_rows(plan, chosen, NULL, 0);
    }
    if (status == 0 && plan->engine == ENGINE_SIM && bench_option(bench, "--sweep")) {
        status = run_sweep(plan, table);
    }
    return status;
}

static int run(struct bench *bench)
{
    struct table table = {.count = {0}};
    struct plan plan = {.bench = bench};
    int status = read_parameters(bench, &table);

    if (status != 0) {
        return status;
    }
    for (unsigned i = 0; i < YIELD_VARIANTS; i++) {
        plan.figures[i] = bench_series_create(bench, FIGURES);
    }
    for (unsigned engine = 0; engine < ENGINES; engine++) {
        for (unsigned vms = 1; status == 0 && vms <= YIELD_VMS_MAX; vms++) {
            if ((bench_option(bench, "--engine") >> engine & 1) &&
                (bench_option(bench, "--vms") >> (vms - 1) & 1)) {
                plan.engine = (enum engine)engine;
                plan.vms = vms;
                status = run_plan(&plan, &table);
            }
        }
    }
    for (unsigned i = 0; i < YIELD_VARIANTS; i++) {
        bench_series_destroy(plan.figures[i]);
    }
    return status;
}

static const struct bench_option options[] = {
    {.name = "--engine",
     .help = "in simulated time, or by workers in real time",
     .choices = engine_names,
     .several = true,
     .value = 1u << ENGINE_SIM},
    {.name = "--vms",
     .help = "machines",
     .choices = vms_names,
     .several = true,
     .value = (1u << YIELD_VMS_MAX) - 1},
    {.name = "--variant",
     .help = "what a waiter and its host do",
     .choices = variant_names,
     .several = true,
     .value = (1u << YIELD_VARIANTS) - 1},
    {.name = "--span",
     .help = "ms of each run",
     .min = 1,
     .max = 60000,
     .value = 2000,
     .quick = 50},
    {.name = "--sweep",
     .help = "also try other parameters, in simulated time",
     .choices = sweep_names},
    {0},
};

const struct hv_bench hv_bench_yield = {
    .name = "yield",
    .summary = "Machines whose vCPUs wait for each other on too few CPUs, by kind of yield.",
    .engine = "sim",
    .options = options,
    .run = run,
};
