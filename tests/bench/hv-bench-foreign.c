/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * `hv-bench foreign`: what it costs to keep stale translations of mappers from doing harm, when all
 * of a machine's memory is mapped page by page and unmapped again, as a migration does
 * (hv-bench-foreign-rig.h).
 *
 * All strategies share each run, in slices of some milliseconds by turns, so that whatever else the
 * host does falls on all of them; `none`, which flushes no mapper, is what the others are compared
 * with and always runs. Time over `none` has everything in it, also what else the host does
 * while somebody waits for a flush; CPU time over `none` is the measured thread's alone.
 */
#include "bench/hv-bench.h"

#include <stdio.h>
#include <string.h>

#include "bench/hv-bench-foreign-rig.h"
#include "lib/foreign-wrong.h"

#define HOLDERS_MAX 8u

enum {
    NONE, /* in the list of strategies */
    STRATEGIES = 1 + HV_FOREIGN_STRATEGIES,
};

static const char *const strategy_names[STRATEGIES + 1] = {
    "none", "put-flush", "mask-locked", "double-buffer", "all-filtered", "taint", NULL,
};

static const char *const size_names[] = {"64M", "256M", "1G", "2G", "4G", "8G", "14G", NULL};
static const uint64_t sizes_mib[] = {64, 256, 1024, 2048, 4096, 8192, 14336};

/* ---- figures ---- */

enum figure {
    WALL,
    DIFF,
    PER_GIB,
    PER_PAGE,
    OVER_NONE,
    CPU, /* of the measured thread: without its waits, and without what else the host does */
    CPU_OVER_NONE,
    VIOLATIONS,
    ISSUED,
    FILTERED,
    WAITED,
    SEALS,
    FIGURES,
};

static const char *const figure_names[FIGURES] = {
    "wall_s",        "diff_s",     "s_per_gib",      "ns_per_page",      "over_none",      "cpu_s",
    "cpu_over_none", "violations", "flushes_issued", "flushes_filtered", "flushes_waited", "seals",
};

/* All runs of one size. */
struct trial {
    struct foreign_load load;
    uint64_t unmaps; /* in one run */
    double gib;
    unsigned count; /* of the strategies that run; the first is `none` */
    const char *name[STRATEGIES];
    struct bench_series *series[FIGURES];
    bool failed;
};

static const struct hv_foreign_strategy *strategy_named(const char *name)
{
    for (unsigned i = 0; i < HV_FOREIGN_STRATEGIES; i++) {
        if (strcmp(hv_foreign_strategies[i]->name, name) == 0) {
            return hv_foreign_strategies[i];
        }
    }
    return &foreign_none;
}

static void note_result(struct trial *trial, unsigned i, unsigned run,
                        const struct foreign_result *result)
{
    const double once[FIGURES] = {
        [WALL] = result->wall_ns / 1e9,
        [CPU] = result->cpu_ns / 1e9,
        [VIOLATIONS] = (double)result->violations,
        [ISSUED] = (double)result->issued,
        [FILTERED] = (double)result->filtered,
        [WAITED] = (double)result->waited,
        [SEALS] = (double)result->seals,
    };

    for (unsigned k = 0; k < FIGURES; k++) {
        trial->series[k]->each[i].runs[run] = once[k];
    }
    trial->unmaps = result->unmaps;
}

/* All strategies, slice by slice; each round of slices begins with another one. */
static bool run_slices(struct foreign_rig *const *rigs, unsigned count)
{
    unsigned ended = 0;

    for (unsigned first = 0; ended == 0; first++) {
        for (unsigned i = 0; i < count; i++) {
            ended += !foreign_step(rigs[(first + i) % count]);
        }
    }
    return ended == count; /* they have the same to do */
}

static bool run_once(struct trial *trial, unsigned run)
{
    struct foreign_rig *rigs[STRATEGIES] = {NULL};
    bool good = true;

    for (unsigned i = 0; i < trial->count && good; i++) {
        rigs[i] = foreign_open(&trial->load, strategy_named(trial->name[i]));
        good = rigs[i] != NULL;
    }
    good = good && run_slices(rigs, trial->count);
    for (unsigned i = 0; i < trial->count && rigs[i]; i++) {
        struct foreign_result result;

        good &= foreign_close(rigs[i], &result);
        note_result(trial, i, run, &result);
    }
    return good;
}

/* What each has over `none`, run by run. */
static void compare(struct trial *trial, unsigned runs)
{
    const double *none = trial->series[WALL]->each[NONE].runs;
    const double *none_cpu = trial->series[CPU]->each[NONE].runs;

    for (unsigned i = 0; i < trial->count; i++) {
        for (unsigned run = 0; run < runs; run++) {
            double wall = trial->series[WALL]->each[i].runs[run];
            double diff = wall - none[run];

            trial->series[DIFF]->each[i].runs[run] = diff;
            trial->series[PER_GIB]->each[i].runs[run] = diff / trial->gib;
            trial->series[PER_PAGE]->each[i].runs[run] = diff * 1e9 / (double)trial->unmaps;
            trial->series[OVER_NONE]->each[i].runs[run] = wall / none[run];
            trial->series[CPU_OVER_NONE]->each[i].runs[run] =
                trial->series[CPU]->each[i].runs[run] / none_cpu[run];
        }
    }
}

static double median(const struct trial *trial, enum figure figure, unsigned i)
{
    return bench_figure_median(&trial->series[figure]->each[i]);
}

