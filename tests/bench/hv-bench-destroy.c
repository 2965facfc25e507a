/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * `hv-bench destroy`: many machines' memory given back at once, in the ways of
 * hv-bench-destroy-ways.c by turns. Of each run all figures are kept, of all domains together.
 *
 * The model's rows (hv-bench-destroy-model.c) say what more cores would make of it; with --booted
 * machines that run Linux are destroyed (hv-bench-destroy-booted.c).
 */
#include "bench/hv-bench.h"

#include <stdio.h>
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
    [DESTROY_OVER_IDEAL] = "over_ideal",
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

static const char *const strategy_names[] = {"domctl", "parallel", "killock",
                                             "batch",  "extent",   NULL};
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
                      const struct variant *variant)
{
    bench_row_begin(bench, "destroy");
    bench_row_text(bench, "strategy", variant->way->name);
    bench_row_count(bench, "domains", rig->domains);
    bench_row_count(bench, "pages", rig->domains * rig->pages);
    for (unsigned i = 0; i < DESTROY_FIGURES; i++) {
        bench_row_figure(bench, figure_names[i], &variant->figures->each[i]);
    }
    bench_row_end(bench);
}

static int print_model(struct bench *bench, const struct destroy_rig *rig,
                       const struct variant *variants, unsigned count, unsigned cores)
{
    const struct destroy_way *ways[DESTROY_WAYS];

    for (unsigned i = 0; i < count; i++) {
        ways[i] = variants[i].way;
    }
    return destroy_model_rows(bench, ways, count, (double)(rig->domains * rig->pages), cores);
}

/* Returns how many ways are chosen. */
static unsigned choose(const struct bench *bench, struct variant *variants)
{
    uint64_t chosen = bench_option(bench, "--strategy");
    unsigned count = 0;

    for (unsigned i = 0; i < DESTROY_WAYS; i++) {
        if (chosen >> i & 1) {
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
        bench_progress(bench, "run %u of %u", run + 1, bench->runs);
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
    bench_progress(bench, NULL);
    return 0;
}

static int run_strategies(struct bench *bench)
{
    struct destroy_rig *rig = aligned_alloc(HV_CACHE_LINE, sizeof(*rig));
    struct destroy *destroy = calloc(1, sizeof(*destroy));
    struct variant variants[DESTROY_WAYS];
    unsigned cores = (unsigned)bench_option(bench, "--model");
    unsigned count;
    int status;

    if (!rig || !destroy) {
        bench_die("no memory for the figures of a run");
    }
    *rig = (struct destroy_rig){
        .domains = (unsigned)bench_option(bench, "--domains"),
        .pages = sizes_mib[bench_option(bench, "--size")] * HV_MIB / HV_PAGE_SIZE,
    };
    destroy->rig = rig;
    count = choose(bench, variants);
    status = run_all(bench, destroy, variants, count);
    for (unsigned i = 0; status == 0 && i < count; i++) {
        print_row(bench, rig, &variants[i]);
    }
    if (status == 0 && cores > 0) {
        status = print_model(bench, rig, variants, count, cores);
    }
    for (unsigned i = 0; i < count; i++) {
        bench_series_destroy(variants[i].figures);
    }
    free(destroy);
    free(rig);
    return status;
}

/* Those that are booted, and, unless nothing else was asked for, the strategies. */
static int run(struct bench *bench)
{
    unsigned booted = (unsigned)bench_option(bench, "--booted");
    int status = 0;

    hv_cycles_calibrate();
    if (booted > 0) {
        status = destroy_booted_row(bench, booted);
    }
    if (status == 0 && (booted == 0 || bench_option(bench, "--model") > 0)) {
        status = run_strategies(bench);
    }
    return status;
}

/* What the host could give without swapping, or UINT64_MAX if it does not say. */
static uint64_t available_mib(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    uint64_t kib = UINT64_MAX;
    char line[128];

    while (file && fgets(line, sizeof(line), file) &&
           sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) != 1) {
    }
    if (file) {
        fclose(file);
    }
    return kib == UINT64_MAX ? kib : kib / 1024;
}

/* All memory behind the frames is touched: when it is made zero, at the latest. */
static int check(struct bench *bench)
{
    uint64_t backing = bench_option(bench, "--backing");
    uint64_t size = bench_option(bench, "--size");
    uint64_t needed = bench_option(bench, "--domains") * sizes_mib[size];
    uint64_t available = available_mib();
    bool strategies = bench_option(bench, "--booted") == 0 || bench_option(bench, "--model") > 0;

    if (!strategies || backings[backing] == HV_BACKING_KIND_NONE || needed <= available) {
        return 0;
    }
    return bench_fail(bench,
                      "--backing %s: %" PRIu64 " domains of %s need %" PRIu64
                      " MiB, and the host has %" PRIu64
                      " MiB available; use less of --domains or --size, or --backing none",
                      backing_names[backing], bench_option(bench, "--domains"), size_names[size],
                      needed, available);
}

/* To boot machines takes a minute a run. */
static unsigned usual_runs(const struct bench *bench)
{
    return bench_option(bench, "--booted") > 0 ? 3 : 15;
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
     .value = 4,
     .quick_max = 1 /* 64M */},
    {.name = "--strategy",
     .help = "how it is done, one or more",
     .choices = strategy_names,
     .several = true,
     .value = (1u << DESTROY_WAYS) - 1},
    {.name = "--backing", .help = "memory behind the frames", .choices = backing_names},
    {.name = "--model",
     .help = "also say what so many would make of it, by 15 pairs at least; 0: not",
     .prefix = "cores=",
     .max = 1024},
    {.name = "--booted",
     .help =
         "destroy so many machines that run Linux instead, with --model as well; with --quick at "
         "most 2",
     .max = DESTROY_DOMAINS_MAX,
     .quick_max = 2},
    {.name = "--assets", .help = "folder with their kernel and initramfs", .text = BENCH_GUEST_DIR},
    {0},
};

const struct hv_bench hv_bench_destroy = {
    .name = "destroy",
    .summary = "The memory of many machines given back at once, in five ways.",
    .engine = "real",
    .options = options,
    .usual_runs = usual_runs,
    .check = check,
    .run = run,
};
