/* SPDX-License-Identifier: GPL-3.0-or-later */
/* General references, owners and pins: the count word of a frame. Types are in frame-type.c. */
#include "mem/frame.h"

#include <errno.h>

#include "base/assert.h"
#include "base/bits.h"
#include "mem/arena.h"
#include "mem/frame-private.h"
#include "mem/heap.h"

#define OWNER_SHIFT 48

static uint64_t owner_pack(uint16_t owner, hv_gfn gfn)
{
    /* HV_OWNER_NONE becomes 0: a new frame table need not be written to be right. */
    return (uint64_t)(uint16_t)(owner + 1) << OWNER_SHIFT | gfn.v;
}

uint16_t hv_frame_owner(const struct hv_frame *frame)
{
    return (uint16_t)((hv_load_seq(&frame->owner_gfn) >> OWNER_SHIFT) - 1);
}

hv_gfn hv_frame_gfn(const struct hv_frame *frame)
{
    return (hv_gfn){hv_load_seq(&frame->owner_gfn) & (HV_BIT(OWNER_SHIFT) - 1)};
}

uint64_t hv_frame_references(const struct hv_frame *frame)
{
    return hv_load_seq(&frame->count) & HV_FRAME_REFS_MASK;
}

static uint64_t count_pins(uint64_t count)
{
    return (count >> HV_FRAME_PIN_SHIFT) & HV_FRAME_PIN_MAX;
}

bool hv_frame_pinned(const struct hv_frame *frame)
{
    return count_pins(hv_load_seq(&frame->count)) > 0;
}

int hv_frame_get(struct hv_arena *arena, hv_mfn mfn, uint16_t owner)
{
    struct hv_frame *frame = hv_arena_frame(arena, mfn);
    uint64_t count = hv_load_seq(&frame->count);

    do {
        if (!(count & HV_FRAME_ALLOCATED) || hv_frame_owner(frame) != owner) {
            return -ENOENT;
        }
        if ((count & HV_FRAME_REFS_MASK) == HV_FRAME_REFS_MASK) {
            return -EOVERFLOW;
        }
    } while (!hv_cas_weak_seq(&frame->count, &count, count + 1));
    /* The frame may have gone to another owner and back to the same count in between. */
    if (hv_frame_owner(frame) != owner) {
        hv_frame_put(arena, mfn);
        return -ENOENT;
    }
    return 0;
}

bool hv_frame_release(struct hv_frame *frame)
{
    uint64_t count = hv_load_seq(&frame->count);
    uint64_t wanted;
    bool last;

    do {
        HV_BUG_ON(!(count & HV_FRAME_ALLOCATED) || (count & HV_FRAME_REFS_MASK) == 0);
        last = (count & HV_FRAME_REFS_MASK) == 1;
        /* A pin or a type reference without a general one: its holder would write to the next
         * owner's memory. */
        HV_BUG_ON(last &&
                  (count_pins(count) > 0 || (hv_load_seq(&frame->type) & HV_FRAME_INUSE) != 0));
        wanted = last ? HV_FRAME_COUNT_FREE : count - 1;
    } while (!hv_cas_weak_seq(&frame->count, &count, wanted));
    if (last) {
        hv_frame_wipe(frame);
    }
    return last;
}

void hv_frame_put(struct hv_arena *arena, hv_mfn mfn)
{
    if (hv_frame_release(hv_arena_frame(arena, mfn))) {
        hv_heap_free_frame(hv_arena_heap(arena), mfn);
    }
}

int hv_frame_pin(struct hv_arena *arena, hv_mfn mfn, const struct hv_frame_access *access)
{
    struct hv_frame *frame = hv_arena_frame(arena, mfn);
    uint64_t count;
    int err;

    err = hv_frame_get(arena, mfn, hv_frame_owner(frame));
    if (err) {
        return err;
    }
    err = hv_frame_type_get(arena, mfn, HV_FRAME_TYPE_WRITABLE, 0, access);
    if (err) {
        goto out_ref;
    }
    count = hv_load_seq(&frame->count);
    do {
        if (count_pins(count) == HV_FRAME_PIN_MAX) {
            err = -EOVERFLOW;
            goto out_type;
        }
    } while (!hv_cas_weak_seq(&frame->count, &count, count + HV_BIT(HV_FRAME_PIN_SHIFT)));
    return 0;

out_type:
    hv_frame_type_put(arena, mfn);
out_ref:
    hv_frame_put(arena, mfn);
    return err;
}