/* "1.012 (0.994 … 1.031)": the median, and where it lies in 95 of 100 cases. */
static void write_ratio(const struct trial *trial, enum figure figure, unsigned i, char *text,
                        size_t size)
{
    double low, high;

    bench_figure_interval(&trial->series[figure]->each[i], &low, &high);
    snprintf(text, size, "%.3f (%.3f … %.3f)", median(trial, figure, i), low, high);
}

/* The discussion's table, of medians. */
static void print_table(const struct trial *trial)
{
    printf("\n%2g GiB         wall s  diff s   s/GiB  ns/page  time over none          "
           "CPU over none           issued filtered  waited violations\n",
           trial->gib);
    for (unsigned i = 0; i < trial->count; i++) {
        char wall[64], cpu[64];

        write_ratio(trial, OVER_NONE, i, wall, sizeof(wall));
        write_ratio(trial, CPU_OVER_NONE, i, cpu, sizeof(cpu));
        printf("%-13s %7.3f %7.3f %7.4f %8.1f  %s  %s %9.0f %8.0f %7.0f %10.0f\n", trial->name[i],
               median(trial, WALL, i), median(trial, DIFF, i), median(trial, PER_GIB, i),
               median(trial, PER_PAGE, i), wall, cpu, median(trial, ISSUED, i),
               median(trial, FILTERED, i), median(trial, WAITED, i), median(trial, VIOLATIONS, i));
    }
    fflush(stdout);
}

static void print_rows(struct bench *bench, const struct trial *trial)
{
    for (unsigned i = 0; i < trial->count; i++) {
        bench_row_begin(bench, "foreign");
        bench_row_text(bench, "strategy", trial->name[i]);
        bench_row_real(bench, "size_gib", trial->gib);
        for (unsigned k = 0; k < FIGURES; k++) {
            bench_row_figure(bench, figure_names[k], &trial->series[k]->each[i]);
        }
        bench_row_interval(bench, "over_none_95", &trial->series[OVER_NONE]->each[i]);
        bench_row_interval(bench, "cpu_over_none_95", &trial->series[CPU_OVER_NONE]->each[i]);
        bench_row_end(bench);
    }
}

/* A right strategy that let a store through is no figure but a fault. */
static int judge(const struct bench *bench, const struct trial *trial)
{
    if (trial->failed) {
        return bench_fail(bench, "%g GiB could not be mapped: no memory", trial->gib);
    }
    for (unsigned i = NONE + 1; i < trial->count; i++) {
        for (unsigned run = 0; run < bench->runs; run++) {
            if (trial->series[VIOLATIONS]->each[i].runs[run] != 0) {
                return bench_fail(bench, "%s let a mapper write to sealed pages", trial->name[i]);
            }
        }
    }
    return 0;
}

static int run_size(struct bench *bench, uint64_t mib)
{
    uint64_t chosen = bench_option(bench, "--strategy");
    struct trial trial = {
        .load =
            {
                .pages = mib * HV_MIB / HV_PAGE_SIZE,
                .holders = (unsigned)bench_option(bench, "--holders"),
                .seal_every = bench_option(bench, "--seal-every"),
                .seed = bench->seed,
            },
        .gib = (double)mib / 1024,
    };
    int status;

    for (unsigned i = 0; i < STRATEGIES; i++) {
        if (i == NONE || chosen >> i & 1) {
            trial.name[trial.count++] = strategy_names[i];
        }
    }
    for (unsigned i = 0; i < FIGURES; i++) {
        trial.series[i] = bench_series_create(bench, trial.count);
    }
    for (unsigned run = 0; run < bench->runs && !trial.failed; run++) {
        bench_progress(bench, "%g GiB: run %u of %u", trial.gib, run + 1, bench->runs);
        trial.failed = !run_once(&trial, run);
    }
    bench_progress(bench, NULL);
    status = judge(bench, &trial);
    if (!trial.failed) {
        compare(&trial, bench->runs);
        if (bench->json) {
            print_rows(bench, &trial);
        } else {
            print_table(&trial);
        }
    }
    for (unsigned i = 0; i < FIGURES; i++) {
        bench_series_destroy(trial.series[i]);
    }
    return status;
}

static int run(struct bench *bench)
{
    uint64_t chosen = bench_option(bench, "--size");
    int status = 0;

    for (size_t i = 0; i < HV_ARRAY_LEN(sizes_mib) && status == 0; i++) {
        if (chosen >> i & 1) {
            status = run_size(bench, sizes_mib[i]);
        }
    }
    return status;
}

static const struct bench_option options[] = {
    {.name = "--size",
     .help = "memory of the machine, one or more",
     .choices = size_names,
     .several = true,
     .value = 7u << 4, /* 4G,8G,14G */
     .quick = 1u << 0},
    {.name = "--strategy",
     .help = "how mappers are flushed, one or more",
     .choices = strategy_names,
     .several = true,
     .value = (1u << STRATEGIES) - 1},
    {.name = "--holders",
     .help = "threads that stand in caches of their own",
     .max = HOLDERS_MAX,
     .value = 1},
    {.name = "--seal-every",
     .help = "pages unmapped between two that the owner seals, 0 for none",
     .max = 1000000000,
     .value = 10000,
     .quick = 500},
    {0},
};

const struct hv_bench hv_bench_foreign = {
    .name = "foreign",
    .summary = "Unmapping foreign pages: six ways to keep mappers' caches honest.",
    .engine = "real",
    .options = options,
    .run = run,
};
