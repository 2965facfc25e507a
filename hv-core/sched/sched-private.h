/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Workers from the inside: shared by the threads (worker.c), their owner and the policy `host`. */
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
    struct hv_worker_counters counters;
    struct hv_sched_entity *running; /* in `run`, else NULL */
    const void *last_ran;            /* an entity, to be compared alone: it may be gone */
    long switched_away;              /* by the host, as of the last look */
    hv_ns contended_until;           /* no halts are polled */
    /* Atomic. */
    _Atomic uint32_t stopping;
    /* Set at creation. */
    struct hv_sched *sched;
    struct hv_runqueue *queue;
    struct hv_timer_queue *timers; /* &own_timers; NULL in a vCPU's own thread */
    unsigned index;
    pthread_t thread;
    struct hv_timer_queue own_timers;
    /* Policy `host`, of a vCPU's own thread. Guarded by the scheduler's lock. */
    struct hv_list link; /* of all that were made */
    struct hv_runqueues own_queues;
    struct hv_sched_entity *entity; /* NULL: to be used again */
};

struct hv_sched {
    /* Set at creation. */
    const struct hv_clock *clock;
    struct hv_heap *heap; /* may be NULL */
    enum hv_sched_policy policy;
    struct hv_deadline *deadline; /* NULL under `host` */
    unsigned count;               /* workers made */
    unsigned started;             /* threads that run */
    struct hv_qsbr qsbr;
    struct hv_runqueues queues; /* of the workers */
    struct hv_lock lock;        /* HV_RANK_LEAF */
    struct hv_list vcpu_workers;
    struct hv_worker workers[];
};

/** The thread of a worker, until `stopping`. */
void *worker_main(void *data);

/** What all workers have; @queue is its own. */
void worker_init(struct hv_worker *worker, struct hv_sched *sched, struct hv_runqueue *queue,
                 unsigned index);

/** Ask the thread to end, and wait for it. */
void worker_stop(struct hv_worker *worker);

/** Give the entity a thread of its own, in which it is blocked. Returns 0; -ENOMEM; -EAGAIN. */
HV_MUST_CHECK int host_start(struct hv_sched *sched, struct hv_sched_entity *entity);
/** The entity is retired: end its thread. What late wakes may look at stays. */
void host_stop(struct hv_sched *sched, struct hv_sched_entity *entity);
/** All are stopped: free them. */
void host_finish(struct hv_sched *sched);
