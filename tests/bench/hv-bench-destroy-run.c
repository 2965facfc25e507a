/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One run of one way: domains whose RAM is all populated, taken apart with a thread each, and another
 * time with one thread for all. The product's way has no more threads than the host has CPUs, which
 * take domains by turns, as its reapers do.
 *
 * Meanwhile an observer asks by turns for the free memory, as a management tool does, and for one
 * frame, and notes how long each took.
 */
#include "bench/hv-bench-destroy.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "bench/hv-bench.h"
#include "sync/lock-profile.h"

/* Pauses of the observer, ns: it is to see, not to load. */
#define OBSERVER_PAUSE 100000
/* Beside what the domains have: for the observer's frames, and for shards without any. */
#define SPARE_EXTENTS  8u

/* ---- domains ---- */

static int open_domain(struct destroy_rig *rig, unsigned index)
{
    struct hv_memory *memory = &rig->domain[index].memory;
    struct hv_leaf leaf;
    int err = hv_memory_init(memory, rig->arena, (uint16_t)(index + 1), rig->pages * HV_PAGE_SIZE,
                             NULL, NULL);

    rig->domain[index].cursor = 0;
    if (!err) {
        rig->made++;
        err = hv_memory_add_ram(memory, (hv_gfn){0}, rig->pages);
    }
    for (uint64_t gfn = 0; !err && gfn < rig->pages; gfn += HV_EXTENT_FRAMES) {
        err = hv_memory_fill(memory, (hv_gfn){gfn}, &leaf);
    }
    return err;
}

/* What a destroyed domain leaves. */
static void close_domain(struct destroy_rig *rig, unsigned index)
{
    memory_close(&rig->domain[index].memory);
}

/* The old heap begins with an extent of its own. */
static int stock_old_heap(struct destroy_rig *rig)
{
    hv_mfn frames[HV_EXTENT_FRAMES];
    int err = hv_heap_claim(rig->arena->heap, HV_EXTENT_FRAMES);

    if (!err) {
        err = hv_heap_alloc_extent(rig->arena->heap, DESTROY_DOMAINS_MAX + 2, &frames[0]);
    }
    for (unsigned i = 0; !err && i < HV_EXTENT_FRAMES; i++) {
        frames[i].v = frames[0].v + i;
        if (!hv_frame_release(hv_arena_frame(rig->arena, frames[i]))) {
            err = -EBUSY;
        }
    }
    if (!err) {
        old_heap_free(&rig->old, frames, HV_EXTENT_FRAMES);
    }
    return err;
}

/* The locks of both heaps, which have been made. */
static int set_sampling(uint32_t one_in)
{
    int err = hv_lock_set_sampling("mem.heap.shard", one_in);

    return err ? err : hv_lock_set_sampling("bench.heap", one_in);
}

static int open_rig(struct destroy_rig *rig, const struct destroy_way *way,
                    enum hv_backing_kind backing)
{
    uint64_t bytes = rig->domains * rig->pages * HV_PAGE_SIZE + SPARE_EXTENTS * HV_EXTENT_SIZE;
    const struct hv_arena_config config = {backing, bytes};
    int err = hv_arena_create(&config, &rig->arena);

    rig->made = 0;
    if (err) {
        return err;
    }
    hv_lock_init(&rig->domctl, HV_RANK_LIFECYCLE, "bench.domctl", 0);
    hv_lock_init(&rig->kill, HV_RANK_LIFECYCLE, "bench.kill", 0);
    hv_lock_init(&rig->turns.lock, HV_RANK_LEAF, "bench.turns", 0);
    old_heap_init(&rig->old, rig->arena);
    err = set_sampling(way->batched ? 1 : HV_LOCK_SAMPLING);
    if (!err) {
        err = stock_old_heap(rig);
    }
    for (unsigned i = 0; !err && i < rig->domains; i++) {
        err = open_domain(rig, i);
    }
    return err;
}

