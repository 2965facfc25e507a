/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The two-level array of leaves: lookups are two loads, a change is one exchange. */
#include "mem/p2m.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/bits.h"

#define P2M_FRAMES_MAX (UINT64_C(1) << 34)
#define LEAF_KIND      60
#define LEAF_HOLDS     40
/* As many looks at extents without a table cost what it costs to free one. */
#define P2M_LOOKS      64

static uint64_t leaf_pack(struct hv_leaf leaf)
{
    HV_ASSERT(leaf.holds == 0 || leaf.kind == HV_LEAF_SHARED);
    return (uint64_t)leaf.kind << LEAF_KIND | (uint64_t)leaf.holds << LEAF_HOLDS |
           (hv_leaf_has_frame(leaf) ? leaf.mfn.v : 0);
}

static struct hv_leaf leaf_unpack(uint64_t word)
{
    return (struct hv_leaf){
        .kind = (enum hv_leaf_kind)(word >> LEAF_KIND),
        .mfn = {word & (HV_BIT(LEAF_HOLDS) - 1)},
        .holds = (uint32_t)(word >> LEAF_HOLDS) & HV_LEAF_HOLDS_MAX,
    };
}

static uint64_t p2m_extents(const struct hv_p2m *p2m)
{
    return (p2m->frames + HV_EXTENT_FRAMES - 1) / HV_EXTENT_FRAMES;
}

int hv_p2m_init(struct hv_p2m *p2m, uint64_t frames)
{
    *p2m = (struct hv_p2m){.frames = frames};
    if (frames == 0 || frames > P2M_FRAMES_MAX) {
        return -EINVAL;
    }
    p2m->extents = hv_alloc(p2m_extents(p2m), sizeof(*p2m->extents));
    if (!p2m->extents) {
        return -ENOMEM;
    }
    hv_lock_init(&p2m->lock, HV_RANK_P2M, "mem.p2m", 0);
    return 0;
}

int hv_p2m_free_tables(struct hv_p2m *p2m, uint64_t *cursor, uint64_t budget)
{
    for (uint64_t looks = 0; *cursor < p2m_extents(p2m) && budget > 0; ++*cursor) {
        _Atomic(_Atomic uint64_t *) *table = &p2m->extents[*cursor];

        if (hv_load_relaxed(table) || ++looks % P2M_LOOKS == 0) {
            budget--;
        }
        hv_free(hv_load_relaxed(table));
        hv_store_relaxed(table, NULL);
    }
    return *cursor < p2m_extents(p2m) ? -EAGAIN : 0;
}

void hv_p2m_finish(struct hv_p2m *p2m)
{
    uint64_t cursor = 0;
    int rc;

    if (!p2m || !p2m->extents) {
        return;
    }
    rc = hv_p2m_free_tables(p2m, &cursor, UINT64_MAX);
    HV_ASSERT(rc == 0);
    hv_free(p2m->extents);
    p2m->extents = NULL;
    hv_lock_finish(&p2m->lock);
}

static _Atomic uint64_t *leaf_word(const struct hv_p2m *p2m, hv_gfn gfn)
{
    _Atomic uint64_t *table;

    if (gfn.v >= p2m->frames) {
        return NULL;
    }
    /* Pairs with the compare-and-swap of hv_p2m_prepare(). */
    table = hv_load_acquire(&p2m->extents[gfn.v / HV_EXTENT_FRAMES]);
    return table ? &table[gfn.v % HV_EXTENT_FRAMES] : NULL;
}

bool hv_p2m_covers(const struct hv_p2m *p2m, hv_gfn gfn)
{
    return leaf_word(p2m, gfn) != NULL;
}

struct hv_leaf hv_p2m_lookup(const struct hv_p2m *p2m, hv_gfn gfn)
{
    const _Atomic uint64_t *word = leaf_word(p2m, gfn);

    /* Pairs with hv_p2m_set_locked(). Sequentially consistent, a plain load on x86: a holder marks
     * itself dirty, then looks up; a change publishes the leaf, then reads the marks. */
    return leaf_unpack(word ? hv_load_seq(word) : 0);
}

int hv_p2m_prepare(struct hv_p2m *p2m, hv_gfn first, uint64_t count)
{
    if (count == 0) {
        return 0;
    }
    HV_ASSERT(!hv_range_outside(first.v, count, p2m->frames));
    for (uint64_t i = first.v / HV_EXTENT_FRAMES; i <= (first.v + count - 1) / HV_EXTENT_FRAMES;
         i++) {
        _Atomic uint64_t *none = NULL;
        _Atomic uint64_t *table;

        if (hv_load_acquire(&p2m->extents[i])) {
            continue;
        }
        table = hv_alloc(HV_EXTENT_FRAMES, sizeof(*table));
        if (!table) {
            return -ENOMEM;
        }
        if (!hv_cas_seq(&p2m->extents[i], &none, table)) {
            hv_free(table);
        }
    }
    return 0;
}

void hv_p2m_clear_locked(struct hv_p2m *p2m, hv_gfn first, uint64_t count)
{
    _Atomic uint64_t *word = leaf_word(p2m, first);
    uint64_t gone[HV_LEAF_KINDS] = {0};

    hv_lock_assert_held(&p2m->lock);
    HV_BUG_ON(!word || first.v % HV_EXTENT_FRAMES + count > HV_EXTENT_FRAMES);
    for (uint64_t i = 0; i < count; i++) {
        gone[hv_load_relaxed(&word[i]) >> LEAF_KIND]++;
        /* Pairs with hv_p2m_lookup(). Who clears whole ranges waits for no holder after it. */
        hv_store_release(&word[i], 0);
    }
    for (unsigned kind = HV_LEAF_HOLE + 1; kind < HV_LEAF_KINDS; kind++) {
        hv_count(&p2m->leaves[kind], -gone[kind]);
    }
}

static void count_leaf(struct hv_p2m *p2m, enum hv_leaf_kind kind, uint64_t more)
{
    if (kind != HV_LEAF_HOLE) {
        hv_count(&p2m->leaves[kind], more);
    }
}

struct hv_leaf hv_p2m_set_locked(struct hv_p2m *p2m, hv_gfn gfn, struct hv_leaf leaf)
{
    _Atomic uint64_t *word = leaf_word(p2m, gfn);
    struct hv_leaf old;

    hv_lock_assert_held(&p2m->lock);
    HV_BUG_ON(!word);
    /* Pairs with hv_p2m_lookup(). */
    old = leaf_unpack(hv_swap_seq(word, leaf_pack(leaf)));
    if (old.kind != leaf.kind) {
        count_leaf(p2m, old.kind, UINT64_MAX);
        count_leaf(p2m, leaf.kind, 1);
    }
    return old;
}
