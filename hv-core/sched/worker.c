/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The worker threads, from start to join.
 *
 * A turn of the loop takes the bell's requests first and looks at everything after: stop, timers,
 * queues. What is rung for after the taking stands when the worker is about to enter or to sleep,
 * and turns it back.
 */
#include "sched/sched-private.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/format.h"
#include "mem/heap.h"
#include "sync/thread.h"
#include "sync/race.h"

/* Freed blocks of a grace period that a worker runs in one turn. */
#define RECLAIM_BATCH 16u

void hv_worker_run_timers(struct hv_worker *worker)
{
    unsigned ran = hv_timer_queue_run(&worker->timers, hv_clock_now(worker->sched->clock));

    hv_count(&worker->counters.timers, ran);
}

/* Run the next entity for one slice. False when there is none. */
static bool run_slice(struct hv_worker *worker)
{
    struct hv_sched_entity *entity = hv_worker_pick(worker);
    enum hv_sched_verdict verdict;
    hv_ns start;

    if (!entity) {
        return false;
    }
    start = hv_clock_now(worker->sched->clock);
    hv_store_relaxed(&worker->counters.running, entity->label);
    worker->running = entity;
    verdict = entity->run(entity->context, worker, hv_ns_add(start, HV_SCHED_SLICE_NS));
    worker->running = NULL;
    hv_store_relaxed(&worker->counters.running, 0);
    hv_count(&worker->counters.switches, 1);
    hv_count(&worker->counters.busy_ns, hv_clock_now(worker->sched->clock).v - start.v);
    hv_worker_put_back(worker, entity, verdict);
    return true;
}

/* Until when a worker without work may sleep, by the host's clock. */
static hv_ns sleep_until(const struct hv_worker *worker)
{
    hv_ns next = hv_timer_queue_next(&worker->timers);

    if (worker->sched->clock->kind == HV_CLOCK_KIND_HOST) {
        return next;
    }
    /* A simulated moment is either here, or comes with a ring. */
    return hv_ns_before(hv_clock_now(worker->sched->clock), next) ? HV_NS_NEVER : (hv_ns){0};
}

static void sleep_idle(struct hv_worker *worker)
{
    HV_RACE("sched.worker.empty");
    /* Invariant (4): idle first, then a last look at all queues. */
    hv_store_seq(&worker->idle, 1);
    HV_RACE("sched.worker.idle");
    if (!hv_sched_anything_ready(worker->sched)) {
        hv_count(&worker->counters.sleeps, 1);
        hv_qsbr_offline(&worker->reader);
        (void)hv_doorbell_sleep(&worker->bell, sleep_until(worker));
        hv_qsbr_online(&worker->reader);
    }
    hv_store_seq(&worker->idle, 0);
}

static void *worker_main(void *data)
{
    struct hv_worker *worker = data;
    struct hv_sched *sched = worker->sched;

    worker->thread_id = hv_thread_id();
    if (sched->heap) {
        hv_heap_attach_thread(sched->heap);
    }
    hv_qsbr_online(&worker->reader);
    for (;;) {
        bool ran = false;

        (void)hv_doorbell_take(&worker->bell);
        if (hv_load_seq(&sched->stopping)) {
            break;
        }
        hv_qsbr_quiescent(&worker->reader);
        hv_qsbr_reclaim(&sched->qsbr, RECLAIM_BATCH);
        hv_worker_run_timers(worker);
        if (hv_doorbell_enter(&worker->bell) == 0) {
            ran = run_slice(worker);
            hv_doorbell_leave(&worker->bell);
            if (!ran) {
                sleep_idle(worker);
            }
        }
    }
    hv_qsbr_offline(&worker->reader);
    if (sched->heap) {
        hv_heap_detach_thread(sched->heap);
    }
    return NULL;
}

/* The worker's bell was rung while it runs an entity. */
static void pass_on_ring(void *context)
{
    struct hv_worker *worker = context;

    hv_deadline_kick(worker->sched->deadline, worker->index);
}

static int make_worker(struct hv_sched *sched, unsigned index)
{
    struct hv_worker *worker = &sched->workers[index];
    int error;

    hv_doorbell_init(&worker->bell);
    error = hv_timer_queue_init(&worker->timers, sched->clock, &worker->bell, index);
    if (error < 0) {
        return error;
    }
    worker->sched = sched;
    worker->index = index;
    worker->bell.interrupt = pass_on_ring;
    worker->bell.interrupt_context = worker;
    hv_lock_init(&worker->lock, HV_RANK_RUNQUEUE, "runqueue", index);
    hv_list_init(&worker->ready);
    hv_store_relaxed(&worker->oldest_ns, UINT64_MAX);
    hv_qsbr_register(&sched->qsbr, &worker->reader);
    return 0;
}

