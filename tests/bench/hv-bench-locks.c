/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * `hv-bench locks`: what a take and drop costs, and what of that is the profile.
 *
 * The core's lock functions are measured as they are (profiled_pair_ns), and beside them the same
 * sources built without the profile (pair_ns), loaded from a module so that both can be called in
 * turns by one process. Both are called through pointers.
 *
 * A run is many short loops of either by turns, and its figures are their medians: what else the host
 * does disturbs some of them.
 */
#include "bench/hv-bench.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "sync/lock-profile.h"
#include "sync/rwlock.h"

#define THREADS_MAX 16u

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
    void (*rw_init)(struct hv_rwlock *lock, enum hv_rank rank, const char *name, unsigned index);
    void (*rw_finish)(struct hv_rwlock *lock);
    void (*take_read)(struct hv_rwlock *lock);
    void (*drop_read)(struct hv_rwlock *lock);
    void (*take_write)(struct hv_rwlock *lock);
    void (*drop_write)(struct hv_rwlock *lock);
};

static const struct build profiled = {
    hv_lock_init,         hv_lock_finish,       hv_lock_take,        hv_lock_drop,
    hv_rwlock_init,       hv_rwlock_finish,     hv_rwlock_take_read, hv_rwlock_drop_read,
    hv_rwlock_take_write, hv_rwlock_drop_write,
};

enum strategy {
    MUTEX,
    WRITE,
    READ,
    STRATEGIES,
};

/* For --strategy, too. */
static const char *const strategy_names[] = {"mutex", "write", "read", NULL};

struct rig {
    struct build builds[VARIANTS];
    const struct build *build;
    enum strategy strategy;
    unsigned threads;
    uint64_t pairs; /* of each thread */
    HV_ALIGNED(HV_CACHE_LINE) struct hv_lock mutex;
    HV_ALIGNED(HV_CACHE_LINE) struct hv_rwlock rwlock;
    HV_ALIGNED(HV_CACHE_LINE) uint64_t guarded;
    pthread_barrier_t start; /* of all threads */
    double thread_ns[THREADS_MAX];
    bool wrong; /* two threads had the lock, or the builds are not what they should be */
};

static bool find(void *module, const char *name, void *function_out)
{
    void *symbol = dlsym(module, name);

    *(void **)function_out = symbol;
    return symbol != NULL;
}

static bool open_builds(struct rig *rig)
{
    struct build *plain = &rig->builds[PLAIN];
    void *module = dlopen(BENCH_PLAIN_LOCKS, RTLD_NOW | RTLD_LOCAL);

    rig->builds[PROFILED] = profiled;
    return module && find(module, "hv_lock_init", &plain->init) &&
           find(module, "hv_lock_finish", &plain->finish) &&
           find(module, "hv_lock_take", &plain->take) &&
           find(module, "hv_lock_drop", &plain->drop) &&
           find(module, "hv_rwlock_init", &plain->rw_init) &&
           find(module, "hv_rwlock_finish", &plain->rw_finish) &&
           find(module, "hv_rwlock_take_read", &plain->take_read) &&
           find(module, "hv_rwlock_drop_read", &plain->drop_read) &&
           find(module, "hv_rwlock_take_write", &plain->take_write) &&
           find(module, "hv_rwlock_drop_write", &plain->drop_write);
}

/* ---- loops of pairs ---- */

static HV_NO_TSA void mutex_pairs(struct rig *rig, const struct build *build)
{
    for (uint64_t i = 0; i < rig->pairs; i++) {
        build->take(&rig->mutex);
        rig->guarded++;
        build->drop(&rig->mutex);
    }
}

static HV_NO_TSA void write_pairs(struct rig *rig, const struct build *build)
{
    for (uint64_t i = 0; i < rig->pairs; i++) {
        build->take_write(&rig->rwlock);
        rig->guarded++;
        build->drop_write(&rig->rwlock);
    }
}

static HV_NO_TSA void read_pairs(struct rig *rig, const struct build *build)
{
    for (uint64_t i = 0; i < rig->pairs; i++) {
        build->take_read(&rig->rwlock);
        build->drop_read(&rig->rwlock);
    }
}

struct taker {
    struct rig *rig;
    unsigned index;
    pthread_t id;
};

static void *taker_main(void *context)
{
    static void (*const loops[])(struct rig * rig, const struct build *build) = {
        [MUTEX] = mutex_pairs,
        [WRITE] = write_pairs,
        [READ] = read_pairs,
    };
    const struct taker *me = context;
    struct rig *rig = me->rig;
    const struct build build = *rig->build;
    double start;

    pthread_barrier_wait(&rig->start);
    start = bench_thread_ns();
    loops[rig->strategy](rig, &build);
    rig->thread_ns[me->index] = bench_thread_ns() - start;
    return NULL;
}

