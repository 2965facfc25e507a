/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sync/lock under more threads than CPUs: exclusion, exact counts, no waiter left behind. */
#include "sync/lock.h"

#include <sched.h>

#include "lib/threads.h"
#include "sync/race.h"

#define THREADS 6
#define LOCKS   4

static struct hv_lock lock;
static struct hv_lock pairs[LOCKS];

static struct {
    uint64_t value; /* guarded by lock; plain, so that a sanitizer sees two owners */
    uint64_t sums[LOCKS];
    _Atomic uint64_t tries, takes;
} shared;

static unsigned next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(*state >> 33);
}

static void work(uint64_t turns)
{
    for (_Atomic uint64_t i = 0; i < turns; i++) {
        __builtin_ia32_pause();
    }
}

static void take_turns(unsigned index, void *context)
{
    unsigned rounds = threads_rounds(5000);
    uint64_t random = index + 1;

    (void)context;
    hv_race_name_thread(index + 1);
    for (unsigned i = 0; i < rounds; i++) {
        if (next_random(&random) % 4 > 0) {
            hv_lock_take(&lock);
            hv_add_relaxed(&shared.takes, 1);
        } else if (hv_lock_try(&lock)) {
            hv_add_relaxed(&shared.tries, 1);
        } else {
            continue;
        }
        shared.value++;
        work(next_random(&random) % 8);
        if (next_random(&random) % 32 == 0) {
            /* As a host may do at any time: the owner loses its CPU. */
            sched_yield();
        }
        hv_lock_drop(&lock);
    }
}

static void exclude(void)
{
    uint64_t all;

    hv_lock_init(&lock, HV_RANK_HEAP, "stress", 0);
    shared.value = 0;
    shared.tries = shared.takes = 0;
    threads_run(THREADS, take_turns, NULL);
    all = shared.tries + shared.takes;
    TAP_EQ(shared.value, all);
    TAP_EQ(hv_lock_counters(&lock)->acquired, all);
    TAP_EQ(hv_lock_counters(&lock)->acquired + hv_lock_counters(&lock)->try_failed,
           (uint64_t)THREADS * threads_rounds(5000));
    TAP_OK(hv_lock_counters(&lock)->contended <= shared.takes);
    /* One who has just got it may be counted still. */
    TAP_OK(hv_lock_counters(&lock)->waiters_max <= THREADS);
    TAP_EQ(lock.word, 0);
    TAP_EQ(lock.waiters, 0);
    TAP_EQ(lock.handoff, 0);
    tap_note("%" PRIu64 " taken, %" PRIu64 " contended, %" PRIu64 " parked", all,
             hv_lock_counters(&lock)->contended, hv_lock_counters(&lock)->parked);
}

static void test_exclusion(void)
{
    exclude();
}

/* As above, and everybody gives up the CPU between the steps of taking and dropping. */
static void test_shuffled(void)
{
    hv_race_shuffle(tap_rng() | 1);
    exclude();
    hv_race_end();
}

static void hold_long(unsigned index, void *context)
{
    (void)context;
    hv_race_name_thread(index + 1);
    for (unsigned i = 0; i < threads_rounds(40); i++) {
        hv_lock_take(&lock);
        shared.value++;
        work(20000);
        hv_lock_drop(&lock);
    }
}

/* Held for so long that waiters lose patience: grants are asked for, given, and taken back. */
static void test_handoff(void)
{
    hv_lock_init(&lock, HV_RANK_HEAP, "stress", 0);
    shared.value = 0;
    threads_run(4, hold_long, NULL);
    TAP_EQ(shared.value, (uint64_t)4 * threads_rounds(40));
    TAP_EQ(hv_lock_counters(&lock)->acquired, shared.value);
    TAP_EQ(lock.word, 0);
    TAP_EQ(lock.handoff, 0);
}

static void move_between(unsigned index, void *context)
{
    uint64_t random = index + 1;

    (void)context;
    for (unsigned i = 0; i < threads_rounds(4000); i++) {
        unsigned from = next_random(&random) % LOCKS;
        unsigned to = (from + 1 + next_random(&random) % (LOCKS - 1)) % LOCKS;

        hv_lock_take_pair(&pairs[from], &pairs[to]);
        shared.sums[from]--;
        shared.sums[to]++;
        hv_lock_drop(&pairs[from]);
        hv_lock_drop(&pairs[to]);
    }
}

static void test_pairs(void)
{
    uint64_t sum = 0;
    uint64_t acquired = 0;

    for (unsigned i = 0; i < LOCKS; i++) {
        hv_lock_init(&pairs[i], HV_RANK_RUNQUEUE, "stress.queue", i);
        shared.sums[i] = 1000000;
    }
    threads_run(THREADS, move_between, NULL);
    for (unsigned i = 0; i < LOCKS; i++) {
        sum += shared.sums[i];
        acquired += hv_lock_counters(&pairs[i])->acquired;
    }
    TAP_EQ(sum, LOCKS * UINT64_C(1000000));
    TAP_EQ(acquired, (uint64_t)2 * THREADS * threads_rounds(4000));
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"stress.lock.exclusion", test_exclusion},
        {"stress.lock.shuffled", test_shuffled},
        {"stress.lock.handoff", test_handoff},
        {"stress.lock.pairs", test_pairs},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
