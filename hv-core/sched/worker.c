/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The worker threads, from start to join.
 *
 * A turn of the loop takes the bell's requests first and looks at everything after: stop, timers,
 * queues. What is rung for after the taking stands when the worker is about to enter or to sleep,
 * and turns it back.
 */
#include "sched/sched-private.h"

#include <sys/resource.h>

#include "mem/heap.h"
#include "sched/yield.h"
#include "sync/race.h"

/* Freed blocks of a grace period that a worker runs in one turn. */
#define RECLAIM_BATCH 16u
/* The host took the CPU away: for so long it is thought to have others who want it. */
#define CONTENDED_NS  (100 * HV_NS_PER_MS)

void worker_init(struct hv_worker *worker, struct hv_sched *sched, struct hv_runqueue *queue,
                 unsigned index)
{
    hv_doorbell_init(&worker->bell);
    hv_list_init(&worker->link);
    worker->sched = sched;
    worker->queue = queue;
    worker->index = index;
}

void worker_stop(struct hv_worker *worker)
{
    hv_store_seq(&worker->stopping, 1);
    hv_doorbell_ring(&worker->bell, HV_REQUEST_STOP);
    pthread_join(worker->thread, NULL);
}

void hv_worker_run_timers(struct hv_worker *worker)
{
    if (worker->timers) {
        unsigned ran = hv_timer_queue_run(worker->timers, hv_clock_now(worker->sched->clock));

        hv_count(&worker->counters.timers, ran);
    }
    hv_runqueue_tick(worker->queue);
}

/* The earliest moment at which there is something to do besides running an entity. */
static hv_ns next_moment(const struct hv_worker *worker)
{
    hv_ns next = hv_runqueue_next(worker->queue);
    hv_ns timer = worker->timers ? hv_timer_queue_next(worker->timers) : HV_NS_NEVER;

    return hv_ns_before(timer, next) ? timer : next;
}

/* ---- halts ---- */

/* Has the host taken the CPU from this thread lately? Then others want what polling would burn. */
static bool host_contended(struct hv_worker *worker, hv_ns now)
{
    struct rusage usage;

    if (getrusage(RUSAGE_THREAD, &usage) == 0 && usage.ru_nivcsw != worker->switched_away) {
        worker->switched_away = usage.ru_nivcsw;
        worker->contended_until = hv_ns_add(now, CONTENDED_NS);
    }
    return hv_ns_before(now, worker->contended_until);
}

/* Somebody has given the worker work, or wants something else of it. */
static bool is_wanted(const struct hv_worker *worker, hv_ns now)
{
    return !hv_load_seq(&worker->queue->idle) || hv_load_relaxed(&worker->bell.requests) ||
           !hv_ns_before(now, next_moment(worker));
}

/*
 * The entity has halted, and its last wakes came soon: wait for the next on our feet. To others the
 * worker is idle meanwhile, and the entity still runs, so that a wake leaves its mark there.
 */
static void poll_halt(struct hv_worker *worker, struct hv_sched_entity *entity)
{
    const struct hv_clock *clock = worker->sched->clock;
    hv_ns now = hv_clock_now(clock);
    hv_ns end = hv_ns_add(now, entity->poll_ns);

    /* A simulated clock does not move while we look. */
    if (entity->poll_ns == 0 || clock->kind != HV_CLOCK_KIND_HOST || host_contended(worker, now)) {
        return;
    }
    hv_count(&entity->counters.halt_polls, 1);
    if (hv_runqueue_idle(worker->queue)) {
        while (!hv_load_seq(&entity->wake_pending) && !is_wanted(worker, now) &&
               !hv_load_relaxed(&entity->retiring) && hv_ns_before(now, end)) {
            __builtin_ia32_pause();
            now = hv_clock_now(clock);
        }
    }
    hv_runqueue_awake(worker->queue);
    hv_count(&entity->counters.halt_poll_hits, hv_load_seq(&entity->wake_pending));
}

/* ---- turns ---- */

