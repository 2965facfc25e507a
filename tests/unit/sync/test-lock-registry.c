/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sync/lock-registry: whose locks are listed, and what a walk may count on while they come and go. */
#include "sync/lock-registry.h"

#include <signal.h>
#include <string.h>

#include "lib/threads.h"
#include "sync/lock.h"
#include "sync/race.h"

static struct hv_lock_owner owner;
static struct hv_lock locks[3];

static struct {
    _Atomic uint32_t walking;
    _Atomic uint32_t may_end;
    _Atomic uint32_t finished;
} play;

static void start(unsigned count)
{
    struct hv_lock_owner *before;

    play.walking = 0;
    play.may_end = 0;
    play.finished = 0;
    hv_lock_owner_init(&owner, "web");
    before = hv_lock_owner_use(&owner);
    for (unsigned i = 0; i < count; i++) {
        hv_lock_init(&locks[i], HV_RANK_HEAP, "test.lock", i);
    }
    hv_lock_owner_use(before);
}

static void stop(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        hv_lock_finish(&locks[i]);
    }
    hv_lock_owner_finish(&owner);
}

/* The indexes of the owner's locks as a number: one digit each, the first in front. */
static uint64_t walk_owner(void)
{
    struct hv_lock_walk walk;
    uint64_t digits = 0;

    hv_lock_walk_begin(&walk);
    for (const struct hv_lock_head *lock = NULL; (lock = hv_lock_walk_locks(&owner, lock));) {
        digits = digits * 10 + lock->index + 1;
    }
    hv_lock_walk_end(&walk);
    return digits;
}

static void test_lists(void)
{
    struct hv_lock nobodys;

    start(3);
    hv_lock_init(&nobodys, HV_RANK_HEAP, "test.lock", 5);
    TAP_EQ(walk_owner(), 321);
    TAP_EQ(nobodys.head.number, 0);
    TAP_OK(locks[0].head.number != 0 && locks[1].head.number > locks[0].head.number);
    hv_lock_finish(&locks[1]);
    TAP_EQ(walk_owner(), 31);
    hv_lock_finish(&locks[2]);
    TAP_EQ(walk_owner(), 1);
    hv_lock_finish(&locks[0]);
    TAP_EQ(walk_owner(), 0);
    hv_lock_finish(&nobodys);
    hv_lock_owner_finish(&owner);
}

static void test_owners(void)
{
    struct hv_lock_owner second;
    struct hv_lock_walk walk;
    unsigned seen = 0;

    start(0);
    hv_lock_owner_init(&second, "a name far longer than any machine may have, which is cut short");
    TAP_EQ(strlen(second.name), sizeof(second.name) - 1);
    hv_lock_walk_begin(&walk);
    for (const struct hv_lock_owner *each = NULL; (each = hv_lock_walk_owners(each));) {
        seen |= each == &owner ? 1 : 0;
        seen |= each == &second ? 2 : 0;
    }
    hv_lock_walk_end(&walk);
    TAP_EQ(seen, 3);
    hv_lock_owner_finish(&owner);
    hv_lock_walk_begin(&walk);
    TAP_OK(hv_lock_walk_owners(NULL) == &second);
    TAP_OK(hv_lock_walk_owners(&second) == NULL);
    hv_lock_walk_end(&walk);
    hv_lock_owner_finish(&second);
}

static void finish_one(unsigned index, void *context)
{
    (void)index;
    hv_race_name_thread(2);
    hv_lock_finish(context);
    hv_store_seq(&play.finished, 1);
}

static void walk_until_told(unsigned index, void *context)
{
    struct hv_lock_walk walk;

    (void)context;
    hv_race_name_thread(index + 3);
    hv_lock_walk_begin(&walk);
    hv_add_seq(&play.walking, 1);
    while (!hv_load_seq(&play.may_end)) {
        threads_patient(0);
    }
    hv_lock_walk_end(&walk);
}

/* The walk stands on a lock that ends: it stays until the walk is over, and leads on. */
static void test_end_waits(void)
{
    const struct hv_lock_head *third;
    struct threads threads;
    struct hv_lock_walk walk;

    start(3);
    hv_race_begin();
    hv_race_stop(2, "lock.registry.waits", 0);
    hv_lock_walk_begin(&walk);
    third = hv_lock_walk_locks(&owner, NULL);
    TAP_EQ(third->index, 2);
    threads_start(&threads, 1, finish_one, &locks[2]);
    TAP_OK(hv_race_await(2, "lock.registry.waits"));
    hv_race_end();
    TAP_EQ(play.finished, 0);
    TAP_EQ(hv_lock_walk_locks(&owner, third)->index, 1);
    TAP_EQ(hv_lock_walk_locks(&owner, NULL)->index, 1);
    hv_lock_walk_end(&walk);
    threads_join(&threads);
    TAP_EQ(play.finished, 1);
    stop(2);
}