int hv_sched_create(unsigned workers, const struct hv_clock *clock, struct hv_heap *heap,
                    struct hv_sched **sched_out)
{
    struct hv_sched *sched;
    int error = 0;

    *sched_out = NULL;
    if (workers == 0 || workers > HV_SCHED_MAX_WORKERS) {
        return -EINVAL;
    }
    sched = hv_alloc_aligned(HV_CACHE_LINE,
                             sizeof(struct hv_sched) + workers * sizeof(struct hv_worker));
    if (!sched) {
        return -ENOMEM;
    }
    sched->clock = clock;
    sched->heap = heap;
    hv_qsbr_init(&sched->qsbr);
    while (error == 0 && sched->count < workers) {
        error = make_worker(sched, sched->count);
        sched->count += error == 0;
    }
    if (error < 0) {
        goto out;
    }
    error = hv_deadline_create(workers, clock, &sched->deadline);
    while (error == 0 && sched->started < workers) {
        struct hv_worker *worker = &sched->workers[sched->started];
        char name[16];

        hv_format(name, sizeof(name), "hv-worker-%u", worker->index);
        error = hv_thread_start(&worker->thread, name, worker_main, worker);
        sched->started += error == 0;
    }

out:
    if (error < 0) {
        hv_sched_destroy(sched);
        return error;
    }
    *sched_out = sched;
    return 0;
}

void hv_sched_destroy(struct hv_sched *sched)
{
    if (!sched) {
        return;
    }
    hv_store_seq(&sched->stopping, 1);
    for (unsigned i = 0; i < sched->started; i++) {
        hv_doorbell_ring(&sched->workers[i].bell, HV_REQUEST_STOP);
    }
    for (unsigned i = 0; i < sched->started; i++) {
        pthread_join(sched->workers[i].thread, NULL);
    }
    hv_deadline_destroy(sched->deadline);
    for (unsigned i = 0; i < sched->count; i++) {
        struct hv_worker *worker = &sched->workers[i];

        hv_qsbr_unregister(&worker->reader);
        hv_timer_queue_finish(&worker->timers);
        hv_lock_finish(&worker->lock);
    }
    hv_qsbr_finish(&sched->qsbr);
    hv_free(sched);
}

unsigned hv_sched_workers(const struct hv_sched *sched)
{
    return sched->count;
}

struct hv_timer_queue *hv_sched_timer_queue(struct hv_sched *sched, unsigned index)
{
    return &sched->workers[index % sched->count].timers;
}

struct hv_qsbr *hv_sched_qsbr(struct hv_sched *sched)
{
    return &sched->qsbr;
}

const struct hv_worker_counters *hv_sched_worker_counters(const struct hv_sched *sched,
                                                          unsigned index)
{
    return &sched->workers[index].counters;
}

void hv_sched_clock_moved(struct hv_sched *sched)
{
    for (unsigned i = 0; i < sched->count; i++) {
        hv_doorbell_ring(&sched->workers[i].bell, HV_REQUEST_TIMER);
    }
    hv_deadline_clock_moved(sched->deadline);
}

struct hv_qsbr_thread *hv_worker_reader(struct hv_worker *worker)
{
    return &worker->reader;
}

unsigned hv_worker_index(const struct hv_worker *worker)
{
    return worker->index;
}

hv_ns hv_worker_set_deadline(struct hv_worker *worker, struct hv_doorbell *bell, hv_ns slice_end)
{
    struct hv_deadline *deadline = worker->sched->deadline;
    hv_ns next;

    /* The bell stands before the look at the queue: a timer armed after the look finds it. */
    hv_deadline_set(deadline, worker->index, bell, slice_end);
    HV_RACE("sched.deadline.set");
    next = hv_timer_queue_next(&worker->timers);
    if (!hv_ns_before(next, slice_end)) {
        return slice_end;
    }
    hv_deadline_set(deadline, worker->index, bell, next);
    return next;
}

void hv_worker_clear_deadline(struct hv_worker *worker)
{
    hv_deadline_clear(worker->sched->deadline, worker->index);
}