/* Run the next entity for one slice. False when there is none. */
static bool run_slice(struct hv_worker *worker)
{
    const struct hv_clock *clock = worker->sched->clock;
    struct hv_sched_entity *entity;
    enum hv_sched_verdict verdict;
    hv_ns start, slice_end;

    entity = hv_runqueue_pick(worker->queue, &slice_end);
    if (!entity) {
        return false;
    }
    start = hv_clock_now(clock);
    hv_store_relaxed(&worker->counters.running, entity->label);
    worker->running = entity;
    /* Who is back at once because nobody else wanted the pCPU has not been away. */
    if (worker->last_ran != entity) {
        hv_entity_begin_slice(entity);
    }
    worker->last_ran = entity;
    verdict = entity->run(entity->context, worker, slice_end);
    hv_count(&worker->counters.switches, 1);
    hv_count(&worker->counters.busy_ns, hv_clock_now(clock).v - start.v);
    hv_store_relaxed(&worker->counters.running, 0);
    if (verdict == HV_SCHED_HALT) {
        poll_halt(worker, entity);
    }
    worker->running = NULL;
    hv_runqueue_put_back(worker->queue, entity, verdict);
    return true;
}

/* Until when a worker without work may sleep, by the host's clock. */
static hv_ns sleep_until(const struct hv_worker *worker)
{
    hv_ns next = next_moment(worker);

    if (worker->sched->clock->kind == HV_CLOCK_KIND_HOST) {
        return next;
    }
    /* A simulated moment is either here, or comes with a ring. */
    return hv_ns_before(hv_clock_now(worker->sched->clock), next) ? HV_NS_NEVER : (hv_ns){0};
}

static void count_wake(struct hv_worker_counters *counters, uint32_t requests)
{
    if (requests == 0) {
        hv_count(&counters->woken_timer, 1);
    } else if (requests & HV_REQUEST_EVENT) {
        hv_count(&counters->woken_event, 1);
    } else {
        hv_count(&counters->woken_other, 1);
    }
}

static void sleep_idle(struct hv_worker *worker)
{
    HV_RACE("sched.worker.empty");
    if (hv_runqueue_idle(worker->queue)) {
        uint32_t requests;

        hv_count(&worker->counters.sleeps, 1);
        if (worker->sched->deadline) {
            hv_deadline_rest(worker->sched->deadline, worker->index);
        }
        hv_qsbr_offline(&worker->reader);
        requests = hv_doorbell_sleep(&worker->bell, sleep_until(worker));
        hv_qsbr_online(&worker->reader);
        count_wake(&worker->counters, requests);
    }
    hv_runqueue_awake(worker->queue);
}

void *worker_main(void *data)
{
    struct hv_worker *worker = data;
    struct hv_sched *sched = worker->sched;

    worker->queue->thread_id = hv_thread_id();
    if (sched->heap) {
        hv_heap_attach_thread(sched->heap);
    }
    hv_qsbr_online(&worker->reader);
    for (;;) {
        bool ran = false;

        (void)hv_doorbell_take(&worker->bell);
        if (hv_load_seq(&worker->stopping)) {
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

/* ---- for the run loop ---- */

struct hv_qsbr_thread *hv_worker_reader(struct hv_worker *worker)
{
    return &worker->reader;
}

unsigned hv_worker_index(const struct hv_worker *worker)
{
    return worker->index;
}

/* When the guest is to be left: its slice ends, or something falls due. */
static hv_ns leave_at(const struct hv_worker *worker, hv_ns slice_end)
{
    hv_ns end = hv_runqueue_slice_end(worker->queue, slice_end);
    hv_ns next = next_moment(worker);

    return hv_ns_before(next, end) ? next : end;
}

hv_ns hv_worker_set_deadline(struct hv_worker *worker, struct hv_doorbell *bell, hv_ns slice_end)
{
    struct hv_deadline *deadline = worker->sched->deadline;
    hv_ns set, found;

    if (!deadline) {
        return slice_end; /* a vCPU's own thread: nothing falls due on it */
    }
    set = leave_at(worker, slice_end);
    hv_deadline_set(deadline, worker->index, bell, set);
    HV_RACE("sched.deadline.set");
    /* Once more, now that the bell stands: a timer armed, or an end of the slice ordered, after this
     * look finds it. */
    found = leave_at(worker, slice_end);
    if (found.v != set.v) {
        hv_deadline_set(deadline, worker->index, bell, found);
    }
    return found;
}

void hv_worker_clear_deadline(struct hv_worker *worker)
{
    if (worker->sched->deadline) {
        hv_deadline_clear(worker->sched->deadline, worker->index);
    }
}