static void close_rig(struct destroy_rig *rig)
{
    if (!rig->arena) {
        return;
    }
    for (unsigned i = 0; i < rig->made; i++) {
        close_domain(rig, i);
    }
    old_heap_finish(&rig->old);
    hv_lock_finish(&rig->turns.lock);
    hv_lock_finish(&rig->kill);
    hv_lock_finish(&rig->domctl);
    hv_arena_destroy(rig->arena);
    rig->arena = NULL;
}

/* ---- one destroy ---- */

struct destroyer {
    struct destroy *destroy;
    unsigned index;
    pthread_t id;
};

static void queue_all(struct destroy_rig *rig)
{
    struct destroy_turns *turns = &rig->turns;

    turns->first = 0;
    turns->count = rig->domains;
    for (unsigned i = 0; i < rig->domains; i++) {
        turns->domain[i] = i;
    }
}

/* NULL when each domain that is left is in somebody's hands. */
static struct destroy_domain *take_turn(struct destroy_rig *rig)
{
    struct destroy_turns *turns = &rig->turns;
    struct destroy_domain *domain = NULL;

    hv_lock_take(&turns->lock);
    if (turns->count > 0) {
        domain = &rig->domain[turns->domain[turns->first]];
        turns->first = (turns->first + 1) % DESTROY_DOMAINS_MAX;
        turns->count--;
    }
    hv_lock_drop(&turns->lock);
    return domain;
}

static void queue_again(struct destroy_rig *rig, const struct destroy_domain *domain)
{
    struct destroy_turns *turns = &rig->turns;

    hv_lock_take(&turns->lock);
    turns->domain[(turns->first + turns->count) % DESTROY_DOMAINS_MAX] =
        (unsigned)(domain - rig->domain);
    turns->count++;
    hv_lock_drop(&turns->lock);
}

static void destroy_by_turns(struct destroy *destroy)
{
    struct destroy_domain *domain = take_turn(destroy->rig);

    while (domain) {
        if (destroy->way->step(destroy->rig, domain) == -EAGAIN) {
            queue_again(destroy->rig, domain);
        }
        domain = take_turn(destroy->rig);
    }
}

/* Those that fall to one thread, one after the other. */
static void destroy_own(struct destroy *destroy, unsigned thread)
{
    struct destroy_rig *rig = destroy->rig;

    for (unsigned i = thread; i < rig->domains; i += destroy->threads) {
        while (destroy->way->step(rig, &rig->domain[i]) == -EAGAIN) {
        }
    }
}

/* To the CPU of that place among those that the process may use. */
static void pin(unsigned place)
{
    cpu_set_t allowed, one;

    sched_getaffinity(0, sizeof(allowed), &allowed);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &allowed) && place-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof(one), &one);
            return;
        }
    }
}

static uint64_t disturbances(void)
{
    struct rusage usage;

    return getrusage(RUSAGE_THREAD, &usage) == 0 ? (uint64_t)usage.ru_nivcsw : 0;
}

static void *destroyer_main(void *data)
{
    const struct destroyer *me = data;
    struct destroy *destroy = me->destroy;
    uint64_t before;

    if (destroy->pinned) {
        pin(me->index);
    }
    pthread_barrier_wait(&destroy->start);
    before = disturbances();
    destroy->begin_ns[me->index] = bench_wall_ns();
    destroy->cpu_ns[me->index] = -bench_thread_ns();
    if (destroy->way->product) {
        destroy_by_turns(destroy);
    } else {
        destroy_own(destroy, me->index);
    }
    destroy->cpu_ns[me->index] += bench_thread_ns();
    destroy->end_ns[me->index] = bench_wall_ns();
    hv_add_seq(&destroy->disturbed, disturbances() - before);
    hv_sub_seq(&destroy->left, 1);
    return NULL;
}

double destroy_note(struct destroy_observed *observed, double start)
{
    double now = bench_wall_ns();

    if (observed->count < DESTROY_OBSERVED_MAX) {
        observed->each[observed->count++] = (float)(now - start);
    }
    return now;
}

