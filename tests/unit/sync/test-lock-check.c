/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sync/lock-check: each wrong order dies and names both; each right one does not. */
#include "sync/lock.h"

#include <signal.h>

#include "lib/tap.h"

static struct hv_lock p2m, heap_3, heap_5, other_5;

static void start(void)
{
    hv_lock_init(&p2m, HV_RANK_P2M, "p2m", 0);
    hv_lock_init(&heap_3, HV_RANK_HEAP, "heap.shard", 3);
    hv_lock_init(&heap_5, HV_RANK_HEAP, "heap.shard", 5);
    hv_lock_init(&other_5, HV_RANK_HEAP, "heap.other", 5);
}

static void test_rising(void)
{
    start();
    hv_lock_take(&p2m);
    hv_lock_take(&heap_3);
    hv_lock_assert_held(&p2m);
    hv_lock_assert_held(&heap_3);
    hv_lock_drop(&p2m);
    hv_lock_drop(&heap_3);
    /* Only what is held counts. */
    hv_lock_take(&heap_3);
    hv_lock_drop(&heap_3);
    hv_lock_take(&p2m);
    hv_lock_take_pair(&heap_5, &heap_3);
    hv_lock_drop(&heap_3);
    hv_lock_drop(&heap_5);
    hv_lock_check_wait(HV_RANK_PAGE_ALLOC, "a wait");
    hv_lock_drop(&p2m);
    hv_lock_check_wait(HV_RANK_FLUSH_WAIT, "a wait");
    hv_lock_check_none("a call");
    TAP_EQ(p2m.head.holder, 0);
}

static void test_try_any_order(void)
{
    start();
    hv_lock_take(&heap_3);
    TAP_OK(hv_lock_try(&p2m));
    TAP_OK(hv_lock_try(&heap_5));
    hv_lock_drop(&heap_3);
    hv_lock_drop(&p2m);
    hv_lock_drop(&heap_5);
    hv_lock_check_none("a call");
}

static void invert(void)
{
    hv_lock_take(&heap_3);
    hv_lock_take(&p2m);
}

static void invert_below_try(void)
{
    struct hv_lock leaf;

    hv_lock_init(&leaf, HV_RANK_CODE, "code", 0);
    hv_lock_take(&heap_3);
    if (hv_lock_try(&p2m)) {
        hv_lock_take(&leaf);
        hv_lock_drop(&leaf);
        hv_lock_take(&heap_5);
    }
}

static void take_same_rank(void)
{
    hv_lock_take(&heap_3);
    hv_lock_take(&heap_5);
}

static void take_twice(void)
{
    hv_lock_take(&p2m);
    hv_lock_take(&p2m);
}

static void pair_same_index(void)
{
    hv_lock_take_pair(&heap_5, &other_5);
}

static void pair_two_ranks(void)
{
    hv_lock_take_pair(&heap_5, &p2m);
}

static void pair_under_same_rank(void)
{
    hv_lock_take(&other_5);
    hv_lock_take_pair(&heap_3, &heap_5);
}

static void drop_free(void)
{
    hv_lock_drop(&p2m);
}

static void drop_twice(void)
{
    hv_lock_take(&p2m);
    hv_lock_drop(&p2m);
    hv_lock_drop(&p2m);
}

static void wait_under_lock(void)
{
    hv_lock_take(&p2m);
    hv_lock_check_wait(HV_RANK_FLUSH_WAIT, "a flush");
}

static void wait_under_same_rank(void)
{
    hv_lock_take(&p2m);
    hv_lock_check_wait(HV_RANK_P2M, "a flush");
}

static void block_under_lock(void)
{
    hv_lock_take(&heap_3);
    hv_lock_check_none("madvise");
}

static void claim_not_held(void)
{
    hv_lock_take(&heap_3);
    hv_lock_assert_held(&heap_5);
}

static void nest_too_deep(void)
{
    static struct hv_lock locks[17];

    for (unsigned i = 0; i < HV_ARRAY_LEN(locks); i++) {
        hv_lock_init(&locks[i], (enum hv_rank)(HV_RANK_LIFECYCLE + i), "deep", i);
        hv_lock_take(&locks[i]);
    }
}

static void test_inversion(void)
{
    start();
    TAP_DIES(invert, SIGABRT,
             "\"p2m\"[0] (rank 50) is to be taken while \"heap.shard\"[3] (rank 60) is held");
    TAP_DIES(invert_below_try, SIGABRT, "\"heap.shard\"[5] (rank 60) is to be taken while");
}

/* Two of a class, but for a pair that is one. */
static void test_nesting(void)
{
    start();
    TAP_DIES(take_same_rank, SIGABRT, "\"heap.shard\"[5] (rank 60) is to be taken while");
    TAP_DIES(take_twice, SIGABRT, "\"p2m\"[0] (rank 50) is to be taken while \"p2m\"[0]");
    TAP_DIES(pair_same_index, SIGABRT, "have one index");
    TAP_DIES(pair_two_ranks, SIGABRT, "are of two ranks");
    TAP_DIES(pair_under_same_rank, SIGABRT, "is to be taken while \"heap.other\"[5]");
}

static void test_drops(void)
{
    start();
    TAP_DIES(drop_free, SIGABRT, "\"p2m\"[0] is dropped by a thread that does not hold it");
    TAP_DIES(drop_twice, SIGABRT, "does not hold it");
}

static void test_waits(void)
{
    start();
    TAP_DIES(wait_under_lock, SIGABRT,
             "a flush (rank 29) is to be waited for while \"p2m\"[0] (rank 50) is held");
    TAP_DIES(wait_under_same_rank, SIGABRT, "a flush (rank 50)");
    TAP_DIES(block_under_lock, SIGABRT, "madvise may block, but \"heap.shard\"[3]");
}

static void test_claims(void)
{
    start();
    TAP_DIES(claim_not_held, SIGABRT, "\"heap.shard\"[5] should be held here");
    TAP_DIES(nest_too_deep, SIGABRT, "one lock too many");
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"sync.lock-check.rising", test_rising},  {"sync.lock-check.try", test_try_any_order},
        {"lp.lockdep-inversion", test_inversion}, {"lp.lockdep-nesting", test_nesting},
        {"lp.lockdep-wait", test_waits},          {"sync.lock-check.drops", test_drops},
        {"sync.lock-check.claims", test_claims},
    };

    /* In release builds wrong orders go unseen: the right ones are all there is to test. */
    return tap_run(argc, argv, cases, HV_CONFIG_RANKS ? HV_ARRAY_LEN(cases) : 2);
}
