/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * pCPU workers and what they run. The scheduler picks, blocks and wakes; what a vCPU does in its
 * slice is the run loop's (domain/run.c), reached through the entity's `run`.
 *
 * Each worker is a host thread with a run queue, first come first served in slices of 3 ms, and a
 * timer queue that it runs between slices. After a slice it takes the entity that has waited
 * longest, its own with a head start of 1 ms; when there is none it sleeps until its next timer. A
 * wake goes to the home worker if that is idle, else to another that is, else to the end of the
 * home queue.
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
 *   (3) hv_sched_retire() returns only when no worker runs the entity or will;
 *   (4) no worker sleeps while an entity is ready: it says that it is idle and then looks at all
 *       queues, a wake puts the entity into a queue and then looks for idle workers.
 */
#pragma once

#include "base/clock.h"
#include "base/list.h"
#include "sync/qsbr.h"
#include "time/timer.h"

/* Longest run before another ready entity has its turn. */
#define HV_SCHED_SLICE_NS    (3 * HV_NS_PER_MS)

/* More workers than the host has CPUs serve tests alone. */
#define HV_SCHED_MAX_WORKERS 256u

struct hv_heap;
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
    _Atomic uint64_t steal_ns; /* of ready_ns: after its slice ended, while it wanted to go on */
};

/* What a worker counts; one writer, relaxed readers. Statistics `pcpu.<i>.*`. */
struct hv_worker_counters {
    _Atomic uint64_t busy_ns, switches, stolen, sleeps, timers;
    _Atomic uint32_t running; /* the label of what it runs now; 0: nothing */
};

struct hv_sched_entity {
    /* Set at creation, before hv_sched_entity_init(). */
    enum hv_sched_verdict (*run)(void *context, struct hv_worker *worker, hv_ns slice_end);
    void *context;
    struct hv_doorbell *bell; /* rung with STOP when hv_sched_slice_over() comes true early */
    uint32_t label;           /* for statistics: its domain's id */
    /* Guarded by the lock of the run queue it belongs to. */
    struct hv_list link;
    _Atomic(struct hv_worker *) worker; /* home queue */
    enum hv_sched_state state;
    bool wake_pending;
    bool put_off; /* ready, because its slice ended */
    /* Atomic: somebody waits for the slice to end. Written under the lock, and read by `run`. */
    _Atomic bool retiring;
    hv_ns since; /* of the present state */
    struct hv_sched_counters counters;
};

/**
 * Start @workers pCPU worker threads (1 to HV_SCHED_MAX_WORKERS).
 *
 * @clock  borrowed for the scheduler's life. With a simulated one, hv_sched_clock_moved() after each
 *         advance.
 * @heap   borrowed likewise: the workers allocate from it by magazines of their own. NULL: there is
 *         none.
 *
 * Returns 0 and *sched_out; -EINVAL for the number; -ENOMEM, -EAGAIN from the host.
 */
HV_MUST_CHECK int hv_sched_create(unsigned workers, const struct hv_clock *clock,
                                  struct hv_heap *heap, struct hv_sched **sched_out);
/** Stop and join the workers. All entities are retired, all timers finished. NULL is accepted. */
void hv_sched_destroy(struct hv_sched *sched);

unsigned hv_sched_workers(const struct hv_sched *sched);
/** The timer queue that vCPU @index of a domain should use: worker index modulo workers. */
struct hv_timer_queue *hv_sched_timer_queue(struct hv_sched *sched, unsigned index);

/** Grace periods of what the workers read without locks. */
struct hv_qsbr *hv_sched_qsbr(struct hv_sched *sched);

/** The worker at whose queue the entity is at home. Any thread; it may have moved since. */
unsigned hv_sched_home(const struct hv_sched_entity *entity);

const struct hv_worker_counters *hv_sched_worker_counters(const struct hv_sched *sched,
                                                          unsigned index);

/** A simulated clock was advanced: let workers and the deadline thread look at it. */
void hv_sched_clock_moved(struct hv_sched *sched);

/** Make a blocked entity; @index chooses its first home worker. */
void hv_sched_entity_init(struct hv_sched *sched, struct hv_sched_entity *entity, unsigned index);

/** Make it ready, or remember the wake when it is just blocking. Any thread, ranks < RUNQUEUE. */
void hv_sched_wake(struct hv_sched_entity *entity);

/** Take it out for good; waits while it runs. No lock of rank >= DEVICE held. */
void hv_sched_retire(struct hv_sched_entity *entity);

/* ---- for the run loop, on the worker's thread, inside `run` ---- */

/** True when the slice is over: @slice_end has come, or somebody wants the entity to retire. */
bool hv_sched_slice_over(const struct hv_worker *worker, hv_ns slice_end);

/** The reader of hv_sched_qsbr() that this worker is: online in `run`, offline in an engine. */
struct hv_qsbr_thread *hv_worker_reader(struct hv_worker *worker);

unsigned hv_worker_index(const struct hv_worker *worker);

/** Run what is due on the worker's timer queue; no lock held. */
void hv_worker_run_timers(struct hv_worker *worker);

/**
 * About to enter an engine: from now to hv_worker_clear_deadline(), @bell is rung with
 * HV_REQUEST_TIMER at the end of the slice, at the queue's next deadline, and when an earlier one
 * is armed.
 *
 * Returns the earlier of the two moments, for hv_engine_run().
 */
hv_ns hv_worker_set_deadline(struct hv_worker *worker, struct hv_doorbell *bell, hv_ns slice_end);

/** Back from the engine: @bell is not rung on this worker's account any more. */
void hv_worker_clear_deadline(struct hv_worker *worker);
