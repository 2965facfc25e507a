/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Workers from the inside: shared by the threads (worker.c) and the queues (sched.c). */
#pragma once

#include "sched/sched.h"

#include "sched/deadline.h"

#include <pthread.h>

struct hv_worker {
    /* Rung when the worker may have something to do. IN_GUEST while it runs an entity: then
     * `interrupt` passes a ring on to the entity's bell, through the worker's deadline slot. */
    struct hv_doorbell bell;
    /* The worker's own, on a line of its own: what readers of grace periods look at. */
    struct hv_qsbr_thread reader;
    struct hv_lock lock; /* HV_RANK_RUNQUEUE; entities' states, too */
    /* Guarded by &lock. */
    struct hv_list ready;
    unsigned retirers; /* threads that wait for `turns` */
    /* Atomic: since when the head of `ready` waits, UINT64_MAX when there is none; to look at
     * without the lock, written under it. */
    _Atomic uint64_t oldest_ns;
    /* Atomic: set by the worker when it finds nothing to do; cleared by whoever gives it work. */
    _Atomic uint32_t idle;
    /* Futex word: bumped when an entity that is to retire has left. */
    _Atomic uint32_t turns;
    /* The worker's own. */
    struct hv_worker_counters counters;
    struct hv_sched_entity *running; /* in `run`, else NULL */
    struct hv_timer_queue timers;
    /* Set at creation. */
    struct hv_sched *sched;
    unsigned index;
    pthread_t thread;
    uint64_t thread_id; /* by the thread itself */
};

struct hv_sched {
    /* Set at creation. */
    const struct hv_clock *clock;
    struct hv_heap *heap; /* may be NULL */
    struct hv_deadline *deadline;
    unsigned count;   /* workers made */
    unsigned started; /* threads that run */
    struct hv_qsbr qsbr;
    /* Atomic. */
    _Atomic uint32_t stopping;
    struct hv_worker workers[];
};

/** Take the next entity for @worker, from its own queue or another's; or NULL. */
struct hv_sched_entity *hv_worker_pick(struct hv_worker *worker);

/** True when some queue has an entity. After storing `idle`: invariant (4) of sched.h. */
bool hv_sched_anything_ready(struct hv_sched *sched);

/** A slice is over: block, or queue again, or retire what pick gave. */
void hv_worker_put_back(struct hv_worker *worker, struct hv_sched_entity *entity,
                        enum hv_sched_verdict verdict);