void hv_frame_unpin(struct hv_arena *arena, hv_mfn mfn)
{
    struct hv_frame *frame = hv_arena_frame(arena, mfn);
    uint64_t before = hv_sub_seq(&frame->count, HV_BIT(HV_FRAME_PIN_SHIFT));

    HV_BUG_ON(count_pins(before) == 0);
    hv_frame_type_put(arena, mfn);
    hv_frame_put(arena, mfn);
}

void hv_frame_assign(struct hv_frame *frame, uint16_t owner)
{
    hv_store_relaxed(&frame->type, 0);
    hv_store_relaxed(&frame->owner_gfn, owner_pack(owner, (hv_gfn){0}));
    /* Last: from here on hv_frame_get() succeeds for the owner. */
    hv_store_release(&frame->count, HV_FRAME_COUNT_ONE);
}

void hv_frame_give(struct hv_frame *frame, uint16_t owner, hv_gfn gfn)
{
    /* Pairs with the looks at the owner in hv_frame_get(). */
    hv_store_seq(&frame->owner_gfn, owner_pack(owner, gfn));
}

void hv_frame_wipe(struct hv_frame *frame)
{
    /* Relaxed: the compare-and-swap that took ALLOCATED away ordered everybody else's uses before,
     * hv_frame_assign() orders this before the next owner's. */
    hv_store_relaxed(&frame->owner_gfn, owner_pack(HV_OWNER_NONE, (hv_gfn){0}));
    /* A put that stalled before its stamp finds another word than its token and drops it. */
    hv_store_relaxed(&frame->type, 0);
}

void hv_frame_become_ram(struct hv_frame *frame, uint16_t owner, hv_gfn gfn)
{
    /* Relaxed: nobody knows the frame before its leaf is published. */
    hv_store_relaxed(&frame->owner_gfn, owner_pack(owner, gfn));
    /* Nothing is cached of a frame that never was in a table: VALIDATED without a flush. */
    hv_store_relaxed(&frame->type, (uint64_t)HV_FRAME_TYPE_WRITABLE << 60 | HV_FRAME_VALIDATED |
                                       HV_FRAME_INUSE | 1);
}

void hv_frame_check(const struct hv_frame *frame)
{
    uint64_t count = hv_load_seq(&frame->count);
    uint64_t type = hv_load_seq(&frame->type);
    bool allocated = (count & HV_FRAME_ALLOCATED) != 0;
    bool in_use = (type & HV_FRAME_INUSE) != 0;

    HV_BUG_ON(allocated != ((count & HV_FRAME_REFS_MASK) > 0));
    HV_BUG_ON(allocated != (hv_frame_owner(frame) != HV_OWNER_NONE));
    HV_BUG_ON(allocated && (count & HV_FRAME_COUNT_FREE) != 0); /* invariant 6 */
    HV_BUG_ON(!allocated && type != 0);                         /* invariant 5 */
    HV_BUG_ON(in_use && (type & HV_FRAME_STAMPING) != 0);
    HV_BUG_ON(in_use && (type & HV_FRAME_VALUE_MASK) == 0);
    HV_BUG_ON(in_use && hv_frame_type(frame) == HV_FRAME_TYPE_NONE);
    HV_BUG_ON((hv_frame_reasons(frame) != 0) != (hv_frame_type(frame) == HV_FRAME_TYPE_SEALED));
    HV_BUG_ON(count_pins(count) > 0 && /* invariant 7 */
              (!in_use || hv_frame_type(frame) != HV_FRAME_TYPE_WRITABLE ||
               count_pins(count) > (type & HV_FRAME_VALUE_MASK)));
}
