/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One-shot deadlines on a queue, run by the worker that owns the queue.
 *
 *     idle --hv_timer_arm--> armed --(deadline)--> running --> idle
 *     armed --hv_timer_disarm--> idle
 *     any --hv_timer_kill--> killed --hv_timer_revive--> idle
 *
 * Invariants, checked by hv_timer_queue_check() in debug builds:
 *   (1) an armed timer stands in exactly one queue, its own; others in none;
 *   (2) once hv_timer_kill() has returned, the callback is not running and will not run again;
 *   (3) callbacks run with no lock held.
 *
 * Threads: arm, disarm and kill from any thread but, for kill, the timer's own callback.
 * Memory: a timer brings the room that it stands in, so nothing here allocates or fails.
 * Source: Xen's timer.h for the contract.
 */
#pragma once

#include "base/clock.h"
#include "sync/doorbell.h"
#include "sync/lock.h"

struct hv_timer;
typedef void hv_timer_callback(struct hv_timer *timer, void *context);

struct hv_timer_queue {
    struct hv_lock lock; /* HV_RANK_TIMER_BASE */
    /* Set at creation. */
    const struct hv_clock *clock;
    struct hv_doorbell *bell; /* of the worker that runs it; rung when the earliest moves. */
    /* Guarded by &lock. */
    struct hv_timer *earliest; /* root of the heap of armed timers, or NULL */
    size_t count;              /* of those */
    size_t owned;              /* timers that call this queue theirs, armed or not */
    struct hv_timer *running;
    uint64_t runner;  /* hv_thread_id() of who runs it, for the checkers */
    unsigned waiting; /* threads in hv_timer_kill() */
    /* Atomic: earliest deadline in ns, UINT64_MAX for none; read without the lock. */
    _Atomic uint64_t next_ns;
    /* Futex word bumped when a callback returns: kill waits on it. */
    _Atomic uint32_t generation;
};

struct hv_timer {
    /* Guarded by the queue's lock; `queue` changes only in hv_timer_rehome(). */
    _Atomic(struct hv_timer_queue *) queue;
    hv_ns deadline;
    bool armed, killed;
    struct hv_timer *first;           /* child, of those due after it; NULL for none */
    struct hv_timer *before;          /* sibling, or for the first of them the parent */
    struct hv_timer *after;           /* sibling */
    struct hv_timer_queue *rehome_to; /* moves there when the running callback returns, or NULL */
    /* Set at init. */
    hv_timer_callback *callback;
    void *context;
    uint16_t lowest_rank; /* lowest lock rank the callback takes (decisions D14) */
};

/**
 * Make an empty queue.
 *
 * @bell   borrowed: of the thread that runs the queue; may be NULL when a test runs it by hand.
 * @index  orders queues, unique among those a timer may move between.
 */
void hv_timer_queue_init(struct hv_timer_queue *queue, const struct hv_clock *clock,
                         struct hv_doorbell *bell, unsigned index);
/** No timer calls it its own any more. */
void hv_timer_queue_finish(struct hv_timer_queue *queue);

/** Make an idle timer, whose memory stays where it is until hv_timer_finish(). */
void hv_timer_init(struct hv_timer *timer, struct hv_timer_queue *queue,
                   hv_timer_callback *callback, void *context, enum hv_rank lowest_rank);
/** Kill it, and leave its queue. Twice is once; zeroed memory is accepted. */
void hv_timer_finish(struct hv_timer *timer);

/** Arm, or move. A deadline in the past fires at once; HV_NS_NEVER disarms. */
void hv_timer_arm(struct hv_timer *timer, hv_ns deadline);

/** Take it off its queue. Its callback may be running still. */
void hv_timer_disarm(struct hv_timer *timer);

/** Disarm and wait for a running callback. Counts as taking the rank declared at init. */
void hv_timer_kill(struct hv_timer *timer);

/** Allow a killed timer to be armed again. */
void hv_timer_revive(struct hv_timer *timer);

/** From hv_timer_arm() until the callback begins or it is disarmed. Any thread: may be old news. */
bool hv_timer_armed(struct hv_timer *timer);

/**
 * Move it to another worker's queue, armed or not. When its callback is running it moves as that
 * returns, so that it never runs on two workers at once; nobody waits.
 *
 * Context: any thread, the timer's own callback too; rank below TIMER_BASE; one caller at a time.
 */
void hv_timer_rehome(struct hv_timer *timer, struct hv_timer_queue *queue);

/**
 * Run what is due at @now. Worker only; no lock held. Returns how many ran.
 *
 * At most as many callbacks run as timers were armed at the start: one that arms itself again in
 * the past does not keep the worker here.
 */
unsigned hv_timer_queue_run(struct hv_timer_queue *queue, hv_ns now);

/** Earliest deadline, or HV_NS_NEVER. Any thread. */
static inline hv_ns hv_timer_queue_next(const struct hv_timer_queue *queue)
{
    return (hv_ns){hv_load_acquire(&queue->next_ns)};
}

/** Abort unless the invariants hold. Any thread; debug builds and tests. */
void hv_timer_queue_check(struct hv_timer_queue *queue);
