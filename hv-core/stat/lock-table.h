/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The figures of locks at one moment: what statistics are made of.
 *
 * A row is one side of a lock, so that a reader-writer lock has two. Its histograms are the lock's
 * own once it was contended; until then, how long it is held and what taking it costs is what its
 * class says.
 *
 * What a lock costs is more than the time that somebody waited for it: readers never wait for each
 * other, and yet pass a line between them at each taking. `lost_ns` is the waits, and what the takings
 * cost beyond those of the lock that is taken most cheaply, by the medians of what was sampled: an
 * estimate, by which the worst are found, and 0 while there are fewer than 16 samples. (Of one the
 * worst would be who lost the CPU in it.)
 *
 * Nothing in the core is ever set back. Who wants figures from a moment on makes a mark, which keeps
 * what had been counted then, and asks for what came since: a mark is an epoch of its own, and each
 * of any number of watchers has his.
 *
 * Context of all: any thread that holds no lock. They walk the lists of locks (lock-registry.h).
 */
#pragma once

#include "stat/stat-list.h"
#include "sync/lock-registry.h"

/* Most rows that hv_lock_table_worst() gives. */
#define HV_LOCK_WORST_MAX 16

struct hv_lock_mark;

struct hv_lock_quantiles {
    uint64_t p50, p99, max; /* ns */
    uint64_t count;         /* of what they are taken */
};

struct hv_lock_row {
    uint64_t number;        /* of the lock, never another's */
    const char *class_name; /* a literal */
    char owner[sizeof(((struct hv_lock_owner *)0)->name)];
    unsigned index, rank;
    enum hv_lock_kind kind;
    uint64_t acquired, contended, try_failed, parked, waiters_max, wait_ns, lost_ns;
    struct hv_lock_quantiles span[HV_LOCK_SPANS];
    uint64_t vcpu_wait_ns[HV_MAX_VCPUS];
    /* Whose row it is, while hv_lock_table_each() visits it; else NULL. */
    const struct hv_lock_head *head;
    const struct hv_lock_side *side;
};

/**
 * The locks of @owner that cost most, the worst first.
 *
 * @mark  count from there; NULL: from each lock's beginning. A lock younger than the mark counts
 *        whole.
 * @rows  room for @max of them, at most HV_LOCK_WORST_MAX.
 *
 * Returns how many rows there are.
 */
size_t hv_lock_table_worst(const struct hv_lock_owner *owner, const struct hv_lock_mark *mark,
                           struct hv_lock_row *rows, size_t max);

/**
 * All locks of all owners.
 *
 * @visit  called for each row, which is good until it returns; neither locks nor allocates.
 */
void hv_lock_table_each(const struct hv_lock_mark *mark,
                        void (*visit)(void *context, const struct hv_lock_row *row), void *context);

/**
 * Add the spans of which row->span[@span] are the quantiles, from the lock's beginning, to @sum. In a
 * visit only.
 */
void hv_lock_row_sum(const struct hv_lock_row *row, enum hv_lock_span span,
                     struct hv_histogram *sum);

/** Keep what has been counted until now, of all locks. -ENOMEM. */
HV_MUST_CHECK int hv_lock_mark_create(struct hv_lock_mark **mark_out);
/** NULL is accepted. */
void hv_lock_mark_destroy(struct hv_lock_mark *mark);

/** Add the row as lock.<@number>.*, with what the first @vcpus vCPUs waited. */
void hv_lock_row_add(struct hv_stat_list *list, size_t number, const struct hv_lock_row *row,
                     unsigned vcpus);