static void *observer_main(void *data)
{
    const struct timespec pause = {.tv_nsec = OBSERVER_PAUSE};
    struct destroy *destroy = data;

    /* As a worker that has something to do meanwhile. */
    hv_heap_attach_thread(destroy->rig->arena->heap);
    pthread_barrier_wait(&destroy->start);
    while (hv_load_seq(&destroy->left) > 0) {
        double start = bench_wall_ns();

        (void)destroy->way->getinfo(destroy->rig);
        start = destroy_note(&destroy->getinfo, start);
        destroy->way->other(destroy->rig);
        destroy_note(&destroy->other, start);
        nanosleep(&pause, NULL);
    }
    hv_heap_detach_thread(destroy->rig->arena->heap);
    return NULL;
}

/* Returns the wall time in ns. */
static double destroy_all(struct destroy *destroy, unsigned threads, bool observed)
{
    struct destroyer each[DESTROY_DOMAINS_MAX];
    pthread_t observer;
    double begin, end;

    destroy->threads = threads;
    queue_all(destroy->rig);
    destroy->getinfo.count = 0;
    destroy->other.count = 0;
    hv_store_seq(&destroy->left, threads);
    hv_store_seq(&destroy->disturbed, 0);
    pthread_barrier_init(&destroy->start, NULL, threads + observed);
    for (unsigned i = 0; i < threads; i++) {
        each[i] = (struct destroyer){.destroy = destroy, .index = i};
        bench_thread_start(&each[i].id, destroyer_main, &each[i]);
    }
    if (observed) {
        bench_thread_start(&observer, observer_main, destroy);
    }
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(each[i].id, NULL);
    }
    if (observed) {
        pthread_join(observer, NULL);
    }
    pthread_barrier_destroy(&destroy->start);
    begin = destroy->begin_ns[0];
    end = destroy->end_ns[0];
    for (unsigned i = 1; i < threads; i++) {
        begin = destroy->begin_ns[i] < begin ? destroy->begin_ns[i] : begin;
        end = destroy->end_ns[i] > end ? destroy->end_ns[i] : end;
    }
    return end - begin;
}

/* ---- figures ---- */

/* Of all locks of the way's heap, or of all that are each domain's own. */
struct lock_sum {
    uint64_t acquired, contended, wait_ns;
};

static void add_lock(struct lock_sum *sum, const struct hv_lock *lock)
{
    const struct hv_lock_counters *counters = hv_lock_counters(lock);

    sum->acquired += hv_load_relaxed(&counters->acquired);
    sum->contended += hv_load_relaxed(&counters->contended);
    sum->wait_ns += hv_load_relaxed(&counters->wait_ns);
}

static struct lock_sum sum_heap_locks(const struct destroy_rig *rig, const struct destroy_way *way)
{
    struct lock_sum sum = {0};

    if (!way->product) {
        add_lock(&sum, &rig->old.lock);
        return sum;
    }
    for (unsigned i = 0; i < rig->arena->heap->shard_count; i++) {
        add_lock(&sum, &rig->arena->heap->shards[i].lock);
    }
    return sum;
}

static struct lock_sum sum_all_locks(const struct destroy_rig *rig, const struct destroy_way *way)
{
    struct lock_sum sum = sum_heap_locks(rig, way);

    add_lock(&sum, &rig->domctl);
    add_lock(&sum, &rig->kill);
    add_lock(&sum, &rig->turns.lock);
    for (unsigned i = 0; i < rig->domains; i++) {
        add_lock(&sum, &rig->domain[i].memory.p2m.lock);
        add_lock(&sum, &rig->domain[i].memory.page_lock);
    }
    return sum;
}

static const struct hv_lock *heap_lock(const struct destroy_rig *rig, const struct destroy_way *way)
{
    return way->product ? &rig->arena->heap->shards[0].lock : &rig->old.lock;
}

static int by_value(const void *a, const void *b)
{
    float difference = *(const float *)a - *(const float *)b;

    return (difference > 0) - (difference < 0);
}

