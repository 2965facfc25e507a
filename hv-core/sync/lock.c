/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Taking and dropping: the words of lock.h and who may write them.
 *
 *     word      any taker: 0 -> 1 (uncontended) or any -> 2 (waiter); the holder: -> 0
 *     handoff   0 none
 *               1 asked for: one waiter sleeps on `handoff` itself, nobody else writes 1
 *               2 granted by a dropping holder, who left the word at 2: the asker owns the lock
 *
 * Why no grant is lost: the asker stores handoff = 1 and then swaps the word to 2; a dropper swaps
 * the word to 0 and then loads `handoff` (all sequentially consistent). Either the asker's swap
 * finds 0 and has the lock, or the dropper's load finds 1 and deals with it. A holder that came in
 * between by 0 -> 1 is told in the same way: the dropper swaps the word to 2 for it, so that its
 * own drop takes the slow path and looks.
 *
 * Why no wake is lost: a sleeper counts itself in `waiters` and then swaps the word to 2, a dropper
 * swaps the word to 0 and then loads `waiters`.
 */
#include "sync/lock.h"

#include <sched.h>

#include "base/assert.h"
#include "base/clock.h"
#include "sync/futex.h"
#include "sync/lock-private.h"
#include "sync/race.h"

enum {
    HANDOFF_NONE = 0,
    HANDOFF_ASKED = 1,
    HANDOFF_GRANTED = 2,
};

/* How long a taker spins before it parks: about the time a short section takes. */
#define SPIN_NS            UINT64_C(2000)
/* Rounds timed to find out how many fill SPIN_NS. */
#define CALIBRATION_ROUNDS 100u
#define SPIN_ROUNDS_MAX    4000u
/* After this long a waiter asks to be handed the lock. */
#define PATIENCE_NS        HV_NS_PER_MS

static struct {
    /* Atomic: rounds that fill SPIN_NS plus one, 0 while not measured. The same for all threads,
     * whoever measures first; a thread that measures once more does no harm. */
    _Atomic uint32_t rounds_plus_one;
} spin;

static uint32_t measure_spin_rounds(void)
{
    uint64_t rounds = 0;
    cpu_set_t cpus;

    /* With one CPU the holder cannot run while we spin. More CPUs than the set has room for is
     * more than one, too. */
    if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) == 1) {
        return 0;
    }
    /* The best of three: a measurement that lost its CPU looks like a slow pause. */
    for (unsigned turn = 0; turn < 3; turn++) {
        uint64_t start = hv_clock_host_now().v;
        uint64_t span;

        for (unsigned i = 0; i < CALIBRATION_ROUNDS; i++) {
            __builtin_ia32_pause();
        }
        span = hv_clock_host_now().v - start;
        if (span > 0 && CALIBRATION_ROUNDS * SPIN_NS / span > rounds) {
            rounds = CALIBRATION_ROUNDS * SPIN_NS / span;
        }
    }
    return rounds < SPIN_ROUNDS_MAX ? (uint32_t)rounds : SPIN_ROUNDS_MAX;
}

uint32_t hv_lock_spin_rounds(void)
{
    uint32_t known = hv_load_relaxed(&spin.rounds_plus_one);

    if (known == 0) {
        known = measure_spin_rounds() + 1;
        hv_store_relaxed(&spin.rounds_plus_one, known);
    }
    return known - 1;
}

void hv_lock_init(struct hv_lock *lock, enum hv_rank rank, const char *name, unsigned index)
{
    *lock = (struct hv_lock){0};
    hv_lock_head_init(&lock->head, rank, name, index, NULL);
}

void hv_lock_finish(struct hv_lock *lock)
{
    HV_ASSERT(hv_load_relaxed(&lock->word) == HV_LOCK_WORD_FREE);
    HV_ASSERT(hv_load_relaxed(&lock->waiters) == 0);
    hv_lock_head_finish(&lock->head);
}

/* Spin for a bounded while; true when that got the lock. */
static bool spin_for(struct hv_lock *lock)
{
    for (uint32_t i = hv_lock_spin_rounds(); i > 0; i--) {
        if (hv_load_relaxed(&lock->word) == HV_LOCK_WORD_FREE && hv_lock_take_free(lock)) {
            return true;
        }
        __builtin_ia32_pause();
    }
    return false;
}

/* Ask for the lock and sleep until it is ours. The caller has made handoff ASKED. */
static unsigned await_handoff(struct hv_lock *lock)
{
    unsigned parked = 0;

    HV_RACE("lock.handoff.asked");
    if (hv_swap_seq(&lock->word, HV_LOCK_WORD_WAITED) == HV_LOCK_WORD_FREE) {
        /* Nobody holds it, so nobody can grant it: the request is ours to take back. */
        hv_store_seq(&lock->handoff, HANDOFF_NONE);
        return 0;
    }
    while (hv_load_seq(&lock->handoff) != HANDOFF_GRANTED) {
        parked++;
        HV_RACE("lock.handoff.sleeps");
        hv_futex_wait(&lock->handoff, HANDOFF_ASKED, HV_NS_NEVER);
    }
    hv_store_seq(&lock->handoff, HANDOFF_NONE);
    return parked;
}

