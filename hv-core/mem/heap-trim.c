/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Free memory back to the host, in batches of extents: taken out of their lists one by one, handed
 * back with no lock held and one host call for each run of neighbours.
 */
#include <string.h>

#include "base/assert.h"
#include "mem/heap-private.h"

struct batch {
    unsigned count;
    struct spare {
        uint32_t extent;
        enum hv_extent_state was;
    } each[HV_HEAP_TRIM_BATCH];
};

/* Keep the batch sorted by extent: neighbours stand in one list, so most are at their place. */
static void add(struct batch *batch, struct spare spare)
{
    unsigned at = batch->count++;

    for (; at > 0 && batch->each[at - 1].extent > spare.extent; at--) {
        batch->each[at] = batch->each[at - 1];
    }
    batch->each[at] = spare;
}

static void collect_spares(struct hv_heap *heap, struct batch *batch, uint64_t most)
{
    unsigned from = hv_heap_richest_shard(heap, false);

    batch->count = 0;
    while (batch->count < HV_HEAP_TRIM_BATCH && batch->count < most) {
        struct spare spare;

        spare.extent = hv_heap_take_spare_extent(heap, from, &spare.was);
        if (spare.extent == HV_EXTENT_NIL) {
            return; /* what is left is single frames */
        }
        add(batch, spare);
    }
}

/* Mappers forget first: a last store would make a page of it again, and not one of zeros. */
static void flush_spares(struct hv_heap *heap, const struct batch *batch)
{
    uint64_t newest = 0;

    for (unsigned i = 0; i < batch->count; i++) {
        uint64_t *stamp = &heap->extents[batch->each[i].extent].stamp;

        newest = *stamp > newest ? *stamp : newest;
        *stamp = 0;
    }
    hv_heap_flush_reused(heap, newest);
}

/* @count neighbours. On failure they are back as they were. */
static int return_run(struct hv_heap *heap, const struct spare *run, unsigned count)
{
    uint64_t offset = run->extent * HV_EXTENT_SIZE;
    int err = hv_backing_return(&heap->arena->backing,
                                hv_arena_host(heap->arena, hv_extent_first(run->extent)), offset,
                                count * HV_EXTENT_SIZE);

    for (unsigned i = 0; i < count; i++) {
        if (!err) {
            hv_heap_mark_clean(heap, run[i].extent);
        }
        hv_heap_give_extent(heap, run[i].extent, err ? run[i].was : HV_EXTENT_STATE_RETURNED);
    }
    return err;
}

/* Returns how many extents went. All are back in a list. */
static unsigned return_batch(struct hv_heap *heap, const struct batch *batch)
{
    unsigned returned = 0;
    unsigned start = 0;

    flush_spares(heap, batch);
    for (unsigned i = 1; i <= batch->count; i++) {
        if (i == batch->count || batch->each[i].extent != batch->each[i - 1].extent + 1) {
            returned += return_run(heap, &batch->each[start], i - start) ? 0 : i - start;
            start = i;
        }
    }
    return returned;
}

uint64_t hv_heap_trim(struct hv_heap *heap, uint64_t extents)
{
    uint64_t returned = 0;
    uint64_t step = 1;

    hv_lock_check_wait(HV_RANK_FLUSH_WAIT, "trimming the heap");
    if (heap->arena->backing.kind == HV_BACKING_KIND_NONE) {
        return 0;
    }
    while (step > 0 && returned < extents) {
        struct batch batch;

        collect_spares(heap, &batch, extents - returned);
        step = return_batch(heap, &batch);
        returned += step;
    }
    return returned;
}
