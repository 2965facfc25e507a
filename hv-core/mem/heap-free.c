/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Freeing: whole extents with one lock operation, single frames with one an extent of them. */
#include "mem/heap-private.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "base/bits.h"

/* The allocation's reference and no other; nobody can take one once it is gone. */
static bool release_alone(struct hv_frame *frame, uint16_t owner)
{
    uint64_t one = HV_FRAME_COUNT_ONE;

    if (hv_frame_owner(frame) != owner || !hv_cas_seq(&frame->count, &one, HV_FRAME_COUNT_FREE)) {
        return false;
    }
    if (hv_load_seq(&frame->type) & HV_FRAME_INUSE) {
        hv_store_seq(&frame->count, HV_FRAME_COUNT_ONE);
        return false;
    }
    return true;
}

int hv_heap_free_extent(struct hv_heap *heap, hv_mfn first, uint16_t owner)
{
    uint32_t index = hv_extent_of(first);
    struct hv_extent *extent = &heap->extents[index];
    struct hv_frame *frames = hv_arena_frame(heap->arena, first);
    struct hv_shard *shard;
    uint64_t done = 0;

    HV_BUG_ON(first.v % HV_EXTENT_FRAMES != 0);
    while (done < HV_EXTENT_FRAMES && release_alone(&frames[done], owner)) {
        done++;
    }
    if (done < HV_EXTENT_FRAMES) {
        while (done-- > 0) {
            hv_store_seq(&frames[done].count, HV_FRAME_COUNT_ONE);
        }
        return -EBUSY;
    }
    for (uint64_t i = 0; i < HV_EXTENT_FRAMES; i++) {
        hv_frame_wipe(&frames[i]);
    }
    shard = &heap->shards[extent->shard];
    hv_lock_take(&shard->lock);
    extent->stamp = hv_flush_clock(&heap->arena->holders);
    hv_shard_insert_locked(heap, index, HV_EXTENT_STATE_DIRTY);
    hv_lock_drop(&shard->lock);
    hv_heap_note_return(heap);
    hv_heap_unclaim(heap, HV_EXTENT_FRAMES);
    return 0;
}

/* Make the extent ready to have single frames freed into it: taken out of its list. */
static void open_extent_locked(struct hv_heap *heap, uint32_t index)
{
    struct hv_extent *extent = &heap->extents[index];

    if (extent->state == HV_EXTENT_STATE_SPLIT) {
        hv_shard_remove_locked(heap, index);
        return;
    }
    HV_BUG_ON(extent->state != HV_EXTENT_STATE_OWNED && extent->state != HV_EXTENT_STATE_FULL);
    memset(extent->free_map, 0, sizeof(extent->free_map));
    extent->free = 0;
    extent->dirty = 0;
    extent->state = HV_EXTENT_STATE_MOVING;
}

static void free_bit(struct hv_extent *extent, uint64_t frame)
{
    uint64_t bit = HV_BIT(frame % 64);

    HV_BUG_ON(extent->free_map[frame / 64] & bit);
    extent->free_map[frame / 64] |= bit;
    extent->free++;
    extent->dirty++;
}

/* Free a run of frames of one extent. */
static void free_run(struct hv_heap *heap, const hv_mfn *frames, size_t count)
{
    uint32_t index = hv_extent_of(frames[0]);
    struct hv_extent *extent = &heap->extents[index];
    struct hv_shard *shard = &heap->shards[extent->shard];

    hv_lock_take(&shard->lock);
    open_extent_locked(heap, index);
    for (size_t i = 0; i < count; i++) {
        free_bit(extent, frames[i].v % HV_EXTENT_FRAMES);
    }
    extent->stamp = hv_flush_clock(&heap->arena->holders);
    hv_shard_insert_locked(heap, index,
                           extent->free == HV_EXTENT_FRAMES ? HV_EXTENT_STATE_DIRTY
                                                            : HV_EXTENT_STATE_SPLIT);
    hv_lock_drop(&shard->lock);
    hv_heap_note_return(heap);
    hv_heap_unclaim(heap, count);
}

void hv_heap_free_batch(struct hv_heap *heap, const hv_mfn *frames, size_t count)
{
    size_t start = 0;

    for (size_t i = 1; i <= count; i++) {
        if (i == count || hv_extent_of(frames[i]) != hv_extent_of(frames[start])) {
            free_run(heap, &frames[start], i - start);
            start = i;
        }
    }
}
