/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The heap as it was: a buddy system under one lock, one page an operation. Lists are doubly linked
 * by frame number in the frame table's spare word, the order of a free block is in its count word.
 */
#include "bench/hv-bench-destroy.h"

#include "base/assert.h"
#include "base/bits.h"

#define NIL         UINT32_MAX
#define ORDER_SHIFT 53 /* of the count word; 5 bits */
#define HEADS_BLOCK HV_BIT(52)

static void put_links(struct hv_frame *frame, uint32_t before, uint32_t next)
{
    frame->spare = (uint64_t)before << 32 | next;
}

static uint32_t before(const struct hv_frame *frame)
{
    return (uint32_t)(frame->spare >> 32);
}

static uint32_t next(const struct hv_frame *frame)
{
    return (uint32_t)frame->spare;
}

/* The count word of a free block's first frame. */
static uint64_t block_word(unsigned order)
{
    return HV_FRAME_COUNT_FREE | HEADS_BLOCK | (uint64_t)order << ORDER_SHIFT;
}

static bool is_block(const struct hv_frame *frame, unsigned order)
{
    return hv_load_relaxed(&frame->count) == block_word(order);
}

static void insert_locked(struct old_heap *heap, uint32_t at, unsigned order)
{
    struct hv_frame *frame = &heap->frames[at];
    uint32_t first = heap->head[order];

    put_links(frame, NIL, first);
    if (first != NIL) {
        put_links(&heap->frames[first], at, next(&heap->frames[first]));
    }
    heap->head[order] = at;
    hv_store_relaxed(&frame->count, block_word(order));
}

static void remove_locked(struct old_heap *heap, uint32_t at, unsigned order)
{
    struct hv_frame *frame = &heap->frames[at];

    if (before(frame) == NIL) {
        heap->head[order] = next(frame);
    } else {
        struct hv_frame *left = &heap->frames[before(frame)];

        put_links(left, before(left), next(frame));
    }
    if (next(frame) != NIL) {
        struct hv_frame *right = &heap->frames[next(frame)];

        put_links(right, before(frame), next(right));
    }
    hv_store_relaxed(&frame->count, HV_FRAME_COUNT_FREE);
}

static void free_locked(struct old_heap *heap, uint32_t at)
{
    unsigned order = 0;

    for (; order < OLD_ORDERS - 1; order++) {
        uint32_t buddy = at ^ (UINT32_C(1) << order);

        if (buddy >= heap->frame_count || !is_block(&heap->frames[buddy], order)) {
            break;
        }
        remove_locked(heap, buddy, order);
        at = at < buddy ? at : buddy;
    }
    insert_locked(heap, at, order);
    heap->free_frames++;
}

void old_heap_init(struct old_heap *heap, struct hv_arena *arena)
{
    heap->frames = arena->frames;
    heap->frame_count = arena->frame_count;
    heap->free_frames = 0;
    for (unsigned i = 0; i < OLD_ORDERS; i++) {
        heap->head[i] = NIL;
    }
    hv_lock_init(&heap->lock, HV_RANK_HEAP, "bench.heap", 0);
}

void old_heap_finish(struct old_heap *heap)
{
    hv_lock_finish(&heap->lock);
}

void old_heap_free(struct old_heap *heap, const hv_mfn *frames, size_t count)
{
    hv_lock_take(&heap->lock);
    for (size_t i = 0; i < count; i++) {
        free_locked(heap, (uint32_t)frames[i].v);
    }
    hv_lock_drop(&heap->lock);
}

/* The smallest block there is, halved until it is one frame. */
static uint32_t alloc_locked(struct old_heap *heap)
{
    unsigned order = 0;
    uint32_t at;

    while (order < OLD_ORDERS && heap->head[order] == NIL) {
        order++;
    }
    if (order == OLD_ORDERS) {
        return NIL;
    }
    at = heap->head[order];
    remove_locked(heap, at, order);
    while (order > 0) {
        order--;
        insert_locked(heap, at + (UINT32_C(1) << order), order);
    }
    heap->free_frames--;
    return at;
}

hv_mfn old_heap_alloc(struct old_heap *heap)
{
    uint32_t at;

    hv_lock_take(&heap->lock);
    at = alloc_locked(heap);
    hv_lock_drop(&heap->lock);
    return at == NIL ? HV_MFN_NONE : (hv_mfn){at};
}

uint64_t old_heap_free_frames(struct old_heap *heap)
{
    uint64_t frames;

    hv_lock_take(&heap->lock);
    frames = heap->free_frames;
    hv_lock_drop(&heap->lock);
    return frames;
}
