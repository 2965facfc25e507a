/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The ranks at run time: each thread keeps the locks it holds, in the order of taking, and looks
 * at them before it takes another or waits. A wrong order aborts on the first run that has it, not
 * on the one in a million that deadlocks.
 *
 * The stack is not sorted: a lock got by hv_lock_try() may have any rank. It is short, so each
 * check looks at all of it.
 */
#include "sync/lock-private.h"

#include "base/assert.h"

/* Deepest nesting: every rank once, and a pair. */
#define HELD_MAX 16

static _Thread_local struct {
    unsigned count;
    bool walks; /* the lists of locks */
    const struct hv_lock_head *locks[HELD_MAX];
    uint64_t thread_id;
} held;

static struct {
    _Atomic uint64_t last;
} thread_ids;

uint64_t hv_thread_id(void)
{
    if (HV_UNLIKELY(held.thread_id == 0)) {
        held.thread_id = hv_add_relaxed(&thread_ids.last, 1) + 1;
    }
    return held.thread_id;
}

static HV_NORETURN HV_COLD void wrong_order(const struct hv_lock_head *lock,
                                            const struct hv_lock_head *holds)
{
    hv_panic("lock order: \"%s\"[%u] (rank %u) is to be taken while \"%s\"[%u] (rank %u) is held",
             lock->name, lock->index, lock->rank, holds->name, holds->index, holds->rank);
}

static HV_NORETURN HV_COLD void in_walk(const char *what)
{
    hv_panic("lock order: \"%s\" is to be taken, or waited for, in a walk of the locks", what);
}

void hv_lock_note_walk(bool begins)
{
    if (HV_CONFIG_RANKS && begins && held.walks) {
        in_walk("another walk");
    }
    held.walks = begins;
}

void hv_lock_check_take(const struct hv_lock_head *lock)
{
    if (HV_UNLIKELY(held.walks)) {
        in_walk(lock->name);
    }
    for (unsigned i = 0; i < held.count; i++) {
        if (HV_UNLIKELY(held.locks[i]->rank >= lock->rank)) {
            wrong_order(lock, held.locks[i]);
        }
    }
}

void hv_lock_check_second(const struct hv_lock_head *first, const struct hv_lock_head *second)
{
    if (HV_UNLIKELY(first->rank != second->rank)) {
        hv_panic("lock pair: \"%s\"[%u] (rank %u) and \"%s\"[%u] (rank %u) are of two ranks",
                 first->name, first->index, first->rank, second->name, second->index, second->rank);
    }
    if (HV_UNLIKELY(first->index == second->index)) {
        hv_panic("lock pair: \"%s\"[%u] and \"%s\"[%u] have one index", first->name, first->index,
                 second->name, second->index);
    }
}

static HV_NORETURN HV_COLD void not_held(const struct hv_lock_head *lock)
{
    hv_panic("lock \"%s\"[%u] is dropped by a thread that does not hold it", lock->name,
             lock->index);
}

static void push(struct hv_lock_head *lock)
{
    if (HV_UNLIKELY(held.count == HELD_MAX)) {
        hv_panic("\"%s\" is one lock too many: a thread may hold %u", lock->name, HELD_MAX);
    }
    held.locks[held.count++] = lock;
}

static void pop(struct hv_lock_head *lock)
{
    unsigned i = held.count;

    /* Nearly always the last taken, but any order of dropping is allowed. */
    while (i > 0 && held.locks[i - 1] != lock) {
        i--;
    }
    if (HV_UNLIKELY(i == 0)) {
        not_held(lock);
    }
    for (held.count--; i <= held.count; i++) {
        held.locks[i - 1] = held.locks[i];
    }
}

void hv_lock_note_taken(struct hv_lock_head *lock)
{
    push(lock);
    hv_store_relaxed(&lock->holder, hv_thread_id());
}

void hv_lock_note_dropped(struct hv_lock_head *lock)
{
    if (HV_UNLIKELY(hv_load_relaxed(&lock->holder) != hv_thread_id())) {
        not_held(lock);
    }
    pop(lock);
    hv_store_relaxed(&lock->holder, 0);
}

static bool reads(const struct hv_lock_head *lock)
{
    for (unsigned i = 0; i < held.count; i++) {
        if (held.locks[i] == lock) {
            return hv_load_relaxed(&lock->holder) != hv_thread_id();
        }
    }
    return false;
}

void hv_lock_note_shared(struct hv_lock_head *lock)
{
    push(lock);
}

void hv_lock_note_unshared(struct hv_lock_head *lock)
{
    if (HV_UNLIKELY(!reads(lock))) {
        not_held(lock);
    }
    pop(lock);
}

void hv_lock_check_shared(const struct hv_lock_head *lock)
{
    if (HV_UNLIKELY(!reads(lock))) {
        hv_panic("lock \"%s\"[%u] should be held by a reader here and is not", lock->name,
                 lock->index);
    }
}

void hv_lock_assert_held(const struct hv_lock *lock)
{
    /* Only this thread ever writes its own number there, so a relaxed look cannot be wrong. */
    if (HV_CONFIG_RANKS && HV_UNLIKELY(hv_load_relaxed(&lock->head.holder) != hv_thread_id())) {
        hv_panic("lock \"%s\"[%u] should be held here and is not", lock->head.name,
                 lock->head.index);
    }
}

void hv_lock_check_wait(enum hv_rank rank, const char *what)
{
    if (HV_CONFIG_RANKS) {
        if (HV_UNLIKELY(held.walks)) {
            in_walk(what);
        }
        for (unsigned i = 0; i < held.count; i++) {
            if (HV_UNLIKELY(held.locks[i]->rank >= rank)) {
                hv_panic("lock order: %s (rank %u) is to be waited for while \"%s\"[%u] (rank %u) "
                         "is held",
                         what, (unsigned)rank, held.locks[i]->name, held.locks[i]->index,
                         held.locks[i]->rank);
            }
        }
    }
}

void hv_lock_check_none(const char *what)
{
    if (HV_CONFIG_RANKS && HV_UNLIKELY(held.walks)) {
        in_walk(what);
    }
    if (HV_CONFIG_RANKS && HV_UNLIKELY(held.count > 0)) {
        hv_panic("lock order: %s may block, but \"%s\"[%u] (rank %u) is held", what,
                 held.locks[0]->name, held.locks[0]->index, held.locks[0]->rank);
    }
}