/* A walk that began after the lock left its list is not waited for. */
static void test_end_passes_younger(void)
{
    struct threads end, young;
    struct hv_lock_walk walk;

    start(2);
    hv_race_begin();
    hv_race_stop(2, "lock.registry.waits", 0);
    hv_lock_walk_begin(&walk);
    threads_start(&end, 1, finish_one, &locks[1]);
    TAP_OK(hv_race_await(2, "lock.registry.waits"));
    threads_start(&young, 1, walk_until_told, NULL);
    TAP_AWAIT(hv_load_seq(&play.walking) == 1);
    hv_race_end();
    hv_lock_walk_end(&walk);
    TAP_AWAIT(hv_load_seq(&play.finished) == 1);
    hv_store_seq(&play.may_end, 1);
    threads_join(&young);
    threads_join(&end);
    stop(1);
}

/*
 * The race of the protocol: a walk has its slot and not yet looked at a list when a lock leaves. It
 * counts as one that may find the lock.
 */
static void test_end_meets_beginning(void)
{
    struct threads end, walk;

    start(2);
    hv_race_begin();
    hv_race_stop(3, "lock.walk.begun", 0);
    hv_race_stop(2, "lock.registry.waits", 0);
    threads_start(&walk, 1, walk_until_told, NULL);
    TAP_OK(hv_race_await(3, "lock.walk.begun"));
    threads_start(&end, 1, finish_one, &locks[1]);
    TAP_OK(hv_race_await(2, "lock.registry.waits"));
    TAP_EQ(play.finished, 0);
    hv_store_seq(&play.may_end, 1);
    hv_race_end();
    threads_join(&walk);
    threads_join(&end);
    TAP_EQ(play.finished, 1);
    stop(1);
}

/* More walks than slots: the last begins when another ends. */
static void test_many_walks(void)
{
    struct threads threads;
    struct hv_lock_walk walk;

    start(1);
    hv_lock_walk_begin(&walk);
    threads_start(&threads, 16, walk_until_told, NULL);
    TAP_AWAIT(hv_load_seq(&play.walking) == 15);
    hv_lock_walk_end(&walk);
    TAP_AWAIT(hv_load_seq(&play.walking) == 16);
    hv_store_seq(&play.may_end, 1);
    threads_join(&threads);
    stop(1);
}

static void take_in_walk(void)
{
    struct hv_lock_walk walk;

    hv_lock_walk_begin(&walk);
    hv_lock_take(&locks[0]);
}

static void walk_in_walk(void)
{
    struct hv_lock_walk walk;

    hv_lock_walk_begin(&walk);
    hv_lock_walk_begin(&walk);
}

static void wait_in_walk(void)
{
    struct hv_lock_walk walk;

    hv_lock_walk_begin(&walk);
    hv_lock_check_wait(HV_RANK_LEAF, "a flush");
}

static void block_in_walk(void)
{
    struct hv_lock_walk walk;

    hv_lock_walk_begin(&walk);
    hv_lock_check_none("madvise");
}

static void finish_under_lock(void)
{
    hv_lock_take(&locks[0]);
    hv_lock_finish(&locks[1]);
}

static void finish_owner_with_lock(void)
{
    hv_lock_owner_finish(&owner);
}

static void test_wrong_uses(void)
{
    start(2);
    TAP_DIES(take_in_walk, SIGABRT, "\"test.lock\" is to be taken, or waited for, in a walk");
    TAP_DIES(walk_in_walk, SIGABRT, "in a walk of the locks");
    TAP_DIES(wait_in_walk, SIGABRT, "\"a flush\" is to be taken, or waited for, in a walk");
    TAP_DIES(block_in_walk, SIGABRT, "in a walk of the locks");
    TAP_DIES(finish_under_lock, SIGABRT, "a walk of the locks (rank 29) is to be waited for while");
    TAP_DIES(finish_owner_with_lock, SIGABRT, "locks");
    stop(2);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"sync.lock-registry.lists", test_lists},
        {"sync.lock-registry.owners", test_owners},
        {"sync.lock-registry.many-walks", test_many_walks},
        {"sync.lock-registry.end-waits", test_end_waits},
        {"sync.lock-registry.end-passes-younger", test_end_passes_younger},
        {"sync.lock-registry.end-meets-beginning", test_end_meets_beginning},
        {"sync.lock-registry.wrong-uses", test_wrong_uses},
    };

    /* The others are scripted, or abort by checks that a release build has not. */
    return tap_run(argc, argv, cases, HV_CONFIG_RACE_POINTS ? HV_ARRAY_LEN(cases) : 3);
}
