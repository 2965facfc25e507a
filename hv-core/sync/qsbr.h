/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Quiescent-state-based reclamation: memory that lock-free readers may still hold is freed after
 * every reader has said once that it holds nothing.
 *
 *     offline --hv_qsbr_online--> online --hv_qsbr_quiescent--> online --hv_qsbr_offline--> offline
 *
 * A registered thread that is online may keep pointers it read from one quiescent state to the
 * next. It is quiescent once in each turn of its loop, and goes offline before it sleeps or enters
 * an engine: a thread that stays online and is never quiescent stalls every free.
 *
 *   epoch   one global count. A grace period asks for e = ++epoch.
 *   seen    for each thread the epoch it saw at its last quiescent state; 0 when offline.
 *   A grace period for e is over when each thread's `seen` is 0 or >= e.
 *
 * Guarantees:
 *   (1) what was unlinked before hv_qsbr_synchronize(), or hv_qsbr_call(), is not reachable by any
 *       reader when it returns, or when the callback runs;
 *   (2) all that readers did to it happens before that.
 * Why (1) holds for a thread that goes online meanwhile: online stores `seen` and then loads
 * `epoch` again; the grace period adds to `epoch` and then loads `seen`, all sequentially
 * consistent. If it missed the store, the load finds the new epoch, which was released after the
 * unlinking.
 *
 * Source: P. McKenney and others, "Performance of memory reclamation for lockless synchronization",
 * 2007.
 */
#pragma once

#include "base/list.h"
#include "sync/lock.h"

struct hv_qsbr_thread {
    HV_ALIGNED(HV_CACHE_LINE) _Atomic uint64_t seen;
    struct hv_qsbr *qsbr;
    struct hv_list link; /* guarded by the lock of `qsbr` */
};

struct hv_qsbr_call {
    struct hv_list link;
    uint64_t epoch;
    void (*function)(struct hv_qsbr_call *call);
};

struct hv_qsbr {
    struct hv_lock lock; /* HV_RANK_LEAF */
    /* Guarded by &lock. */
    struct hv_list threads;
    struct hv_list calls; /* by rising epoch */
    /* Atomic. */
    _Atomic uint64_t epoch;
    _Atomic uint32_t waiters; /* in hv_qsbr_synchronize() */
    _Atomic uint32_t moved;   /* futex word: a thread became quiescent while somebody waited */
};

void hv_qsbr_init(struct hv_qsbr *qsbr);

/** Run all calls that are left. No thread is registered any more. */
void hv_qsbr_finish(struct hv_qsbr *qsbr);

/** Make @thread known, offline. It is the caller's until unregistered. */
void hv_qsbr_register(struct hv_qsbr *qsbr, struct hv_qsbr_thread *thread);

/** The opposite; the thread is offline. */
void hv_qsbr_unregister(struct hv_qsbr_thread *thread);

/** May read from here on. Context: the thread itself, as for the next three. */
void hv_qsbr_online(struct hv_qsbr_thread *thread);

/** Holds nothing, and will not read until online. */
void hv_qsbr_offline(struct hv_qsbr_thread *thread);

/** Holds nothing now, and goes on reading. Legal offline, where it does nothing. */
void hv_qsbr_quiescent(struct hv_qsbr_thread *thread);

bool hv_qsbr_is_online(const struct hv_qsbr_thread *thread);

/**
 * Wait for a grace period. The caller is offline or not registered, and holds no lock at all: a
 * reader may want it before its next quiescent state.
 */
void hv_qsbr_synchronize(struct hv_qsbr *qsbr);

/**
 * Run call->function(call) after a grace period, in some thread's hv_qsbr_reclaim().
 *
 * @call  stands in what is to be freed. Context: any thread; ranks below LEAF.
 */
void hv_qsbr_call(struct hv_qsbr *qsbr, struct hv_qsbr_call *call,
                  void (*function)(struct hv_qsbr_call *call));

/**
 * Run up to @limit calls whose grace period is over; never waits. Context: any thread, no lock
 * held. Returns how many ran.
 */
unsigned hv_qsbr_reclaim(struct hv_qsbr *qsbr, unsigned limit);
