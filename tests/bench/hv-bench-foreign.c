/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * `hv-bench foreign`: what it costs to keep stale translations of mappers from doing harm, when all
 * of a machine's memory is mapped page by page and unmapped again, as a migration does
 * (hv-bench-foreign-rig.h).
 *
 * All strategies share each run, in slices of some milliseconds by turns, so that whatever else the
 * host does falls on all of them; `none`, which flushes no mapper, is what the others are compared
 * with and always runs. Ratios over `none` are of slices that stand side by side, some dozens a run,
 * so that one that was kept from its CPU counts as one. Time over `none` has everything in it, also
 * what else the host does while somebody waits for a flush; CPU time over `none` is the measured
 * thread's alone.
 */
#include "bench/hv-bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/hv-bench-foreign-rig.h"
#include "lib/foreign-wrong.h"

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
    CPU, /* of the measured thread: without its waits, and without what else the host does */
    CPU_PER_GIB, /* over that of `none` */
    VIOLATIONS,
    ISSUED,
    FILTERED,
    WAITED,
    SEALS,
    FIGURES,
};

static const char *const figure_names[FIGURES] = {
    [WALL] = "wall_s",
    [DIFF] = "diff_s",
    [PER_GIB] = "s_per_gib",
    [PER_PAGE] = "ns_per_page",
    [CPU] = "cpu_s",
    [CPU_PER_GIB] = "cpu_s_per_gib",
    [VIOLATIONS] = "violations",
    [ISSUED] = "flushes_issued",
    [FILTERED] = "flushes_filtered",
    [WAITED] = "flushes_waited",
    [SEALS] = "seals",
};

/* Over `none`, slice by slice. */
enum ratio {
    OVER_NONE,
    CPU_OVER_NONE,
    RATIOS,
};

static const char *const ratio_names[RATIOS] = {"over_none", "cpu_over_none"};
static const char *const interval_names[RATIOS] = {"over_none_95", "cpu_over_none_95"};

/* All runs of one size. */
struct trial {
    struct foreign_load load;
    uint64_t unmaps; /* in one run */
    double gib;
    unsigned count; /* of the strategies that run; the first is `none` */
    const char *name[STRATEGIES];
    struct bench_series *series[FIGURES];
    struct bench_figure ratio[RATIOS][STRATEGIES]; /* with room for all slices of all runs */
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

static void note_pair(struct trial *trial, const struct foreign_slice *slices)
{
    for (unsigned i = 0; i < trial->count; i++) {
        struct bench_figure *wall = &trial->ratio[OVER_NONE][i];
        struct bench_figure *cpu = &trial->ratio[CPU_OVER_NONE][i];

        wall->runs[wall->count++] = slices[i].wall_ns / slices[NONE].wall_ns;
        cpu->runs[cpu->count++] = slices[i].cpu_ns / slices[NONE].cpu_ns;
    }
}

/* All strategies, slice by slice; each round of slices begins with another one. */
static bool run_slices(struct trial *trial, struct foreign_rig *const *rigs)
{
    size_t rounds = foreign_slices(&trial->load);
    unsigned ended = 0;

    for (unsigned first = 0; ended == 0 && first < rounds; first++) {
        struct foreign_slice slices[STRATEGIES];

        for (unsigned i = 0; i < trial->count; i++) {
            unsigned at = (first + i) % trial->count;

            ended += !foreign_step(rigs[at], &slices[at]);
        }
        note_pair(trial, slices);
    }
    return ended == trial->count; /* they have the same to do */
}

static bool run_once(struct trial *trial, unsigned run)
{
    struct foreign_rig *rigs[STRATEGIES] = {NULL};
    bool good = true;

    for (unsigned i = 0; i < trial->count && good; i++) {
        rigs[i] = foreign_open(&trial->load, strategy_named(trial->name[i]));
        good = rigs[i] != NULL;
    }
    good = good && run_slices(trial, rigs);
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
            double diff = trial->series[WALL]->each[i].runs[run] - none[run];
            double cpu_diff = trial->series[CPU]->each[i].runs[run] - none_cpu[run];

            trial->series[DIFF]->each[i].runs[run] = diff;
            trial->series[PER_GIB]->each[i].runs[run] = diff / trial->gib;
            trial->series[CPU_PER_GIB]->each[i].runs[run] = cpu_diff / trial->gib;
            trial->series[PER_PAGE]->each[i].runs[run] = diff * 1e9 / (double)trial->unmaps;
        }
    }
}

