/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Freeing: whole extents with one lock operation, single frames into magazines or by batches. */
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
    hv_count(&shard->freed_extents, 1);
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

static void free_bit(struct hv_heap *heap, struct hv_extent *extent, hv_mfn mfn, uint64_t now)
{
    uint64_t frame = mfn.v % HV_EXTENT_FRAMES;
    uint64_t count = hv_load_relaxed(&hv_arena_frame(heap->arena, mfn)->count);

    HV_BUG_ON(extent->free_map[frame / 64] & HV_BIT(frame % 64));
    extent->free_map[frame / 64] |= HV_BIT(frame % 64);
    extent->free++;
    if (count & HV_FRAME_NEED_SCRUB) {
        extent->dirty++;
    }
    if (count & HV_FRAME_NEED_FLUSH) {
        extent->stamp = now;
    }
}

static enum hv_extent_state state_of(const struct hv_extent *extent)
{
    if (extent->free < HV_EXTENT_FRAMES) {
        return HV_EXTENT_STATE_SPLIT;
    }
    return extent->dirty > 0 ? HV_EXTENT_STATE_DIRTY : HV_EXTENT_STATE_CLEAN;
}

/* The first run of frames of one extent. Returns how many they are. */
static size_t put_run_locked(struct hv_heap *heap, const hv_mfn *frames, size_t count)
{
    uint32_t index = hv_extent_of(frames[0]);
    struct hv_extent *extent = &heap->extents[index];
    uint64_t now = hv_flush_clock(&heap->arena->holders);
    size_t done = 0;

    open_extent_locked(heap, index);
    while (done < count && hv_extent_of(frames[done]) == index) {
        free_bit(heap, extent, frames[done++], now);
    }
    hv_shard_insert_locked(heap, index, state_of(extent));
    return done;
}

/*
 * An extent with a frame that is not in its list stays in its shard (invariant 2), so that the shard
 * may be looked up without its lock.
 */
static void put_sorted(struct hv_heap *heap, const hv_mfn *frames, size_t count)
{
    size_t done = 0;

    while (done < count) {
        struct hv_shard *shard = hv_extent_shard(heap, hv_extent_of(frames[done]));

        hv_lock_take(&shard->lock);
        do {
            done += put_run_locked(heap, &frames[done], count - done);
        } while (done < count && hv_extent_shard(heap, hv_extent_of(frames[done])) == shard);
        hv_lock_drop(&shard->lock);
    }
    hv_heap_note_return(heap);
}

void hv_heap_free_batch(struct hv_heap *heap, const hv_mfn *frames, size_t count)
{
    if (count > 0) {
        put_sorted(heap, frames, count);
        hv_heap_unclaim(heap, count);
    }
}

void hv_heap_free_frame(struct hv_heap *heap, hv_mfn mfn)
{
    struct hv_magazines *own = hv_magazines_own(heap);

    if (own) {
        hv_magazines_push(heap, own, mfn);
    } else {
        hv_heap_free_batch(heap, &mfn, 1);
    }
}

/* By insertion: what was loaded together is mostly in order. */
static void sort_frames(hv_mfn *frames, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        hv_mfn moved = frames[i];
        size_t at = i;

        for (; at > 0 && frames[at - 1].v > moved.v; at--) {
            frames[at] = frames[at - 1];
        }
        frames[at] = moved;
    }
}

void hv_heap_put_back(struct hv_heap *heap, struct hv_frame_batch *batch)
{
    sort_frames(batch->frames, batch->count);
    put_sorted(heap, batch->frames, batch->count);
}
