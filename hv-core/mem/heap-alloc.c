/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Allocation: take a free extent out of its list, make it zero and backed with no lock held, and
 * only then give frames of it to an owner. Single frames come from split extents.
 */
#include "mem/heap-private.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "sync/race.h"

int hv_heap_make_ready(struct hv_heap *heap, uint32_t extent, enum hv_extent_state was)
{
    if (was == HV_EXTENT_STATE_RETURNED &&
        hv_backing_populate(&heap->arena->backing,
                            hv_arena_host(heap->arena, hv_extent_first(extent)), HV_EXTENT_SIZE)) {
        hv_heap_give_extent(heap, extent, was);
        return -ENOMEM;
    }
    HV_RACE("heap.extent.moving");
    /* Before the scrub: a mapper's last stores must not come after it. */
    hv_heap_flush_extent(heap, extent);
    if (was == HV_EXTENT_STATE_DIRTY) {
        hv_heap_scrub_extent(heap, extent);
    }
    return 0;
}

/* Any free whole extent, ready. -EAGAIN when no list has one, -ENOMEM when the host has no memory for
 * a returned one, and there is no other. */
static int take_ready_extent(struct hv_heap *heap, unsigned home, uint32_t *extent_out)
{
    enum hv_extent_state was;

    *extent_out = hv_heap_take_extent(heap, home, &was);
    return *extent_out == HV_EXTENT_NIL ? -EAGAIN : hv_heap_make_ready(heap, *extent_out, was);
}

/* The same, when need be of frames from magazines, which keep their extents from being whole. */
static int find_extent(struct hv_heap *heap, unsigned home, uint32_t *extent_out)
{
    int err = take_ready_extent(heap, home, extent_out);

    return err && hv_magazines_drain(heap) > 0 ? take_ready_extent(heap, home, extent_out) : err;
}

int hv_heap_alloc_extent(struct hv_heap *heap, uint16_t owner, hv_mfn *first_out)
{
    struct hv_heap_search search = {0};
    unsigned home = hv_heap_home(heap, owner);
    uint32_t extent;
    int err;

    hv_lock_check_wait(HV_RANK_FLUSH_WAIT, "allocation of an extent");
    *first_out = HV_MFN_NONE;
    do {
        err = find_extent(heap, home, &extent);
    } while (hv_heap_search_on(heap, &search, &err));
    if (err) {
        return err;
    }
    hv_heap_own_extent(heap, extent);
    *first_out = hv_extent_first(extent);
    for (uint64_t i = 0; i < HV_EXTENT_FRAMES; i++) {
        hv_frame_assign(hv_arena_frame(heap->arena, (hv_mfn){first_out->v + i}), owner);
    }
    return 0;
}

/* The lowest free frame of a split extent, which is MOVING. */
static hv_mfn take_bit(struct hv_heap *heap, uint32_t index)
{
    struct hv_extent *extent = &heap->extents[index];
    unsigned word = 0;
    hv_mfn mfn;

    while (extent->free_map[word] == 0) {
        word++;
        HV_BUG_ON(word == HV_ARRAY_LEN(extent->free_map));
    }
    mfn.v =
        hv_extent_first(index).v + word * 64u + (unsigned)__builtin_ctzll(extent->free_map[word]);
    extent->free_map[word] &= extent->free_map[word] - 1;
    return mfn;
}

/* Up to @most frames of an extent that is being split, or was, and is MOVING. */
static void take_bits(struct hv_heap *heap, uint32_t index, unsigned most,
                      struct hv_frame_batch *batch)
{
    struct hv_extent *extent = &heap->extents[index];

    while (batch->count < most && extent->free > 0) {
        hv_mfn mfn = take_bit(heap, index);
        uint64_t count = hv_load_relaxed(&hv_arena_frame(heap->arena, mfn)->count);

        if ((count & HV_FRAME_NEED_FLUSH) && extent->stamp > batch->stamp) {
            batch->stamp = extent->stamp;
        }
        extent->free--;
        if (count & HV_FRAME_NEED_SCRUB) {
            extent->dirty--;
        }
        batch->frames[batch->count++] = mfn;
    }
}

/* Up to @most frames of the shard's split extents. */
static void take_frames_locked(struct hv_heap *heap, struct hv_shard *shard, unsigned most,
                               struct hv_frame_batch *batch)
{
    while (batch->count < most && shard->head[HV_EXTENT_STATE_SPLIT] != HV_EXTENT_NIL) {
        uint32_t index = shard->head[HV_EXTENT_STATE_SPLIT];
        struct hv_extent *extent = &heap->extents[index];

        hv_shard_remove_locked(heap, index);
        take_bits(heap, index, most, batch);
        if (extent->free > 0) {
            hv_shard_insert_locked(heap, index, HV_EXTENT_STATE_SPLIT);
        } else {
            extent->state = HV_EXTENT_STATE_FULL;
        }
    }
}

/*
 * Up to @most frames of the first shard that has split extents; they count as moving. All of one
 * shard, so that a magazine of them goes back with one lock operation, too.
 */
