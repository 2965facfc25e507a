/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sync/lock: who gets it, what is counted, parking, and the hand-off to one who waited long. */
#include "sync/lock.h"

#include "base/clock.h"
#include "lib/threads.h"
#include "sync/race.h"

static struct hv_lock lock;

static struct {
    _Atomic uint32_t owners;   /* took the lock so far */
    _Atomic uint32_t may_drop; /* bit for each thread number */
} play;

static void start(void)
{
    hv_lock_init(&lock, HV_RANK_HEAP, "test.lock", 0);
    play.owners = 0;
    play.may_drop = 0;
}

/* Thread number index + 2 (the main one is 1): take, say so, drop when told. */
static void take_and_hold(unsigned index, void *context)
{
    (void)context;
    hv_race_name_thread(index + 2);
    hv_lock_take(&lock);
    hv_add_seq(&play.owners, 1);
    while (!(hv_load_seq(&play.may_drop) & 1u << (index + 2))) {
        threads_patient(0);
    }
    hv_lock_drop(&lock);
}

static void try_once(unsigned index, void *context)
{
    (void)index;
    *(bool *)context = hv_lock_try(&lock);
    if (*(bool *)context) {
        hv_lock_drop(&lock);
    }
}

static void test_counters(void)
{
    start();
    for (unsigned i = 0; i < 100; i++) {
        hv_lock_take(&lock);
        hv_lock_drop(&lock);
    }
    TAP_OK(hv_lock_try(&lock));
    hv_lock_drop(&lock);
    TAP_EQ(hv_lock_counters(&lock)->acquired, 101);
    TAP_EQ(hv_lock_counters(&lock)->contended, 0);
    TAP_EQ(hv_lock_counters(&lock)->parked, 0);
    TAP_EQ(hv_lock_counters(&lock)->wait_ns, 0);
    TAP_EQ(hv_lock_counters(&lock)->try_failed, 0);
    hv_lock_finish(&lock);
}

static void test_try(void)
{
    bool got = true;

    start();
    hv_lock_take(&lock);
    threads_run(1, try_once, &got);
    TAP_OK(!got);
    TAP_EQ(hv_lock_counters(&lock)->try_failed, 1);
    hv_lock_drop(&lock);
    threads_run(1, try_once, &got);
    TAP_OK(got);
    TAP_EQ(hv_lock_counters(&lock)->acquired, 2);
}

static void test_parks(void)
{
    struct threads threads;

    start();
    hv_race_begin();
    hv_race_stop(2, "lock.park.sleeps", 0);
    hv_race_stop(3, "lock.park.sleeps", 0);
    hv_lock_take(&lock);
    threads_start(&threads, 2, take_and_hold, NULL);
    TAP_OK(hv_race_await(2, "lock.park.sleeps"));
    TAP_OK(hv_race_await(3, "lock.park.sleeps"));
    TAP_EQ(lock.waiters, 2);
    TAP_EQ(play.owners, 0);
    hv_race_end();
    hv_store_seq(&play.may_drop, UINT32_MAX);
    hv_lock_drop(&lock);
    threads_join(&threads);
    TAP_EQ(play.owners, 2);
    TAP_EQ(hv_lock_counters(&lock)->acquired, 3);
    TAP_EQ(hv_lock_counters(&lock)->contended, 2);
    TAP_OK(hv_lock_counters(&lock)->parked >= 2);
    TAP_EQ(hv_lock_counters(&lock)->waiters_max, 2);
    TAP_OK(hv_lock_counters(&lock)->wait_max_ns > 0);
    TAP_OK(hv_lock_counters(&lock)->wait_ns >= hv_lock_counters(&lock)->wait_max_ns);
    TAP_EQ(lock.waiters, 0);
    TAP_EQ(lock.word, 0);
}

static void pass_patience(void)
{
    uint64_t start_ns = hv_clock_host_now().v;

    while (hv_clock_host_now().v - start_ns <= HV_NS_PER_MS) {
        threads_patient(0);
    }
}

/* Bring thread 2 to where it has been woken, lost against the main thread, and asked. */
static void test_handoff(void)
{
    struct threads threads;

    start();
    hv_race_begin();
    hv_race_stop(2, "lock.park.woken", 0);
    hv_lock_take(&lock);
    threads_start(&threads, 1, take_and_hold, NULL);
    TAP_AWAIT(hv_load_seq(&lock.word) == 2);
    pass_patience();
    /* Asleep already or about to: either way it comes to its second try, and is too late. */
    hv_lock_drop(&lock);
    TAP_OK(hv_race_await(2, "lock.park.woken"));
    hv_lock_take(&lock);
    hv_race_stop(2, "lock.handoff.sleeps", 0);
    hv_race_release(2, "lock.park.woken");
    TAP_OK(hv_race_await(2, "lock.handoff.sleeps"));
    TAP_EQ(lock.handoff, 1);
    hv_lock_drop(&lock);
    /* Passed on, not freed: whoever is faster, the lock is not to be had. */
    TAP_OK(!hv_lock_try(&lock));
    hv_race_end();
    TAP_AWAIT(hv_load_seq(&play.owners) == 1);
    TAP_OK(!hv_lock_try(&lock));
    hv_store_seq(&play.may_drop, UINT32_MAX);
    threads_join(&threads);
    TAP_OK(hv_lock_try(&lock));
    hv_lock_drop(&lock);
    TAP_EQ(lock.handoff, 0);
    TAP_EQ(hv_lock_counters(&lock)->acquired, 4);
}