double destroy_p99_us(struct destroy_observed *observed)
{
    if (observed->count == 0) {
        return 0;
    }
    qsort(observed->each, observed->count, sizeof(observed->each[0]), by_value);
    return observed->each[observed->count * 99 / 100] / 1e3;
}

static double mean_of(const struct hv_histogram *holds)
{
    uint64_t count = hv_histogram_count(holds);

    return count ? (double)hv_load_relaxed(&holds->total_ns) / (double)count : 0;
}

static double total_cpu_ns(const struct destroy *destroy)
{
    double total = 0;

    for (unsigned i = 0; i < destroy->threads; i++) {
        total += destroy->cpu_ns[i];
    }
    return total;
}

/* Destroy all, and say how long the heap's locks were held. Returns wall time, ns. */
static double destroy_profiled(struct destroy *destroy, unsigned threads, bool observed,
                               struct hv_histogram *holds_out)
{
    const struct hv_lock *lock = heap_lock(destroy->rig, destroy->way);
    struct hv_histogram before;
    double wall;

    destroy_holds(lock, &before);
    wall = destroy_all(destroy, threads, observed);
    destroy_holds(lock, holds_out);
    hv_histogram_subtract(holds_out, &before);
    return wall;
}

uint64_t destroy_extent_pages(const struct hv_arena *arena)
{
    struct hv_heap_info info;

    hv_heap_get_info(arena->heap, &info);
    return info.freed_extents * HV_EXTENT_FRAMES;
}

unsigned destroy_cpus(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);

    return online > 0 ? (unsigned)online : 1;
}

/* As many as can do something at once. */
static unsigned parallel_threads(const struct destroy *destroy)
{
    unsigned cpus = destroy_cpus();

    return destroy->rig->domains < cpus ? destroy->rig->domains : cpus;
}

/* Every page the domains had is free in the way's heap. */
static bool all_free(struct destroy_rig *rig, const struct destroy_way *way)
{
    uint64_t pages = rig->domains * rig->pages;
    uint64_t free_frames =
        way->product ? rig->arena->frame_count - HV_EXTENT_FRAMES : pages + HV_EXTENT_FRAMES;

    return way->getinfo(rig) == free_frames;
}

/* The destroy with a thread each. */
static void measure_parallel(struct destroy *destroy, struct destroy_measured *measured)
{
    struct destroy_rig *rig = destroy->rig;
    const struct destroy_way *way = destroy->way;
    double pages = (double)(rig->domains * rig->pages);
    struct lock_sum heap_before = sum_heap_locks(rig, way);
    struct lock_sum all_before = sum_all_locks(rig, way);
    double *figures = measured->figures;
    struct hv_histogram holds;
    struct lock_sum heap, all;
    double wall, start;

    wall = destroy_profiled(destroy, way->product ? parallel_threads(destroy) : rig->domains, true,
                            &holds);
    heap = sum_heap_locks(rig, way);
    all = sum_all_locks(rig, way);
    figures[DESTROY_WALL_S] = wall / 1e9;
    figures[DESTROY_NS_PER_PAGE] = wall / pages;
    figures[DESTROY_CPU_NS_PER_PAGE] = total_cpu_ns(destroy) / pages;
    figures[DESTROY_HOLD_NS] = mean_of(&holds);
    figures[DESTROY_HOLD_P50_NS] = (double)hv_histogram_quantile(&holds, 500000);
    figures[DESTROY_ACQUISITIONS] = (double)(heap.acquired - heap_before.acquired);
    figures[DESTROY_LOCK_OPS_PER_PAGE] = (double)(all.acquired - all_before.acquired) / pages;
    figures[DESTROY_HELD_S] = figures[DESTROY_HOLD_NS] * figures[DESTROY_ACQUISITIONS] / 1e9;
    figures[DESTROY_BLOCKED] = (double)(heap.contended - heap_before.contended);
    figures[DESTROY_BLOCKED_S] = (double)(heap.wait_ns - heap_before.wait_ns) / 1e9;
    figures[DESTROY_GETINFO_P99_US] = destroy_p99_us(&destroy->getinfo);
    figures[DESTROY_OTHER_P99_US] = destroy_p99_us(&destroy->other);
    figures[DESTROY_EXTENT_FREE_PCT] =
        way->product ? 100 * (double)destroy_extent_pages(rig->arena) / pages : 0;
    measured->wrong |= !all_free(rig, way);
    start = bench_wall_ns();
    way->scrub(rig);
    figures[DESTROY_ZEROED_S] = (wall + bench_wall_ns() - start) / 1e9;
}

