/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The core's mutual exclusion: an adaptive lock that spins for a bounded while and then parks in
 * the kernel. A hosted thread can lose its CPU while it holds a lock, so there is no pure spinning
 * anywhere: five threads on two CPUs that a ticket lock kept busy for 400 s needed 0.1 s with this.
 *
 *     free(0) --take--> held(1) --take by another, spun in vain--> held+waiters(2)
 *     held+waiters --drop--> free, one waiter woken
 *     a waiter of more than 1 ms sets `handoff`: the next drop passes ownership to a parked waiter
 *
 * Invariants:
 *   (1) ranks of the locks a thread holds rise strictly in the order of taking (checked in every
 *       build but release, which aborts naming both locks);
 *   (2) what is counted at each taking is a plain store under the lock; readers load it relaxed;
 *   (3) `waiters` is never less than the number of threads parked on the word.
 *
 * Source: U. Drepper, "Futexes Are Tricky" (the three-state word); WebKit's ParkingLot and Linux
 * mutexes (hand-off after a bounded wait).
 */
#pragma once

#include "sync/lock-head.h"

#include "hv-config.h"

#include <hv/types.h>

struct HV_CAPABILITY("mutex") hv_lock {
    /* Atomic: 0 free, 1 held, 2 held and somebody may be parked. */
    _Atomic uint32_t word;
    _Atomic uint32_t waiters;
    _Atomic uint32_t handoff;
    struct hv_lock_head head;
};

/** A number of this thread's own, never 0 and never reused. */
uint64_t hv_thread_id(void);

/**
 * Make a free lock.
 *
 * @rank   its place in lock-ranks.h.
 * @name   its class, e.g. "heap.shard"; borrowed for the lock's life (a literal).
 * @index  orders locks of one rank that are taken as a pair (shard or pCPU number); else 0.
 */
void hv_lock_init(struct hv_lock *lock, enum hv_rank rank, const char *name, unsigned index);

/**
 * The lock is free and stays unused from here on. No thread may be on its way out of
 * hv_lock_drop() either: what the lock stands in is freed after a join, a grace period (qsbr.h) or
 * the like, never by "the last one who drops it". One that is listed with an owner waits for who
 * walks the lists (lock-registry.h): no lock of rank >= HV_RANK_FLUSH_WAIT is held then.
 */
void hv_lock_finish(struct hv_lock *lock);

/** Take it; may park. Context: any thread that holds only locks of lower rank. */
void hv_lock_take(struct hv_lock *lock) HV_ACQUIRES(lock);

/** Take it if it is free. Ranks are not checked for: a try cannot deadlock. */
HV_MUST_CHECK bool hv_lock_try(struct hv_lock *lock) HV_TRY_ACQUIRES(true, lock);

void hv_lock_drop(struct hv_lock *lock) HV_RELEASES(lock);

/** Take two locks of one rank, in the order of their index. @a and @b differ. */
void hv_lock_take_pair(struct hv_lock *a, struct hv_lock *b) HV_ACQUIRES(a, b);

/** What has been counted of it. Context: any thread. */
static inline const struct hv_lock_counters *hv_lock_counters(const struct hv_lock *lock)
{
    return &lock->head.side.counters;
}

/** Abort unless this thread holds it (every build but release). For `_locked` functions. */
void hv_lock_assert_held(const struct hv_lock *lock) HV_ASSERTS_HELD(lock);

/**
 * Declare that this thread is about to wait for something that may need locks of rank >= @rank;
 * aborts, naming both, when it holds one of them. @what is for the message.
 */
void hv_lock_check_wait(enum hv_rank rank, const char *what);

/** Abort when this thread holds any lock at all: before a blocking host call. */
void hv_lock_check_none(const char *what);
