/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * `hv-bench destroy`: many machines' memory given back at once, in the ways of
 * hv-bench-destroy-ways.c by turns. Of each run all figures are kept, of all domains together.
 *
 * The model's rows say what more cores would make of the demands measured here. They print what it
 * says of this machine, too, and by how much that is wrong.
 */
#include "bench/hv-bench.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/cycles.h"
#include "bench/hv-bench-destroy.h"

static const char *const figure_names[DESTROY_FIGURES] = {
    [DESTROY_NS_PER_PAGE] = "ns_per_page",
    [DESTROY_CPU_NS_PER_PAGE] = "cpu_ns_per_page",
    [DESTROY_LOCK_OPS_PER_PAGE] = "lock_ops_per_page",
    [DESTROY_WALL_S] = "wall_s",
    [DESTROY_SERIAL_WALL_S] = "serial_wall_s",
    [DESTROY_ACQUISITIONS] = "acquisitions",
    [DESTROY_HELD_S] = "held_s",
    [DESTROY_BLOCKED] = "blocked",
    [DESTROY_BLOCKED_S] = "blocked_s",
    [DESTROY_HOLD_NS] = "hold_ns",
    [DESTROY_HOLD_P50_NS] = "hold_p50_ns",
    [DESTROY_SERIAL_CPU_S] = "serial_cpu_s",
    [DESTROY_SERIAL_HOLD_P50_NS] = "serial_hold_p50_ns",
    [DESTROY_GETINFO_P99_US] = "getinfo_p99_us",
    [DESTROY_OTHER_P99_US] = "other_p99_us",
    [DESTROY_EXTENT_FREE_PCT] = "extent_free_pct",
    [DESTROY_ZEROED_S] = "zeroed_s",
};

static const char *const strategy_names[] = {"all",   "domctl", "parallel", "killock",
                                             "batch", "extent", NULL};
static const char *const size_names[] = {"16M", "64M", "256M", "1G", "2G", "4G", "8G", NULL};
static const uint64_t sizes_mib[] = {16, 64, 256, 1024, 2048, 4096, 8192};
static const char *const backing_names[] = {"none", "memfd", "anon", NULL};
static const enum hv_backing_kind backings[] = {
    HV_BACKING_KIND_NONE,
    HV_BACKING_KIND_MEMFD,
    HV_BACKING_KIND_ANON,
};

/* ---- rows ---- */

struct variant {
    const struct destroy_way *way;
    struct bench_series *figures;
};

static void print_row(struct bench *bench, const struct destroy_rig *rig,
                      const struct variant *variant, bool memory)
{
    bench_row_begin(bench, "destroy");
    bench_row_text(bench, "strategy", variant->way->name);
    bench_row_number(bench, "domains", rig->domains);
    bench_row_number(bench, "pages", rig->domains * rig->pages);
    for (unsigned i = 0; i < DESTROY_FIGURES; i++) {
        if (i != DESTROY_ZEROED_S || memory) {
            bench_row_figure(bench, figure_names[i], &variant->figures->each[i]);
        }
    }
    bench_row_end(bench);
}

struct calibration {
    double transfer_ns, empty_hold_ns, pair_ns;
};

static struct destroy_demand demand_of(const struct variant *variant, unsigned run,
                                       const struct calibration *calibration)
{
    const struct bench_figure *figures = variant->figures->each;
    double operation =
        figures[DESTROY_SERIAL_CPU_S].runs[run] * 1e9 / figures[DESTROY_ACQUISITIONS].runs[run];
    double hold = figures[DESTROY_SERIAL_HOLD_P50_NS].runs[run] - calibration->empty_hold_ns;
    struct destroy_demand demand = {.transfer_ns = calibration->transfer_ns};

    demand.service_ns = (hold > 0 ? hold : 0) + calibration->pair_ns;
    demand.work_ns = operation > demand.service_ns ? operation - demand.service_ns : 0;
    return demand;
}

/* What the model says for @destroyers at once, each on a core of its own. */
static void print_model_row(struct bench *bench, const struct destroy_rig *rig,
                            const struct variant *variant, const struct calibration *calibration,
                            unsigned cores, unsigned destroyers)
{
    enum { WALL, PER_PAGE, SPEEDUP, HERE, MISS, MODEL_FIGURES };
    static const char *const names[MODEL_FIGURES] = {"wall_s", "ns_per_page", "speedup",
                                                     "here_wall_s", "here_miss_pct"};
    struct bench_series *series = bench_series_create(bench, MODEL_FIGURES);
    const struct bench_figure *figures = variant->figures->each;
    double pages = (double)(rig->domains * rig->pages);
    unsigned host = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    unsigned here = rig->domains < host ? rig->domains : host;

    for (unsigned run = 0; run < bench->runs; run++) {
        struct destroy_demand demand = demand_of(variant, run, calibration);
        double operations = figures[DESTROY_ACQUISITIONS].runs[run];
        double wall = destroy_model_ns(variant->way, &demand, destroyers) * operations;
        double wall_here = destroy_model_ns(variant->way, &demand, here) * operations;
        double really = figures[DESTROY_WALL_S].runs[run] * 1e9;

        series->each[WALL].runs[run] = wall / 1e9;
        series->each[PER_PAGE].runs[run] = wall / pages;
        series->each[SPEEDUP].runs[run] = figures[DESTROY_SERIAL_CPU_S].runs[run] * 1e9 / wall;
        series->each[HERE].runs[run] = wall_here / 1e9;
        series->each[MISS].runs[run] = 100 * (wall_here - really) / really;
    }
    bench_row_begin_as(bench, "destroy", "model");
    bench_row_text(bench, "strategy", variant->way->name);
    bench_row_number(bench, "cores", cores);
    bench_row_number(bench, "domains", destroyers);
    for (unsigned i = 0; i < MODEL_FIGURES; i++) {
        bench_row_figure(bench, names[i], &series->each[i]);
    }
    bench_row_end(bench);
    bench_series_destroy(series);
}

