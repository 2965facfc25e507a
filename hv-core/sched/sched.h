/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * pCPU workers and what they run. The scheduler picks, blocks and wakes; what a vCPU does in its
 * slice is the run loop's (domain/run.c), reached through the entity's `run`.
 *
 * Two policies:
 *
 *     credit   a host thread for each worker, with a run queue (runqueue.h) and a timer queue; any
 *              number of vCPUs shares them by weight
 *     host     a host thread for each vCPU, with a run queue of its own that holds nobody else: the
 *              host's scheduler deals, slices do not end, a yield finds nobody to yield to. Timers
 *              belong to one service thread (decisions D10)
 *
 * A worker runs its timers between slices, and sleeps until the next one when there is nothing to
 * run.
 */
#pragma once

#include "sched/runqueue.h"
#include "sync/qsbr.h"
#include "time/timer.h"

struct hv_heap;
struct hv_sched;
struct hv_worker;

/* What a worker counts; one writer, relaxed readers. Statistics `pcpu.<i>.*`. */
struct hv_worker_counters {
    _Atomic uint64_t busy_ns, switches, sleeps, timers;
    _Atomic uint64_t woken_timer, woken_event, woken_other; /* what ended the sleeps */
    _Atomic uint32_t running; /* the label of what it runs now; 0: nothing */
};

struct hv_sched_config {
    unsigned workers; /* 1 to HV_SCHED_MAX_WORKERS; under `host` service threads: one does */
    enum hv_sched_policy policy;
    bool no_boost;                /* directed yields are counted and do nothing */
    const struct hv_clock *clock; /* borrowed; after each advance of a simulated one:
                                   * hv_sched_clock_moved() */
    struct hv_heap *heap; /* borrowed: workers allocate by magazines of their own. NULL: none */
};

/**
 * Start the workers.
 *
 * Returns 0 and *sched_out; -EINVAL for their number; -ENOMEM, -EAGAIN from the host.
 */
HV_MUST_CHECK int hv_sched_create(const struct hv_sched_config *config,
                                  struct hv_sched **sched_out);
/** Stop and join the workers. All entities are retired, all timers finished. NULL is accepted. */
void hv_sched_destroy(struct hv_sched *sched);

enum hv_sched_policy hv_sched_policy(const struct hv_sched *sched);
unsigned hv_sched_workers(const struct hv_sched *sched);
/** The timer queue that vCPU @index of a domain should use: worker index modulo workers. */
struct hv_timer_queue *hv_sched_timer_queue(struct hv_sched *sched, unsigned index);

/** Grace periods of what the workers read without locks. */
struct hv_qsbr *hv_sched_qsbr(struct hv_sched *sched);

/** The worker at whose queue the entity is at home. Any thread; it may have moved since. */
unsigned hv_sched_home(const struct hv_sched_entity *entity);

const struct hv_worker_counters *hv_sched_worker_counters(const struct hv_sched *sched,
                                                          unsigned index);
/** How many entities worker @index took from another's queue. */
uint64_t hv_sched_stolen(const struct hv_sched *sched, unsigned index);
/** How often the thread that ends slices woke up. */
uint64_t hv_sched_deadline_wakes(const struct hv_sched *sched);

/** A simulated clock was advanced: let workers and the deadline thread look at it. */
void hv_sched_clock_moved(struct hv_sched *sched);

/**
 * Make a blocked entity; @home chooses its first worker.
 *
 * Returns 0; under `host` -ENOMEM, or -EAGAIN, when there is no thread for it.
 */
HV_MUST_CHECK int hv_sched_entity_init(struct hv_sched *sched, struct hv_sched_entity *entity,
                                       unsigned home);

/** Make it ready, or remember the wake when it is just blocking. Any thread, ranks < RUNQUEUE. */
void hv_sched_wake(struct hv_sched_entity *entity);

/**
 * Take it out for good; waits while it runs. Nothing is to be done for one that was never made.
 * No lock of rank >= DEVICE held.
 */
void hv_sched_retire(struct hv_sched *sched, struct hv_sched_entity *entity);

/**
 * Change a group's parameters while its entities run.
 *
 * @why  @why_size bytes for a sentence that names the bad value; may be NULL.
 *
 * Returns 0; -EINVAL for a value out of range; -ENOTSUP for a cap, an affinity or a weight under
 * `host`. Context: any thread, ranks < RUNQUEUE.
 */
HV_MUST_CHECK int hv_sched_set_parameters(struct hv_sched *sched, struct hv_sched_group *group,
                                          const struct hv_sched_parameters *parameters, char *why,
                                          size_t why_size);
/** The same check alone, for who is about to make a group. */
HV_MUST_CHECK int hv_sched_check(const struct hv_sched *sched,
                                 const struct hv_sched_parameters *parameters, char *why,
                                 size_t why_size);

/* ---- for the run loop, on the worker's thread, inside `run` ---- */

/** True when the slice is over: its end has come, or another is to run, or it is to retire. */
bool hv_sched_slice_over(const struct hv_worker *worker, hv_ns slice_end);

/**
 * @me, which runs on @worker, gives its place to @target, which it waits for: hypercall SCHED_YIELD.
 * True when the slice is over for it. Counted either way.
 */
bool hv_sched_yield_to(struct hv_worker *worker, struct hv_sched_entity *me,
                       struct hv_sched_entity *target);

/** Wake @target and yield to it where that lets it run sooner: hypercall KICK_CPU. */
bool hv_sched_kick_boost(struct hv_worker *worker, struct hv_sched_entity *me,
                         struct hv_sched_entity *target);

/** @me has spun too long (HV_EXIT_PAUSE_LOOP). True when the slice is over for it. */
bool hv_sched_on_spin(struct hv_worker *worker, struct hv_sched_entity *me);

/** @me sends an interrupt to member @target of its group: whom it may be waiting for. */
void hv_sched_note_ipi(const struct hv_sched *sched, struct hv_sched_entity *me, unsigned target);

/** Where @me's slice ends: in the guest's kernel it may hold what others wait for. */
static inline void hv_sched_note_mode(struct hv_sched_entity *me, bool kernel)
{
    hv_store_relaxed(&me->kernel_mode, kernel);
}

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
