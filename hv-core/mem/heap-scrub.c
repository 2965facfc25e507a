/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What is owed for a free frame before its next use: that mappers forget it, and that it is zero. */
#include <string.h>

#include "mem/heap-private.h"

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
