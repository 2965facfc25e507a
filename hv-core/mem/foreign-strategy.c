/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The right ways to deal with stale translations of mappers, one product's and four for comparison. */
#include "mem/foreign-strategy-private.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/bits.h"
#include "mem/frame-private.h"
#include "sync/race.h"

#define MASKS 64u

static void flush_mappers(struct hv_arena *arena, uint64_t mappers, uint64_t stamp,
                          struct hv_flush_counters *counters)
{
    hv_holders_flush(&arena->holders, NULL, 0, mappers, stamp, counters);
}

/* --- taint --- */

static bool taint_change(struct hv_arena *arena, struct hv_memory *memory, uint64_t old,
                         uint64_t stamp)
{
    bool tainted = (old & HV_FRAME_FTAINT) != 0;

    if (tainted) {
        flush_mappers(arena, HV_MAPPERS_ALL, stamp, &memory->flushes);
    }
    return tainted;
}

const struct hv_foreign_strategy hv_foreign_taint = {.name = "taint", .change = taint_change};

/* --- all-filtered --- */

static bool all_change(struct hv_arena *arena, struct hv_memory *memory, uint64_t old,
                       uint64_t stamp)
{
    (void)old;
    flush_mappers(arena, HV_MAPPERS_ALL, stamp, &memory->flushes);
    return true;
}

static const struct hv_foreign_strategy all_filtered = {
    .name = "all-filtered",
    .change = all_change,
};

/* --- put-flush --- */

static void put_flush_unmap(struct hv_arena *arena, uint16_t owner, const struct hv_holder *mapper)
{
    (void)owner;
    (void)mapper;
    /* By the present time: the frame's stamp is of an earlier life, its reference is still held. */
    flush_mappers(arena, HV_MAPPERS_ALL, hv_flush_clock(&arena->holders), &arena->unmap_flushes);
}

static const struct hv_foreign_strategy put_flush = {
    .name = "put-flush",
    .unmap = put_flush_unmap,
};

/* --- mask-locked --- */

struct hv_foreign_mask *hv_foreign_mask(struct hv_arena *arena, uint16_t owner)
{
    HV_ASSERT(arena->masks);
    return &arena->masks[owner % MASKS];
}

static void locked_unmap(struct hv_arena *arena, uint16_t owner, const struct hv_holder *mapper)
{
    hv_or_seq(&hv_foreign_mask(arena, owner)->bits[0], HV_BIT(mapper->index));
}

static bool locked_change(struct hv_arena *arena, struct hv_memory *memory, uint64_t old,
                          uint64_t stamp)
{
    struct hv_foreign_mask *mask = hv_foreign_mask(arena, memory->owner);
    uint64_t asked;

    (void)old;
    hv_lock_take(&mask->lock);
    asked = hv_holders_suspects(&arena->holders, hv_load_seq(&mask->bits[0]), stamp);
    /* Before the flush: an unmap meanwhile sets its bit anew. Only of those that are flushed: others
     * were filtered by this frame's stamp, and another frame's may need them (clear-all). */
    hv_and_seq(&mask->bits[0], ~asked);
    /* By the present time: mappers share bits, and every one of a cleared bit must be flushed. */
    flush_mappers(arena, asked, hv_flush_clock(&arena->holders), &memory->flushes);
    /* Only now: another change that finds the bit cleared must find the flush done (clear-before). */
    hv_lock_drop(&mask->lock);
    return false;
}

static const struct hv_foreign_strategy mask_locked = {
    .name = "mask-locked",
    .masks = true,
    .unmap = locked_unmap,
    .change = locked_change,
};

/* --- double-buffer --- */

static void double_unmap(struct hv_arena *arena, uint16_t owner, const struct hv_holder *mapper)
{
    struct hv_foreign_mask *mask = hv_foreign_mask(arena, owner);
    uint32_t active = hv_load_seq(&mask->active);

    HV_RACE("foreign.double.active");
    hv_or_seq(&mask->bits[active], HV_BIT(mapper->index));
}

/*
 * Take those out of the idle mask that have flushed since it was active; swap when none is left. A
 * bit may come to the idle mask late, from an unmap that read `active` before the swap: then the
 * translation was gone before that, too, and the same flush removed it.
 */
static void sweep(struct hv_arena *arena, struct hv_foreign_mask *mask)
{
    uint32_t idle_now = 0;
    uint32_t idle;
    uint64_t left, suspects;

    if (!hv_cas_seq(&mask->sweeping, &idle_now, 1)) {
        return;
    }
    idle = 1 - hv_load_seq(&mask->active);
    left = hv_load_seq(&mask->bits[idle]);
    suspects = hv_holders_suspects(&arena->holders, left, mask->swapped);
    hv_and_seq(&mask->bits[idle], ~(left & ~suspects));
    if (suspects == 0) {
        hv_store_seq(&mask->active, idle);
        mask->swapped = hv_flush_clock(&arena->holders);
    }
    hv_store_seq(&mask->sweeping, 0);
}

static bool double_change(struct hv_arena *arena, struct hv_memory *memory, uint64_t old,
                          uint64_t stamp)
{
    struct hv_foreign_mask *mask = hv_foreign_mask(arena, memory->owner);
    uint64_t both = hv_load_seq(&mask->bits[0]) | hv_load_seq(&mask->bits[1]);

    (void)old;
    flush_mappers(arena, both, stamp, &memory->flushes);
    sweep(arena, mask);
    return false;
}

static const struct hv_foreign_strategy double_buffer = {
    .name = "double-buffer",
    .masks = true,
    .unmap = double_unmap,
    .change = double_change,
};

/* --- Choice --- */

const struct hv_foreign_strategy *const hv_foreign_strategies[HV_FOREIGN_STRATEGIES] = {
    &hv_foreign_taint, &all_filtered, &put_flush, &mask_locked, &double_buffer,
};

static struct hv_foreign_mask *masks_create(void)
{
    struct hv_foreign_mask *masks = hv_alloc_aligned(HV_CACHE_LINE, MASKS * sizeof(*masks));

    for (unsigned i = 0; masks && i < MASKS; i++) {
        hv_lock_init(&masks[i].lock, HV_RANK_FOREIGN, "mem.foreign", i);
    }
    return masks;
}

void hv_foreign_masks_destroy(struct hv_foreign_mask *masks)
{
    for (unsigned i = 0; masks && i < MASKS; i++) {
        hv_lock_finish(&masks[i].lock);
    }
    hv_free(masks);
}

int hv_arena_set_strategy(struct hv_arena *arena, const struct hv_foreign_strategy *strategy)
{
    struct hv_foreign_mask *masks = strategy->masks ? masks_create() : NULL;

    HV_ASSERT(!hv_list_linked(&arena->holders.mappers));
    if (strategy->masks && !masks) {
        return -ENOMEM;
    }
    hv_foreign_masks_destroy(arena->masks);
    arena->masks = masks;
    arena->strategy = strategy;
    return 0;
}