static bool take_frames(struct hv_heap *heap, unsigned home, unsigned most,
                        struct hv_frame_batch *batch)
{
    for (unsigned i = 0; i < heap->shard_count && batch->count == 0; i++) {
        struct hv_shard *shard = &heap->shards[(home + i) % heap->shard_count];

        hv_lock_take(&shard->lock);
        take_frames_locked(heap, shard, most, batch);
        /* Under the lock: who finds the list without them finds them moving. */
        hv_heap_hold(heap, batch->count);
        hv_lock_drop(&shard->lock);
        HV_RACE("heap.frame.shard");
    }
    return batch->count > 0;
}

static uint16_t count_dirty(const struct hv_heap *heap, uint32_t extent)
{
    const struct hv_frame *frames = hv_arena_frame(heap->arena, hv_extent_first(extent));
    uint16_t dirty = 0;

    for (uint64_t i = 0; i < HV_EXTENT_FRAMES; i++) {
        if (hv_load_relaxed(&frames[i].count) & HV_FRAME_NEED_SCRUB) {
            dirty++;
        }
    }
    return dirty;
}

/*
 * Split a whole extent and take its first @most frames; they count as moving. A dirty one is not
 * scrubbed for that: each frame is when it is used, so that one costs a page and not 2 MiB.
 */
static int split_extent(struct hv_heap *heap, unsigned home, unsigned most,
                        struct hv_frame_batch *batch)
{
    enum hv_extent_state was;
    struct hv_extent *extent;
    uint32_t index = hv_heap_take_extent(heap, home, &was);

    if (index == HV_EXTENT_NIL) {
        return -EAGAIN;
    }
    if (was != HV_EXTENT_STATE_DIRTY) {
        int err = hv_heap_make_ready(heap, index, was);

        if (err) {
            return err;
        }
    }
    extent = &heap->extents[index];
    memset(extent->free_map, 0xff, sizeof(extent->free_map));
    extent->free = HV_EXTENT_FRAMES;
    extent->dirty = was == HV_EXTENT_STATE_DIRTY ? count_dirty(heap, index) : 0;
    take_bits(heap, index, most, batch);
    hv_heap_hold(heap, batch->count);
    hv_heap_give_extent(heap, index, HV_EXTENT_STATE_SPLIT);
    return 0;
}

/* Mappers forget a batch before it is used or stored: once for all of it. */
static void flush_batch(struct hv_heap *heap, struct hv_frame_batch *batch)
{
    if (batch->stamp == 0) {
        return;
    }
    hv_heap_flush_reused(heap, batch->stamp);
    batch->stamp = 0;
    for (unsigned i = 0; i < batch->count; i++) {
        struct hv_frame *frame = hv_arena_frame(heap->arena, batch->frames[i]);

        hv_store_relaxed(&frame->count, hv_load_relaxed(&frame->count) & ~HV_FRAME_NEED_FLUSH);
    }
}

/*
 * A frame of a split extent, or of one to split; for a thread with magazines a load of them, of
 * which it keeps one. When there is none left, that of another's magazine. Errors as
 * take_ready_extent().
 */
static int take_frame(struct hv_heap *heap, unsigned home, hv_mfn *mfn_out, uint64_t *stamp_out)
{
    struct hv_magazines *own = hv_magazines_own(heap);
    unsigned most = own ? HV_MAGAZINE_FRAMES : 1;
    struct hv_frame_batch batch = {.count = 0};
    int err = 0;

    if (!take_frames(heap, home, most, &batch)) {
        err = split_extent(heap, home, most, &batch);
    }
    if (err) {
        return hv_magazines_steal(heap, mfn_out, stamp_out) ? 0 : err;
    }
    flush_batch(heap, &batch);
    *stamp_out = 0;
    *mfn_out = batch.frames[--batch.count];
    /* It is the caller's, under his claim: who searches need not wait for it. */
    hv_heap_let_go(heap, 1);
    if (batch.count > 0) {
        hv_magazines_load(heap, own, &batch);
    }
    return 0;
}

/* Any free frame, of a list or a magazine. *stamp_out as for hv_magazines_pop(). */
static int find_frame(struct hv_heap *heap, uint16_t owner, hv_mfn *mfn_out, uint64_t *stamp_out)
{
    struct hv_magazines *own = hv_magazines_own(heap);
    unsigned home = hv_heap_home(heap, owner);
    struct hv_heap_search search = {0};
    int err;

    if (own && hv_magazines_pop(heap, own, mfn_out, stamp_out)) {
        return 0;
    }
    do {
        err = take_frame(heap, home, mfn_out, stamp_out);
    } while (hv_heap_search_on(heap, &search, &err));
    return err;
}

int hv_heap_alloc_frame(struct hv_heap *heap, uint16_t owner, hv_mfn *mfn_out)
{
    uint64_t stamp;
    int err;

    hv_lock_check_wait(HV_RANK_FLUSH_WAIT, "allocation of a frame");
    *mfn_out = HV_MFN_NONE;
    err = find_frame(heap, owner, mfn_out, &stamp);
    if (err) {
        return err;
    }
    hv_heap_flush_reused(heap, stamp);
    hv_heap_scrub_frame(heap, *mfn_out);
    hv_frame_assign(hv_arena_frame(heap->arena, *mfn_out), owner);
    return 0;
}
