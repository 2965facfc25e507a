/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a lock and a reader-writer lock have in common: a class, a rank, an owner, and the figures
 * kept of each way of taking it.
 *
 *     class   all locks of one name ("mem.heap.shard"); its spans are sampled into histograms that
 *             few threads share (lock-profile.h)
 *     lock    one of them. Its counters are always on; histograms of its own it gets when it is
 *             contended for the first time: most locks of a machine never are
 *     side    a mutex has one, a reader-writer lock two: writers and readers
 *
 * A lock that is made while its thread makes things for an owner (hv_lock_owner_use()) is listed
 * with it, and found by whoever walks the lists (lock-registry.h). Others are no part of statistics.
 */
#pragma once

#include "base/histogram.h"
#include "sync/atomic.h"
#include "sync/lock-ranks.h"

#include <hv/types.h>

struct hv_lock_owner;

enum hv_lock_kind {
    HV_LOCK_KIND_MUTEX,
    HV_LOCK_KIND_WRITE,
    HV_LOCK_KIND_READ,
};

/* The spans of which distributions are kept. */
enum hv_lock_span {
    HV_LOCK_SPAN_WAIT,    /* in the slow path: each is timed */
    HV_LOCK_SPAN_HOLD,    /* from taking to dropping: sampled */
    HV_LOCK_SPAN_ACQUIRE, /* a taking that did not wait, which shows a bouncing line: sampled */
    HV_LOCK_SPANS,
};

/* What is counted of each side, always: by plain stores of who holds the lock alone, but for
 * `try_failed`, and for the readers' slow path. */
struct hv_lock_counters {
    _Atomic uint64_t acquired;
    _Atomic uint64_t contended; /* entered the slow path */
    _Atomic uint64_t try_failed;
    _Atomic uint64_t parked;  /* times a waiter slept in the kernel */
    _Atomic uint64_t wait_ns; /* total over the slow path */
    _Atomic uint64_t wait_max_ns;
    _Atomic uint64_t waiters_max;
};

/* Of a side that was contended. */
struct hv_lock_detail {
    _Atomic uint64_t vcpu_wait_ns[HV_MAX_VCPUS]; /* of its owner's vCPUs */
    struct hv_histogram span[HV_LOCK_SPANS];
};

struct hv_lock_side {
    struct hv_lock_counters counters;
    /* Atomic: NULL until contended; set once, by whoever is then in the slow path. */
    _Atomic(struct hv_lock_detail *) detail;
    enum hv_lock_kind kind;
};

struct hv_lock_head {
    /* Set at creation. */
    uint16_t rank;
    uint16_t index;
    uint8_t class_index;
    /* Atomic: the hv_thread_id() of who holds it alone, for the checkers only. */
    _Atomic uint64_t holder;
    struct hv_lock_side side;     /* of a mutex, or of writers */
    struct hv_lock_side *readers; /* NULL for a mutex */
    /* Set at creation. */
    const char *name;
    uint64_t number; /* no other lock ever has it; 0 when not listed */
    struct hv_lock_owner *owner;
    /* Guarded by the registry; `next` is followed by walkers without it. */
    _Atomic(struct hv_lock_head *) next;
    struct hv_lock_head *before;
};

/** For hv_lock_init() and the like. @name is a literal; @readers NULL for a mutex. */
void hv_lock_head_init(struct hv_lock_head *head, enum hv_rank rank, const char *name,
                       unsigned index, struct hv_lock_side *readers);

/** For hv_lock_finish() and the like: nobody who walks the lists sees it after this. */
void hv_lock_head_finish(struct hv_lock_head *head);
