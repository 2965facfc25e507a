/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Leaves: sizes refused, what is published is what is looked up, holes where nothing was prepared. */
#include "mem/p2m.h"

#include "base/alloc.h"
#include "lib/tap.h"

#include <errno.h>

static struct hv_p2m p2m;

static struct hv_leaf set(uint64_t gfn, enum hv_leaf_kind kind, uint64_t mfn)
{
    struct hv_leaf old;

    hv_lock_take(&p2m.lock);
    old = hv_p2m_set_locked(&p2m, (hv_gfn){gfn}, (struct hv_leaf){kind, {mfn}, 0});
    hv_lock_drop(&p2m.lock);
    return old;
}

static void test_sizes(void)
{
    TAP_EQ(hv_p2m_init(&p2m, 0), (uint64_t)-EINVAL);
    TAP_EQ(hv_p2m_init(&p2m, (UINT64_C(1) << 34) + 1), (uint64_t)-EINVAL);
    TAP_EQ(hv_p2m_init(&p2m, UINT64_MAX), (uint64_t)-EINVAL);
    hv_p2m_finish(&p2m); /* of what was never made */
    hv_alloc_fail_at(1);
    TAP_EQ(hv_p2m_init(&p2m, 1), (uint64_t)-ENOMEM);
    hv_alloc_fail_at(0);
    TAP_EQ(hv_p2m_init(&p2m, UINT64_C(1) << 34), 0);
    TAP_EQ(hv_p2m_lookup(&p2m, (hv_gfn){(UINT64_C(1) << 34) - 1}).kind, HV_LEAF_HOLE);
    hv_p2m_finish(&p2m);
    hv_p2m_finish(NULL);
}

static void test_leaves(void)
{
    TAP_EQ(hv_p2m_init(&p2m, 1000), 0);
    TAP_EQ(hv_p2m_lookup(&p2m, (hv_gfn){3}).kind, HV_LEAF_HOLE);
    TAP_OK(!hv_p2m_covers(&p2m, (hv_gfn){3}));
    TAP_EQ(hv_p2m_prepare(&p2m, (hv_gfn){511}, 2), 0);
    TAP_OK(hv_p2m_covers(&p2m, (hv_gfn){3}));
    TAP_OK(hv_p2m_covers(&p2m, (hv_gfn){999}));
    TAP_OK(!hv_p2m_covers(&p2m, (hv_gfn){1000}));
    TAP_EQ(set(511, HV_LEAF_RAM, 0xfffffeff).kind, HV_LEAF_HOLE);
    TAP_EQ(hv_p2m_lookup(&p2m, (hv_gfn){511}).mfn.v, 0xfffffeff);
    TAP_EQ(hv_p2m_lookup(&p2m, (hv_gfn){510}).kind, HV_LEAF_HOLE);
    TAP_EQ(hv_p2m_lookup(&p2m, (hv_gfn){512}).kind, HV_LEAF_HOLE);
    for (int kind = HV_LEAF_HOLE; kind <= HV_LEAF_UNPOPULATED; kind++) {
        (void)set(999, (enum hv_leaf_kind)kind, 17);
        TAP_EQ(hv_p2m_lookup(&p2m, (hv_gfn){999}).kind, (uint64_t)kind);
        TAP_EQ(set(999, (enum hv_leaf_kind)kind, 17).kind, (uint64_t)kind);
    }
    /* A kind without a frame carries none. */
    TAP_EQ(hv_p2m_lookup(&p2m, (hv_gfn){999}).mfn.v, 0);
    TAP_EQ(hv_p2m_lookup(&p2m, (hv_gfn){UINT64_MAX}).kind, HV_LEAF_HOLE);
    hv_p2m_finish(&p2m);
}

static void test_counts(void)
{
    TAP_EQ(hv_p2m_init(&p2m, 1000), 0);
    TAP_EQ(hv_p2m_prepare(&p2m, (hv_gfn){0}, 1000), 0);
    for (uint64_t gfn = 0; gfn < 600; gfn++) {
        (void)set(gfn, HV_LEAF_UNPOPULATED, 0);
    }
    for (uint64_t gfn = 100; gfn < 400; gfn++) {
        (void)set(gfn, HV_LEAF_RAM, gfn);
    }
    for (uint64_t gfn = 150; gfn < 200; gfn++) {
        (void)set(gfn, HV_LEAF_RAM_RO, gfn);
        (void)set(gfn, HV_LEAF_RAM_RO, gfn + 1);
    }
    TAP_EQ(p2m.leaves[HV_LEAF_UNPOPULATED], 300);
    TAP_EQ(p2m.leaves[HV_LEAF_RAM], 250);
    TAP_EQ(p2m.leaves[HV_LEAF_RAM_RO], 50);
    hv_lock_take(&p2m.lock);
    hv_p2m_clear_locked(&p2m, (hv_gfn){90}, 100);
    hv_lock_drop(&p2m.lock);
    (void)set(0, HV_LEAF_HOLE, 0);
    TAP_EQ(p2m.leaves[HV_LEAF_UNPOPULATED], 289);
    TAP_EQ(p2m.leaves[HV_LEAF_RAM], 200);
    TAP_EQ(p2m.leaves[HV_LEAF_RAM_RO], 10);
    TAP_EQ(p2m.leaves[HV_LEAF_HOLE], 0);
    hv_p2m_finish(&p2m);
}

static void test_prepare_fails(void)
{
    int64_t live = hv_alloc_live();

    TAP_EQ(hv_p2m_init(&p2m, 10000), 0);
    hv_alloc_fail_at(3);
    TAP_EQ(hv_p2m_prepare(&p2m, (hv_gfn){0}, 10000), (uint64_t)-ENOMEM);
    hv_alloc_fail_at(0);
    /* What was prepared is holes; again goes on from there. */
    TAP_EQ(hv_p2m_lookup(&p2m, (hv_gfn){0}).kind, HV_LEAF_HOLE);
    TAP_EQ(hv_p2m_prepare(&p2m, (hv_gfn){0}, 10000), 0);
    hv_p2m_finish(&p2m);
    TAP_EQ(hv_alloc_live(), live);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"mem.p2m.sizes", test_sizes},
        {"mem.p2m.leaves", test_leaves},
        {"mem.p2m.counts", test_counts},
        {"mem.p2m.prepare-fails", test_prepare_fails},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
