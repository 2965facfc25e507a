/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * `hv-bench locks`: what a take and drop costs, and what of that is the profile.
 *
 * The core's lock functions are measured as they are (profiled_pair_ns), and beside them the same
 * sources built without the profile (pair_ns), loaded from a module so that both can be called in
 * turns by one process. Both are called through pointers.
 */
#include "bench/hv-bench.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "lib/threads.h"
#include "sync/lock.h"

enum variant {
    PLAIN,
    PROFILED,
    VARIANTS,
};

/* The functions of one build. */
struct build {
    void (*init)(struct hv_lock *lock, enum hv_rank rank, const char *name, unsigned index);
    void (*finish)(struct hv_lock *lock);
    void (*take)(struct hv_lock *lock);
    void (*drop)(struct hv_lock *lock);
};

struct rig {
    const struct build *build;
    struct build builds[VARIANTS];
    unsigned threads;
    uint64_t pairs; /* of each thread */
    void *module;
    HV_ALIGNED(HV_CACHE_LINE) struct hv_lock lock;
    HV_ALIGNED(HV_CACHE_LINE) uint64_t guarded;
    double thread_ns[THREADS_MAX];
    bool wrong; /* two threads had the lock, or the builds are not what they should be */
};

static int find(void *module, const char *name, void *function_out)
{
    void *symbol = dlsym(module, name);

    *(void **)function_out = symbol;
    return symbol ? 0 : -1;
}

static int open_plain(struct rig *rig)
{
    struct build *plain = &rig->builds[PLAIN];

    rig->module = dlopen(BENCH_PLAIN_LOCKS, RTLD_NOW | RTLD_LOCAL);
    if (!rig->module || find(rig->module, "hv_lock_init", &plain->init) ||
        find(rig->module, "hv_lock_finish", &plain->finish) ||
        find(rig->module, "hv_lock_take", &plain->take) ||
        find(rig->module, "hv_lock_drop", &plain->drop)) {
        return -1;
    }
    rig->builds[PROFILED] =
        (struct build){hv_lock_init, hv_lock_finish, hv_lock_take, hv_lock_drop};
    return 0;
}

static HV_NO_TSA void pair_loop(unsigned index, void *context)
{
    struct rig *rig = context;
    const struct build build = *rig->build;
    double start = bench_thread_ns();

    for (uint64_t i = 0; i < rig->pairs; i++) {
        build.take(&rig->lock);
        rig->guarded++;
        build.drop(&rig->lock);
    }
    rig->thread_ns[index] = bench_thread_ns() - start;
}

/* Nanoseconds of CPU time a pair, over all threads. */
static double measure(void *context, unsigned variant)
{
    struct rig *rig = context;
    double total = 0;

    rig->guarded = 0;
    rig->build = &rig->builds[variant];
    rig->build->init(&rig->lock, HV_RANK_HEAP, "bench.lock", 0);
    if (rig->threads == 1) {
        pair_loop(0, rig);
    } else {
        threads_run(rig->threads, pair_loop, rig);
    }
    rig->wrong |=
        rig->guarded != rig->pairs * rig->threads ||
        hv_lock_counters(&rig->lock)->acquired != (variant == PROFILED ? rig->guarded : 0);
    rig->build->finish(&rig->lock);
    for (unsigned i = 0; i < rig->threads; i++) {
        total += rig->thread_ns[i];
    }
    return total / (double)(rig->pairs * rig->threads);
}

static void print_row(struct bench *bench, struct rig *rig, unsigned threads)
{
    struct bench_series *series = bench_series_create(bench, VARIANTS);
    struct bench_figure cost;

    rig->threads = threads;
    rig->pairs = bench_size(bench, threads == 1 ? 2000000 : 500000, 20000);
    bench_interleave(bench, series, measure, rig);
    bench_figure_subtract(&series->each[PROFILED], &series->each[PLAIN], &cost);
    bench_row_begin(bench, "locks");
    bench_row_text(bench, "strategy", "mutex");
    bench_row_number(bench, "threads", threads);
    bench_row_figure(bench, "pair_ns", &series->each[PLAIN]);
    bench_row_figure(bench, "profiled_pair_ns", &series->each[PROFILED]);
    bench_row_figure(bench, "profile_ns", &cost);
    bench_row_end(bench);
    bench_figure_finish(&cost);
    bench_series_destroy(series);
}

static int run(struct bench *bench)
{
    struct rig *rig = aligned_alloc(HV_CACHE_LINE, sizeof(*rig));
    int status = 0;

    if (rig) {
        *rig = (struct rig){0};
    }
    if (!rig || open_plain(rig) < 0) {
        status = bench_fail(bench, "cannot load %s: %s", BENCH_PLAIN_LOCKS,
                            rig ? dlerror() : "no memory");
        goto out;
    }
    print_row(bench, rig, 1);
    print_row(bench, rig, (unsigned)bench_option(bench, "--threads"));
    if (rig->wrong) {
        status = bench_fail(bench, "takings were lost, or counted where none are");
    }

out:
    free(rig);
    return status;
}

static const struct bench_option options[] = {
    {.name = "--threads",
     .help = "threads that take one lock, in the second row",
     .min = 1,
     .max = THREADS_MAX,
     .value = 2},
    {0},
};

const struct hv_bench hv_bench_locks = {
    .name = "locks",
    .summary = "Take and drop of a lock, with and without its profile.",
    .engine = "real",
    .options = options,
    .run = run,
};