static double median(const struct trial *trial, enum figure figure, unsigned i)
{
    return bench_figure_median(&trial->series[figure]->each[i]);
}

/* "1.012 (0.994 … 1.031)": the median, and where it lies in 95 of 100 cases. */
static void write_ratio(const struct bench_figure *ratio, char *text, size_t size)
{
    double low, high;

    bench_figure_interval(ratio, &low, &high);
    snprintf(text, size, "%.3f (%.3f … %.3f)", bench_figure_median(ratio), low, high);
}

/* The discussion's table, of medians. */
static void print_table(const struct trial *trial)
{
    printf("\n%2g GiB         wall s  diff s   s/GiB  ns/page  time over none          "
           "CPU over none          CPU s/GiB   issued filtered  waited violations\n",
           trial->gib);
    for (unsigned i = 0; i < trial->count; i++) {
        char wall[64], cpu[64];

        write_ratio(&trial->ratio[OVER_NONE][i], wall, sizeof(wall));
        write_ratio(&trial->ratio[CPU_OVER_NONE][i], cpu, sizeof(cpu));
        printf("%-13s %7.3f %7.3f %7.4f %8.1f  %s  %s %9.4f %9.0f %8.0f %7.0f %10.0f\n",
               trial->name[i], median(trial, WALL, i), median(trial, DIFF, i),
               median(trial, PER_GIB, i), median(trial, PER_PAGE, i), wall, cpu,
               median(trial, CPU_PER_GIB, i), median(trial, ISSUED, i), median(trial, FILTERED, i),
               median(trial, WAITED, i), median(trial, VIOLATIONS, i));
    }
    bench_flush();
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
        for (unsigned k = 0; k < RATIOS; k++) {
            bench_row_figure(bench, ratio_names[k], &trial->ratio[k][i]);
            bench_row_interval(bench, interval_names[k], &trial->ratio[k][i]);
        }
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

static void open_trial(const struct bench *bench, struct trial *trial)
{
    uint64_t chosen = bench_option(bench, "--strategy");
    size_t slices = bench->runs * foreign_slices(&trial->load);

    for (unsigned i = 0; i < STRATEGIES; i++) {
        if (i == NONE || chosen >> i & 1) {
            trial->name[trial->count++] = strategy_names[i];
        }
    }
    for (unsigned i = 0; i < FIGURES; i++) {
        trial->series[i] = bench_series_create(bench, trial->count);
    }
    for (unsigned k = 0; k < RATIOS; k++) {
        for (unsigned i = 0; i < trial->count; i++) {
            trial->ratio[k][i].runs = calloc(slices, sizeof(double));
            if (!trial->ratio[k][i].runs) {
                bench_die("no memory for %zu slices", slices);
            }
        }
    }
}

static void close_trial(struct trial *trial)
{
    for (unsigned i = 0; i < FIGURES; i++) {
        bench_series_destroy(trial->series[i]);
    }
    for (unsigned k = 0; k < RATIOS; k++) {
        for (unsigned i = 0; i < trial->count; i++) {
            bench_figure_finish(&trial->ratio[k][i]);
        }
    }
}

static int run_size(struct bench *bench, uint64_t mib)
{
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

    open_trial(bench, &trial);
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
    close_trial(&trial);
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

/* Holders that wait for a CPU are waited for: a flush takes time slices, and a run takes hours. */
static int check(struct bench *bench)
{
    uint64_t holders = bench_option(bench, "--holders");
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t most = cores > 1 ? (uint64_t)cores - 1 : 1;

    if (holders > most) {
        bench_warn("--holders %" PRIu64 ": this host has %ld cores, and beside the mapper room for "
                   "%" PRIu64 "; %s",
                   holders, cores, most,
                   bench->quick ? "--quick takes no more" : "a run will be hopelessly slow");
        if (bench->quick) {
            bench_set_option(bench, "--holders", most);
        }
    }
    return 0;
}

/* Each has dozens of pairs. */
static unsigned usual_runs(const struct bench *bench)
{
    (void)bench;
    return 5;
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
     .max = FOREIGN_HOLDERS_MAX,
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
    .usual_runs = usual_runs,
    .check = check,
    .run = run,
};
