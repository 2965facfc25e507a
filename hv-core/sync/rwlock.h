/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Many readers or one writer. Writing is meant to be rare: a writer takes an ordinary lock first,
 * with its spinning, parking and hand-off among writers, and then has the readers leave.
 *
 *     state   63:17 readings begun; see below
 *             16    a writer is here, or wants to be: new readers stay out
 *             15:0  readers inside, with those who look in and go back
 *
 *     reader  adds itself and its reading; the WRITER bit was clear: inside
 *             it was set: takes both back and waits until the writer is gone
 *     writer  takes `writers`, sets the WRITER bit, waits until no reader is inside
 *
 * Nobody starves: a waiting writer keeps new readers out. A reader that has waited for more than
 * 1 ms says that it is impatient, and the next writer sets its bit only after it was let in.
 *
 * How often it was read is part of the word that each reader writes anyway, so that it is exact and
 * costs nothing. Once in 2^46 readings it sets the uppermost bit, and a reader moves that to
 * `folded`.
 *
 * Invariants:
 *   (1) ranks, as of locks, and a thread that reads does not read or write it again;
 *   (2) the WRITER bit is set and cleared by who holds `writers` alone;
 *   (3) a reader inside, or one that may have been seen there, that leaves as the last looks whether
 *       a writer waits; a writer that leaves looks whether readers wait. Who waits announces itself
 *       and then looks at `state` (eventcount.h).
 *
 * Readers share a cache line, which costs more than an uncontended lock as soon as two of them run:
 * the sampled `acquire` span of the read side shows that. What is read on each exit of a vCPU wants
 * something better.
 */
#pragma once

#include "sync/eventcount.h"
#include "sync/lock.h"
#include "sync/seqcount.h"

struct HV_CAPABILITY("rwlock") hv_rwlock {
    /* Atomic. */
    _Atomic uint64_t state;
    _Atomic uint32_t impatient;   /* readers that have waited for long */
    struct hv_lock writers;       /* its head and write side are those of the whole */
    struct hv_eventcount entered; /* readers wait: a writer has left */
    struct hv_eventcount turn;    /* the writer waits: readers have left, or were let in */
    struct hv_seqcount folds;
    _Atomic uint32_t folder; /* somebody moves readings to `folded` */
    _Atomic uint64_t folded;
    struct hv_lock_side readers;
};

/** As hv_lock_init(). */
void hv_rwlock_init(struct hv_rwlock *lock, enum hv_rank rank, const char *name, unsigned index);

/** As hv_lock_finish(). */
void hv_rwlock_finish(struct hv_rwlock *lock);

/** Take it to read; may park. Context: any thread that holds only locks of lower rank. */
void hv_rwlock_take_read(struct hv_rwlock *lock) HV_ACQUIRES_SHARED(lock);
void hv_rwlock_drop_read(struct hv_rwlock *lock) HV_RELEASES_SHARED(lock);

/** Take it to write; as above. */
void hv_rwlock_take_write(struct hv_rwlock *lock) HV_ACQUIRES(lock);
void hv_rwlock_drop_write(struct hv_rwlock *lock) HV_RELEASES(lock);

/** Abort unless this thread reads, or writes, it (every build but release). */
void hv_rwlock_assert_read(const struct hv_rwlock *lock) HV_ASSERTS_SHARED(lock);
void hv_rwlock_assert_write(const struct hv_rwlock *lock) HV_ASSERTS_HELD(lock);