/* Sleep until the lock is ours. Returns how often it slept. */
static unsigned park(struct hv_lock *lock, uint64_t start_ns)
{
    unsigned parked = 0;

    while (hv_swap_seq(&lock->word, HV_LOCK_WORD_WAITED) != HV_LOCK_WORD_FREE) {
        uint32_t none = HANDOFF_NONE;

        if (parked > 0 && hv_clock_host_now().v - start_ns > PATIENCE_NS &&
            hv_cas_seq(&lock->handoff, &none, HANDOFF_ASKED)) {
            return parked + await_handoff(lock);
        }
        parked++;
        HV_RACE("lock.park.sleeps");
        hv_futex_wait(&lock->word, HV_LOCK_WORD_WAITED, HV_NS_NEVER);
        HV_RACE("lock.park.woken");
    }
    return parked;
}

HV_COLD void hv_lock_take_slow(struct hv_lock *lock)
{
    uint64_t start = hv_clock_host_now().v;
    struct hv_lock_wait wait = {.waiters = hv_add_seq(&lock->waiters, 1) + 1};

    if (!spin_for(lock)) {
        wait.parked = park(lock, start);
    }
    hv_sub_seq(&lock->waiters, 1);
    wait.span_ns = hv_clock_host_now().v - start;
    if (HV_CONFIG_LOCK_PROFILE) {
        hv_lock_note_wait(&lock->head, &lock->head.side, &wait);
    }
}

/* As the fast path, between two looks at the counter. */
static HV_COLD void take_sampled(struct hv_lock *lock)
{
    uint64_t before = hv_cycles_now();

    if (!hv_lock_take_free(lock)) {
        hv_lock_take_slow(lock);
        before = 0;
    }
    hv_lock_sample_begin(&lock->head, &lock->head.side, before);
}

static inline void take_unchecked(struct hv_lock *lock)
{
    if (hv_lock_sample_due()) {
        take_sampled(lock);
    } else if (HV_UNLIKELY(!hv_lock_take_free(lock))) {
        hv_lock_take_slow(lock);
    }
    hv_lock_note_acquired(lock);
}

HV_NO_TSA void hv_lock_take(struct hv_lock *lock)
{
    if (HV_CONFIG_RANKS) {
        hv_lock_check_take(&lock->head);
    }
    take_unchecked(lock);
}

HV_NO_TSA bool hv_lock_try(struct hv_lock *lock)
{
    if (!hv_lock_take_free(lock)) {
        hv_add_relaxed(&lock->head.side.counters.try_failed, 1);
        return false;
    }
    hv_lock_note_acquired(lock);
    return true;
}

HV_NO_TSA void hv_lock_take_pair(struct hv_lock *a, struct hv_lock *b)
{
    struct hv_lock *first = a->head.index < b->head.index ? a : b;
    struct hv_lock *second = first == a ? b : a;

    if (HV_CONFIG_RANKS) {
        hv_lock_check_second(&first->head, &second->head);
        hv_lock_check_take(&first->head);
    }
    take_unchecked(first);
    take_unchecked(second);
}

static HV_COLD void drop_slow(struct hv_lock *lock)
{
    do {
        uint32_t asked = HANDOFF_ASKED;

        /* Here this thread holds the lock, so that it may grant it. */
        if (hv_cas_seq(&lock->handoff, &asked, HANDOFF_GRANTED)) {
            hv_futex_wake(&lock->handoff, 1);
            return;
        }
        HV_RACE("lock.drop.not-asked");
        hv_store_seq(&lock->word, HV_LOCK_WORD_FREE);
        if (hv_load_seq(&lock->waiters) > 0) {
            hv_futex_wake(&lock->word, 1);
        }
        /* Asked in between, perhaps by one that found the word not free: take it back and grant
         * it, or tell the new holder. The asker may be gone again by then: hence the loop. */
    } while (hv_load_seq(&lock->handoff) == HANDOFF_ASKED &&
             hv_swap_seq(&lock->word, HV_LOCK_WORD_WAITED) == HV_LOCK_WORD_FREE);
}

static inline void release(struct hv_lock *lock)
{
    uint32_t held = HV_LOCK_WORD_HELD;

    if (HV_UNLIKELY(!hv_cas_seq(&lock->word, &held, HV_LOCK_WORD_FREE))) {
        drop_slow(lock);
    }
}

static HV_COLD void drop_sampled(struct hv_lock *lock)
{
    struct hv_lock_sample sample;

    hv_lock_sample_end(&lock->head, &lock->head.side, &sample);
    release(lock);
    hv_lock_sample_book(&sample);
}

HV_NO_TSA void hv_lock_drop(struct hv_lock *lock)
{
    if (HV_CONFIG_RANKS) {
        hv_lock_note_dropped(&lock->head);
    }
    if (hv_lock_sampled(&lock->head.side)) {
        drop_sampled(lock);
    } else {
        release(lock);
    }
}