/* Thread 3 asks just after the dropper looked for one who asks: the dropper must look again. */
static void test_handoff_late(void)
{
    struct threads threads;

    start();
    hv_store_seq(&play.may_drop, 1u << 3);
    hv_race_begin();
    hv_race_stop(2, "lock.drop.not-asked", 0);
    hv_race_stop(2, "lock.park.sleeps", 0);
    hv_race_stop(3, "lock.park.sleeps", 0);
    hv_race_stop(3, "lock.park.woken", 0);
    hv_lock_take(&lock);
    threads_start(&threads, 2, take_and_hold, NULL);
    TAP_OK(hv_race_await(2, "lock.park.sleeps"));
    TAP_OK(hv_race_await(3, "lock.park.sleeps"));
    pass_patience();
    hv_lock_drop(&lock);
    /* The word has moved, so thread 3 does not fall asleep, and stops before it tries again; */
    hv_race_release(3, "lock.park.sleeps");
    TAP_OK(hv_race_await(3, "lock.park.woken"));
    /* thread 2 tries, is the owner, and leaves the word as one that has waited does. */
    hv_race_release(2, "lock.park.sleeps");
    TAP_AWAIT(hv_load_seq(&play.owners) == 1);
    hv_store_seq(&play.may_drop, UINT32_MAX);
    TAP_OK(hv_race_await(2, "lock.drop.not-asked"));
    hv_race_stop(3, "lock.handoff.sleeps", 0);
    hv_race_release(3, "lock.park.woken");
    TAP_OK(hv_race_await(3, "lock.handoff.sleeps"));
    hv_race_end();
    TAP_AWAIT(hv_load_seq(&play.owners) == 2);
    threads_join(&threads);
    TAP_EQ(lock.word, 0);
    TAP_EQ(lock.handoff, 0);
    TAP_EQ(lock.waiters, 0);
}

static void test_pair(void)
{
    struct hv_lock low, high;

    hv_lock_init(&low, HV_RANK_RUNQUEUE, "test.queue", 1);
    hv_lock_init(&high, HV_RANK_RUNQUEUE, "test.queue", 2);
    hv_lock_take_pair(&high, &low);
    TAP_EQ(low.word, 1);
    TAP_EQ(high.word, 1);
    /* Any order of dropping is allowed. */
    hv_lock_drop(&low);
    hv_lock_drop(&high);
    hv_lock_take_pair(&low, &high);
    hv_lock_drop(&low);
    hv_lock_drop(&high);
    TAP_EQ(hv_lock_counters(&low)->acquired, 2);
    TAP_EQ(hv_lock_counters(&high)->acquired, 2);
}

static void take_pair(unsigned index, void *context)
{
    struct hv_lock *pair = context;

    hv_race_name_thread(index + 2);
    hv_lock_take_pair(&pair[1], &pair[0]);
    hv_lock_drop(&pair[0]);
    hv_lock_drop(&pair[1]);
}

/* The lower index is waited for first, with the higher one still free. */
static void test_pair_order(void)
{
    struct hv_lock pair[2];
    struct threads threads;

    hv_lock_init(&pair[0], HV_RANK_RUNQUEUE, "test.queue", 1);
    hv_lock_init(&pair[1], HV_RANK_RUNQUEUE, "test.queue", 2);
    hv_race_begin();
    hv_race_stop(2, "lock.park.sleeps", 0);
    hv_lock_take(&pair[0]);
    threads_start(&threads, 1, take_pair, pair);
    TAP_OK(hv_race_await(2, "lock.park.sleeps"));
    TAP_EQ(pair[0].waiters, 1);
    TAP_EQ(pair[1].word, 0);
    hv_race_end();
    hv_lock_drop(&pair[0]);
    threads_join(&threads);
    TAP_EQ(hv_lock_counters(&pair[1])->acquired, 1);
}

static void store_id(unsigned index, void *context)
{
    ((uint64_t *)context)[index] = hv_thread_id();
}

static void test_thread_id(void)
{
    uint64_t ids[3] = {hv_thread_id()};

    threads_run(2, store_id, ids + 1);
    TAP_OK(ids[0] != 0 && ids[1] != 0 && ids[2] != 0);
    TAP_OK(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
    TAP_EQ(hv_thread_id(), ids[0]);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"sync.lock.counters", test_counters},
        {"sync.lock.try", test_try},
        {"sync.lock.pair", test_pair},
        {"sync.lock.thread-id", test_thread_id},
    };
    static const struct tap_case scripted[] = {
        {"sync.lock.counters", test_counters},
        {"sync.lock.try", test_try},
        {"sync.lock.pair", test_pair},
        {"sync.lock.thread-id", test_thread_id},
        {"sync.lock.parks", test_parks},
        {"sync.lock.handoff", test_handoff},
        {"sync.lock.handoff-late", test_handoff_late},
        {"sync.lock.pair-order", test_pair_order},
    };

    if (!HV_CONFIG_RACE_POINTS) {
        return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
    }
    return tap_run(argc, argv, scripted, HV_ARRAY_LEN(scripted));
}
