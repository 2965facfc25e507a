/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * pCPU workers and what they run. The scheduler picks, blocks and wakes; what a vCPU does in its
 * slice is the run loop's (domain/run.c), reached through the entity's `run`.
 *
 *     blocked --hv_sched_wake--> ready --pick--> running --run says BLOCK--> blocked
 *                                  ^                |----run says YIELD-->  ready
 *                                  '----------------'
 *     any but running --hv_sched_retire--> retired (final)
 *
 * Invariants:
 *   (1) a ready entity stands in exactly one run queue; others in none;
 *   (2) a wake that comes while `run` decides to block is not lost: `wake_pending` is set with the
 *       queue's lock held and looked at before blocking;
 *   (3) hv_sched_retire() returns only when no worker runs the entity or will.
 */
#pragma once

#include "base/clock.h"
#include "base/list.h"
#include "time/timer.h"

struct hv_sched;
struct hv_worker;

enum hv_sched_verdict {
    HV_SCHED_YIELD, /* still runnable */
    HV_SCHED_BLOCK, /* until a wake */
};

enum hv_sched_state {
    HV_SCHED_STATE_BLOCKED,
    HV_SCHED_STATE_READY,
    HV_SCHED_STATE_RUNNING,
    HV_SCHED_STATE_RETIRED,
};

struct hv_sched_counters {
    _Atomic uint64_t run_ns, ready_ns, blocked_ns, switches, migrations;
};

struct hv_sched_entity {
    /* Set at creation. */
    enum hv_sched_verdict (*run)(void *context, struct hv_worker *worker, hv_ns slice_end);
    void *context;
    struct hv_doorbell *bell; /* rung with STOP to end a slice early */
    /* Guarded by the lock of the run queue it belongs to. */
    struct hv_list link;
    _Atomic(struct hv_worker *) worker; /* home queue */
    enum hv_sched_state state;
    bool wake_pending;
    hv_ns since; /* of the present state */
    struct hv_sched_counters counters;
};

/**
 * Start @workers pCPU worker threads (1 to the host's CPUs).
 *
 * Returns 0 and *sched_out; -EINVAL for the number; -ENOMEM, -EAGAIN from the host.
 */
HV_MUST_CHECK int hv_sched_create(unsigned workers, const struct hv_clock *clock,
                                  struct hv_sched **sched_out);
/** Stop and join the workers. All entities are retired. NULL is accepted. */
void hv_sched_destroy(struct hv_sched *sched);

unsigned hv_sched_workers(const struct hv_sched *sched);
/** The timer queue that vCPU @index of a domain should use: worker index modulo workers. */
struct hv_timer_queue *hv_sched_timer_queue(struct hv_sched *sched, unsigned index);

/** Make a blocked entity; @index chooses its first home worker. */
void hv_sched_entity_init(struct hv_sched *sched, struct hv_sched_entity *entity, unsigned index);

/** Make it ready, or remember the wake when it is just blocking. Any thread, ranks < RUNQUEUE. */
void hv_sched_wake(struct hv_sched_entity *entity);

/** Take it out for good; waits while it runs. No lock of rank >= DEVICE held. */
void hv_sched_retire(struct hv_sched_entity *entity);

/** Now, and the slice left, as a vCPU in `run` sees it: true when its slice is over. */
bool hv_sched_slice_over(const struct hv_worker *worker, hv_ns slice_end);
