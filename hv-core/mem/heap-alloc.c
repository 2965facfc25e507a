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

/*
 * Any free whole extent, ready; when the host has no memory for a returned one, one that has.
 * -EAGAIN when no list has one, -ENOMEM when the host has no memory.
 */
static int take_ready_extent(struct hv_heap *heap, unsigned home, uint32_t *extent_out)
{
    enum hv_extent_state was = HV_EXTENT_STATE_CLEAN;
    uint32_t extent = hv_heap_take_extent(heap, home, &was);

    *extent_out = extent;
    if (extent == HV_EXTENT_NIL) {
        return -EAGAIN;
    }
    if (hv_heap_make_ready(heap, extent, was) == 0) {
        return 0;
    }
    *extent_out = hv_heap_take_backed_extent(heap, home, &was);
    return *extent_out == HV_EXTENT_NIL ? -ENOMEM : hv_heap_make_ready(heap, *extent_out, was);
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
        err = take_ready_extent(heap, home, &extent);
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

/* The lowest free frame of a split extent. */
static hv_mfn take_bit_locked(struct hv_heap *heap, uint32_t index)
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

/* One frame of the first split extent of the shard; *stamp_out as for hv_heap_flush_reused(). */
static hv_mfn take_frame_locked(struct hv_heap *heap, struct hv_shard *shard, uint64_t *stamp_out)
{
    uint32_t index = shard->head[HV_EXTENT_STATE_SPLIT];
    struct hv_extent *extent;
    uint64_t count;
    hv_mfn mfn;

    if (index == HV_EXTENT_NIL) {
        return HV_MFN_NONE;
    }
    extent = &heap->extents[index];
    hv_shard_remove_locked(heap, index);
    mfn = take_bit_locked(heap, index);
    count = hv_load_seq(&hv_arena_frame(heap->arena, mfn)->count);
    *stamp_out = count & HV_FRAME_NEED_FLUSH ? extent->stamp : 0;
    extent->free--;
    if (count & HV_FRAME_NEED_SCRUB) {
        extent->dirty--;
    }
    if (extent->free > 0) {
        hv_shard_insert_locked(heap, index, HV_EXTENT_STATE_SPLIT);
    } else {
        extent->state = HV_EXTENT_STATE_FULL;
    }
    return mfn;
}

static hv_mfn take_frame(struct hv_heap *heap, unsigned home, uint64_t *stamp_out)
{
    hv_mfn mfn = HV_MFN_NONE;

    for (unsigned i = 0; i < heap->shard_count && mfn.v == HV_MFN_NONE.v; i++) {
        struct hv_shard *shard = &heap->shards[(home + i) % heap->shard_count];

        hv_lock_take(&shard->lock);
        mfn = take_frame_locked(heap, shard, stamp_out);
        hv_lock_drop(&shard->lock);
        HV_RACE("heap.frame.shard");
    }
    return mfn;
}

/* Split a whole extent, keep its first frame for the caller. */
static int split_extent(struct hv_heap *heap, unsigned home, hv_mfn *mfn_out)
{
    struct hv_extent *extent;
    uint32_t index;
    int err = take_ready_extent(heap, home, &index);

    if (err) {
        return err;
    }
    extent = &heap->extents[index];
    memset(extent->free_map, 0xff, sizeof(extent->free_map));
    extent->free_map[0] &= ~UINT64_C(1);
    extent->free = HV_EXTENT_FRAMES - 1;
    extent->dirty = 0;
    hv_heap_give_extent(heap, index, HV_EXTENT_STATE_SPLIT);
    *mfn_out = hv_extent_first(index);
    return 0;
}

/* A frame of a split extent, or of one to split. Errors as take_ready_extent(). */
static int take_or_split(struct hv_heap *heap, unsigned home, hv_mfn *mfn_out, uint64_t *stamp_out)
{
    *stamp_out = 0;
    *mfn_out = take_frame(heap, home, stamp_out);
    return mfn_out->v != HV_MFN_NONE.v ? 0 : split_extent(heap, home, mfn_out);
}

int hv_heap_alloc_frame(struct hv_heap *heap, uint16_t owner, hv_mfn *mfn_out)
{
    struct hv_heap_search search = {0};
    unsigned home = hv_heap_home(heap, owner);
    struct hv_frame *frame;
    uint64_t stamp;
    int err;

    hv_lock_check_wait(HV_RANK_FLUSH_WAIT, "allocation of a frame");
    do {
        err = take_or_split(heap, home, mfn_out, &stamp);
    } while (hv_heap_search_on(heap, &search, &err));
    if (err) {
        return err;
    }
    frame = hv_arena_frame(heap->arena, *mfn_out);
    hv_heap_flush_reused(heap, stamp);
    hv_heap_scrub_frame(heap, *mfn_out);
    hv_frame_assign(frame, owner);
    return 0;
}
