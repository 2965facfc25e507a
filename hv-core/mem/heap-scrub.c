/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What is owed for a free frame before its next use: that mappers forget it, and that it is zero.
 *
 * An allocation pays for what it takes, through the caches, for the guest will touch it next. The
 * background pays ahead (hv_heap_scrub_spare()), past the caches, for whole extents. It takes one out
 * of its list by its shard's lock, so that nobody else sees it, and scrubs without any:
 *
 *     heap->scrub   IDLE --it looks for one--> BUSY --no other was found (want_scrubbed())--> WANTED
 *                   BUSY | WANTED --the extent is back, CLEAN or DIRTY--> IDLE
 *
 * It looks at the word after each page. An allocation takes any other extent there is and comes to
 * WANTED only when there is none; it then waits for a page, not for an extent.
 */
#include <emmintrin.h>
#include <string.h>

#include "mem/heap-private.h"
#include "sync/race.h"

void hv_heap_flush_reused(struct hv_heap *heap, uint64_t stamp)
{
    /*
     * Mappers only: a vCPU of the frame's last owner has forgotten it, because a leaf's reference
     * is put after the flush (D4), or runs no more. A mapper unmaps without a flush.
     */
    if (stamp != 0) {
        hv_holders_flush(&heap->arena->holders, NULL, 0, HV_MAPPERS_ALL, stamp, &heap->flushes);
    }
}

void hv_heap_flush_extent(struct hv_heap *heap, uint32_t index)
{
    struct hv_extent *extent = &heap->extents[index];

    hv_heap_flush_reused(heap, extent->stamp);
    extent->stamp = 0;
}

void hv_heap_mark_clean(struct hv_heap *heap, uint32_t extent)
{
    struct hv_frame *frames = hv_arena_frame(heap->arena, hv_extent_first(extent));

    for (uint64_t i = 0; i < HV_EXTENT_FRAMES; i++) {
        hv_store_relaxed(&frames[i].count, 0);
    }
}

void hv_heap_scrub_frame(struct hv_heap *heap, hv_mfn mfn)
{
    struct hv_frame *frame = hv_arena_frame(heap->arena, mfn);
    void *host = hv_arena_host(heap->arena, mfn);
    uint64_t count = hv_load_relaxed(&frame->count);

    if (!(count & HV_FRAME_NEED_SCRUB)) {
        return;
    }
    if (host) {
        memset(host, 0, HV_PAGE_SIZE);
    }
    hv_store_relaxed(&frame->count, count & ~HV_FRAME_NEED_SCRUB);
}

void hv_heap_scrub_extent(struct hv_heap *heap, uint32_t extent)
{
    /* Frame by frame: the background may have been through some of them. */
    for (uint64_t i = 0; i < HV_EXTENT_FRAMES; i++) {
        hv_heap_scrub_frame(heap, (hv_mfn){hv_extent_first(extent).v + i});
    }
    hv_heap_mark_clean(heap, extent);
}

/* Nobody reads it soon: 150 ms a GiB instead of 310, and no guest's cache lines are lost. */
static void zero_past_caches(void *page)
{
    long long *words = page;

    for (unsigned i = 0; i < HV_PAGE_SIZE / sizeof(*words); i++) {
        _mm_stream_si64(&words[i], 0);
    }
    /* Such stores are not ordered by the releases that follow. */
    _mm_sfence();
}

/* Returns false when it gave up amid. */
static bool scrub_spare_frames(struct hv_heap *heap, uint32_t extent)
{
    for (uint64_t i = 0; i < HV_EXTENT_FRAMES; i++) {
        hv_mfn mfn = {hv_extent_first(extent).v + i};
        struct hv_frame *frame = hv_arena_frame(heap->arena, mfn);
        void *host = hv_arena_host(heap->arena, mfn);

        HV_RACE("heap.scrub.page");
        /* Pairs with want_scrubbed(). */
        if (hv_load_seq(&heap->scrub) == HV_SCRUB_WANTED) {
            return false;
        }
        if (host && (hv_load_relaxed(&frame->count) & HV_FRAME_NEED_SCRUB)) {
            zero_past_caches(host);
        }
        hv_store_relaxed(&frame->count, 0);
    }
    return true;
}

enum hv_scrubbed hv_heap_scrub_spare(struct hv_heap *heap)
{
    uint32_t extent;
    bool whole;

    hv_lock_check_wait(HV_RANK_FLUSH_WAIT, "scrubbing of spare memory");
    hv_store_seq(&heap->scrub, HV_SCRUB_BUSY);
    extent = hv_heap_take_dirty_extent(heap, hv_heap_richest_shard(heap, true));
    if (extent == HV_EXTENT_NIL) {
        hv_store_seq(&heap->scrub, HV_SCRUB_IDLE);
        return HV_SCRUBBED_NONE;
    }
    hv_heap_flush_extent(heap, extent);
    whole = scrub_spare_frames(heap, extent);
    hv_heap_give_extent(heap, extent, whole ? HV_EXTENT_STATE_CLEAN : HV_EXTENT_STATE_DIRTY);
    /* A wish from before it was back has been granted. */
    hv_store_seq(&heap->scrub, HV_SCRUB_IDLE);
    return whole ? HV_SCRUBBED_EXTENT : HV_SCRUBBED_GAVE_UP;
}