/* One thread is this one. */
static void take_together(struct rig *rig)
{
    struct taker each[THREADS_MAX];

    pthread_barrier_init(&rig->start, NULL, rig->threads);
    for (unsigned i = 0; i < rig->threads; i++) {
        each[i] = (struct taker){.rig = rig, .index = i};
        if (rig->threads > 1) {
            bench_thread_start(&each[i].id, taker_main, &each[i]);
        }
    }
    if (rig->threads == 1) {
        taker_main(&each[0]);
    }
    for (unsigned i = 0; rig->threads > 1 && i < rig->threads; i++) {
        pthread_join(each[i].id, NULL);
    }
    pthread_barrier_destroy(&rig->start);
}

/* Was everything done, and counted where it is to be? What is read is counted in any case, in the
 * word that a reader writes. */
static bool right(const struct rig *rig, unsigned variant)
{
    const struct hv_lock_side *const sides[] = {
        [MUTEX] = &rig->mutex.head.side,
        [WRITE] = &rig->rwlock.writers.head.side,
        [READ] = &rig->rwlock.readers,
    };
    uint64_t pairs = rig->pairs * rig->threads;
    bool counts = variant == PROFILED || rig->strategy == READ;

    return hv_lock_side_acquired(sides[rig->strategy]) == (counts ? pairs : 0) &&
           rig->guarded == (rig->strategy == READ ? 0 : pairs);
}

/* Nanoseconds of CPU time a pair, over all threads. */
static double measure(void *context, unsigned variant)
{
    struct rig *rig = context;
    double total = 0;

    rig->guarded = 0;
    rig->build = &rig->builds[variant];
    rig->build->init(&rig->mutex, HV_RANK_HEAP, "bench.lock", 0);
    rig->build->rw_init(&rig->rwlock, HV_RANK_VPT, "bench.rwlock", 0);
    take_together(rig);
    rig->wrong |= !right(rig, variant);
    rig->build->finish(&rig->mutex);
    rig->build->rw_finish(&rig->rwlock);
    for (unsigned i = 0; i < rig->threads; i++) {
        total += rig->thread_ns[i];
    }
    return total / (double)(rig->pairs * rig->threads);
}

#define SLICES 25u

/* One run: the median of either build, and of the differences. */
static void measure_by_turns(struct rig *rig, double median_out[VARIANTS], double *cost_out)
{
    double ns[VARIANTS][SLICES], cost[SLICES];

    for (unsigned slice = 0; slice < SLICES; slice++) {
        for (unsigned i = 0; i < VARIANTS; i++) {
            unsigned variant = (slice + i) % VARIANTS;

            ns[variant][slice] = measure(rig, variant);
        }
        cost[slice] = ns[PROFILED][slice] - ns[PLAIN][slice];
    }
    for (unsigned i = 0; i < VARIANTS; i++) {
        median_out[i] = bench_figure_median(&(struct bench_figure){ns[i], SLICES});
    }
    *cost_out = bench_figure_median(&(struct bench_figure){cost, SLICES});
}

static void print_row(struct bench *bench, struct rig *rig, unsigned threads)
{
    enum { COST = VARIANTS, FIGURES };
    static const char *const names[FIGURES] = {"pair_ns", "profiled_pair_ns", "profile_ns"};
    struct bench_series *series = bench_series_create(bench, FIGURES);

    rig->threads = threads;
    rig->pairs = bench_size(bench, threads == 1 ? 80000 : 20000, 2000);
    for (unsigned run = 0; run < bench->runs; run++) {
        double median[VARIANTS];

        measure_by_turns(rig, median, &series->each[COST].runs[run]);
        for (unsigned i = 0; i < VARIANTS; i++) {
            series->each[i].runs[run] = median[i];
        }
    }
    bench_row_begin(bench, "locks");
    bench_row_text(bench, "strategy", strategy_names[rig->strategy]);
    bench_row_number(bench, "threads", threads);
    for (unsigned i = 0; i < FIGURES; i++) {
        bench_row_figure(bench, names[i], &series->each[i]);
    }
    bench_row_end(bench);
    bench_series_destroy(series);
}

static int run(struct bench *bench)
{
    uint64_t wanted = bench_option(bench, "--strategy");
    unsigned threads = (unsigned)bench_option(bench, "--threads");
    struct rig *rig = aligned_alloc(HV_CACHE_LINE, sizeof(*rig));
    int status = 0;

    if (!rig) {
        return bench_fail(bench, "no memory");
    }
    *rig = (struct rig){0};
    if (!open_builds(rig)) {
        status = bench_fail(bench, "cannot load %s: %s", BENCH_PLAIN_LOCKS, dlerror());
        goto out;
    }
    for (unsigned i = 0; i < STRATEGIES; i++) {
        if (wanted >> i & 1) {
            rig->strategy = (enum strategy)i;
            print_row(bench, rig, 1);
            print_row(bench, rig, threads);
        }
    }
    if (rig->wrong) {
        status = bench_fail(bench, "takings were lost, or counted where none are");
    }

out:
    free(rig);
    return status;
}

static const struct bench_option options[] = {
    {.name = "--strategy",
     .help = "what is taken, one or more",
     .choices = strategy_names,
     .several = true,
     .value = (1u << STRATEGIES) - 1},
    {.name = "--threads",
     .help = "threads that take one lock, in a second row",
     .min = 2,
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