/* The same with one thread for all, unobserved. */
static void measure_serial(struct destroy *destroy, struct destroy_measured *measured)
{
    double *figures = measured->figures;
    struct hv_histogram holds;

    figures[DESTROY_SERIAL_WALL_S] = destroy_profiled(destroy, 1, false, &holds) / 1e9;
    figures[DESTROY_OVER_IDEAL] =
        figures[DESTROY_WALL_S] * parallel_threads(destroy) / figures[DESTROY_SERIAL_WALL_S];
    figures[DESTROY_SERIAL_CPU_S] = total_cpu_ns(destroy) / 1e9;
    figures[DESTROY_SERIAL_HOLD_P50_NS] = (double)hv_histogram_quantile(&holds, 500000);
    measured->wrong |= !all_free(destroy->rig, destroy->way);
}

int destroy_measure(struct destroy *destroy, enum hv_backing_kind backing,
                    struct destroy_measured *measured)
{
    static void (*const steps[])(struct destroy * destroy, struct destroy_measured * measured) = {
        measure_parallel,
        measure_serial,
    };
    int err = 0;

    for (unsigned i = 0; !err && i < HV_ARRAY_LEN(steps); i++) {
        err = open_rig(destroy->rig, destroy->way, backing);
        if (!err) {
            steps[i](destroy, measured);
        }
        close_rig(destroy->rig);
    }
    return err;
}

/* Those that had no CPU when the first one began, and for how long would matter. */
static unsigned late_threads(const struct destroy *destroy, double wall)
{
    double first = destroy->begin_ns[0];
    unsigned late = 0;

    for (unsigned i = 1; i < destroy->threads; i++) {
        first = destroy->begin_ns[i] < first ? destroy->begin_ns[i] : first;
    }
    for (unsigned i = 0; i < destroy->threads; i++) {
        late += destroy->begin_ns[i] - first > wall / 16;
    }
    return late;
}

static int try_once(struct destroy *destroy, unsigned threads, struct destroy_trial *trial_out)
{
    struct destroy_rig *rig = destroy->rig;
    int err = open_rig(rig, destroy->way, HV_BACKING_KIND_NONE);

    if (!err) {
        uint64_t before = sum_heap_locks(rig, destroy->way).acquired;
        struct hv_histogram holds;

        trial_out->wall_ns = destroy_profiled(destroy, threads, false, &holds);
        trial_out->cpu_ns = total_cpu_ns(destroy);
        trial_out->hold_p50_ns = (double)hv_histogram_quantile(&holds, 500000);
        trial_out->disturbed =
            hv_load_seq(&destroy->disturbed) + late_threads(destroy, trial_out->wall_ns);
        trial_out->operations = (double)(sum_heap_locks(rig, destroy->way).acquired - before);
    }
    close_rig(rig);
    return err;
}

int destroy_try(struct destroy *destroy, unsigned threads, unsigned tries,
                struct destroy_trial *best_out)
{
    int err = 0;

    destroy->pinned = true;
    for (unsigned i = 0; !err && (i < tries || (i < 3 * tries && best_out->disturbed > 0)); i++) {
        struct destroy_trial trial = {0};

        err = try_once(destroy, threads, &trial);
        if (i == 0 || trial.disturbed < best_out->disturbed ||
            (trial.disturbed == best_out->disturbed && trial.wall_ns < best_out->wall_ns)) {
            *best_out = trial;
        }
    }
    destroy->pinned = false;
    return err;
}