static void print_model(struct bench *bench, const struct destroy_rig *rig,
                        const struct variant *variants, unsigned count, unsigned cores)
{
    struct calibration calibration;

    calibration.transfer_ns = destroy_transfer_ns(bench_size(bench, 2000, 50));
    destroy_lock_cost(bench_size(bench, 2000000, 100000), &calibration.empty_hold_ns,
                      &calibration.pair_ns);
    for (unsigned i = 0; i < count; i++) {
        for (unsigned destroyers = 1; destroyers < cores; destroyers *= 2) {
            print_model_row(bench, rig, &variants[i], &calibration, cores, destroyers);
        }
        print_model_row(bench, rig, &variants[i], &calibration, cores, cores);
    }
}

/* The chosen way, or all. Returns how many. */
static unsigned choose(const struct bench *bench, struct variant *variants)
{
    unsigned chosen = (unsigned)bench_option(bench, "--strategy");
    unsigned count = 0;

    for (unsigned i = 0; i < DESTROY_WAYS; i++) {
        if (chosen == 0 || chosen == i + 1) {
            variants[count].way = &destroy_ways[i];
            variants[count++].figures = bench_series_create(bench, DESTROY_FIGURES);
        }
    }
    return count;
}

static int run_all(struct bench *bench, struct destroy *destroy, struct variant *variants,
                   unsigned count)
{
    enum hv_backing_kind backing = backings[bench_option(bench, "--backing")];

    for (unsigned run = 0; run < bench->runs; run++) {
        for (unsigned i = 0; i < count; i++) {
            struct variant *variant = &variants[(run + i) % count];
            struct destroy_measured measured = {0};
            int err;

            destroy->way = variant->way;
            err = destroy_measure(destroy, backing, &measured);
            if (err) {
                return bench_fail(bench, "cannot make %u domains of %s: %s", destroy->rig->domains,
                                  size_names[bench_option(bench, "--size")], strerror(-err));
            }
            if (measured.wrong) {
                return bench_fail(bench, "%s lost pages", variant->way->name);
            }
            for (unsigned k = 0; k < DESTROY_FIGURES; k++) {
                variant->figures->each[k].runs[run] = measured.figures[k];
            }
        }
    }
    return 0;
}

static int run(struct bench *bench)
{
    struct destroy_rig *rig = aligned_alloc(HV_CACHE_LINE, sizeof(*rig));
    struct destroy *destroy = calloc(1, sizeof(*destroy));
    struct variant variants[DESTROY_WAYS];
    unsigned cores = (unsigned)bench_option(bench, "--model");
    unsigned count;
    int status;

    if (!rig || !destroy) {
        abort();
    }
    *rig = (struct destroy_rig){
        .domains = (unsigned)bench_option(bench, "--domains"),
        .pages = sizes_mib[bench_option(bench, "--size")] * HV_MIB / HV_PAGE_SIZE,
    };
    if (bench->quick) {
        rig->pages =
            rig->pages < 64 * HV_MIB / HV_PAGE_SIZE ? rig->pages : 64 * HV_MIB / HV_PAGE_SIZE;
    }
    destroy->rig = rig;
    hv_cycles_calibrate();
    count = choose(bench, variants);
    status = run_all(bench, destroy, variants, count);
    for (unsigned i = 0; status == 0 && i < count; i++) {
        print_row(bench, rig, &variants[i], bench_option(bench, "--backing") != 0);
    }
    if (status == 0 && cores > 0) {
        print_model(bench, rig, variants, count, cores);
    }
    for (unsigned i = 0; i < count; i++) {
        bench_series_destroy(variants[i].figures);
    }
    free(destroy);
    free(rig);
    return status;
}

static const struct bench_option options[] = {
    {.name = "--domains",
     .help = "machines destroyed at once",
     .min = 1,
     .max = DESTROY_DOMAINS_MAX,
     .value = 5},
    {.name = "--size",
     .help = "memory of each; with --quick at most 64M",
     .choices = size_names,
     .value = 4},
    {.name = "--strategy", .help = "the way it is done", .choices = strategy_names},
    {.name = "--backing", .help = "memory behind the frames", .choices = backing_names},
    {.name = "--model",
     .help = "also say what so many would make of it; 0: not",
     .prefix = "cores=",
     .max = 1024},
    {0},
};

const struct hv_bench hv_bench_destroy = {
    .name = "destroy",
    .summary = "The memory of many machines given back at once, in five ways.",
    .engine = "real",
    .options = options,
    .run = run,
};
