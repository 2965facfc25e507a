/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The first touch of RAM: a whole extent where the guest's 2 MiB are all untouched RAM, else one
 * frame (beside a hole, or when the heap has no whole extent left).
 */
#include "mem/memory-private.h"

#include <errno.h>

#include "base/assert.h"
#include "base/bits.h"
#include "mem/arena-private.h"
#include "mem/heap.h"
#include "sync/race.h"

static bool whole_extent_unpopulated(const struct hv_memory *memory, uint64_t extent)
{
    for (uint64_t i = 0; i < HV_EXTENT_FRAMES; i++) {
        hv_gfn gfn = {extent * HV_EXTENT_FRAMES + i};

        if (hv_p2m_lookup(&memory->p2m, gfn).kind != HV_LEAF_UNPOPULATED) {
            return false;
        }
    }
    return true;
}

/* Publish @count frames from @mfn on as RAM at @first. The extent is under our change. */
static void install(struct hv_memory *memory, hv_gfn first, hv_mfn mfn, uint64_t count)
{
    HV_RACE("memory.fill.allocated");
    for (uint64_t i = 0; i < count; i++) {
        hv_frame_become_ram(hv_arena_frame(memory->arena, (hv_mfn){mfn.v + i}), memory->owner,
                            (hv_gfn){first.v + i});
    }
    hv_lock_take(&memory->p2m.lock);
    for (uint64_t i = 0; i < count; i++) {
        struct hv_leaf leaf = {.kind = HV_LEAF_RAM, .mfn = {mfn.v + i}};
        struct hv_leaf old = hv_p2m_set_locked(&memory->p2m, (hv_gfn){first.v + i}, leaf);

        HV_ASSERT(old.kind == HV_LEAF_UNPOPULATED);
    }
    hv_lock_drop(&memory->p2m.lock);
    hv_lock_take(&memory->page_lock);
    memory->claimed_frames -= count;
    hv_count(&memory->populated_frames, count);
    hv_lock_drop(&memory->page_lock);
}

static int populate(struct hv_memory *memory, hv_gfn gfn)
{
    struct hv_heap *heap = hv_arena_heap(memory->arena);
    hv_mfn mfn;
    int err;

    if (whole_extent_unpopulated(memory, gfn.v / HV_EXTENT_FRAMES) &&
        hv_heap_alloc_extent(heap, memory->owner, &mfn) == 0) {
        install(memory, (hv_gfn){gfn.v & ~(HV_EXTENT_FRAMES - 1)}, mfn, HV_EXTENT_FRAMES);
        return 0;
    }
    err = hv_heap_alloc_frame(heap, memory->owner, &mfn);
    if (!err) {
        install(memory, gfn, mfn, 1);
    }
    return err;
}

int hv_memory_fill(struct hv_memory *memory, hv_gfn gfn, struct hv_leaf *leaf_out)
{
    struct hv_memory_change change;
    int err;

    *leaf_out = hv_p2m_lookup(&memory->p2m, gfn);
    if (leaf_out->kind != HV_LEAF_UNPOPULATED) {
        return 0;
    }
    err = hv_memory_change_begin(memory, &change, gfn.v / HV_EXTENT_FRAMES);
    if (err) {
        return err;
    }
    if (hv_p2m_lookup(&memory->p2m, gfn).kind == HV_LEAF_UNPOPULATED) {
        err = populate(memory, gfn);
    }
    *leaf_out = hv_p2m_lookup(&memory->p2m, gfn);
    hv_memory_change_end(memory, &change);
    return err;
}
