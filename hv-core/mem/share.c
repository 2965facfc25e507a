/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Sharing pages and parting them: see share.h. Both happen under the change of the page's extent, so
 * that of two who part a page one does and the other finds it done; and with seals refused, from the
 * revocation of its blocks until the leaf is another.
 */
#include "mem/share.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "mem/arena-private.h"
#include "mem/heap.h"
#include "mem/memory-private.h"
#include "sync/race.h"

/* A frame with a general and a type reference, for a leaf to be; `mfn` when there is one. */
struct shared {
    bool found;
    hv_mfn mfn;
};

/* Run @act on the leaf at @gfn, having the extent, with no block of the page left. */
static int change_page(struct hv_memory *memory, hv_gfn gfn,
                       int (*act)(struct hv_memory *memory, hv_gfn gfn, struct shared *shared),
                       struct shared *shared)
{
    struct hv_memory_change change;
    int err;

    hv_memory_refuse_seals(memory);
    err = hv_memory_revoke_code(memory, gfn);
    if (!err) {
        err = hv_memory_change_begin(memory, &change, gfn.v / HV_EXTENT_FRAMES);
    }
    if (!err) {
        err = act(memory, gfn, shared);
        hv_memory_change_end(memory, &change);
    }
    hv_memory_allow_seals(memory);
    return err;
}

/* One page more, or fewer, that is the memory's own and not in its claim. */
static void count_private(struct hv_memory *memory, int more)
{
    hv_lock_take(&memory->page_lock);
    memory->claimed_frames -= (uint64_t)(int64_t)more;
    hv_count(&memory->populated_frames, (uint64_t)(int64_t)more);
    hv_lock_drop(&memory->page_lock);
}

/* ---- sharing ---- */

/* For one leaf more. */
static int take_references(struct hv_memory *memory, struct shared *shared)
{
    struct hv_frame *frame = hv_arena_frame(memory->arena, shared->mfn);
    struct hv_frame_taken taken;
    int err = hv_frame_get(memory->arena, shared->mfn, HV_OWNER_SHARED);

    if (err) {
        return err;
    }
    err = hv_frame_type_take(frame, HV_FRAME_TYPE_SEALED, HV_SEAL_COW, false, &taken);
    if (err) {
        hv_frame_put(memory->arena, shared->mfn);
        return err;
    }
    shared->found = true;
    return 0;
}

static void put_references(struct hv_arena *arena, hv_mfn mfn)
{
    hv_frame_type_put(arena, mfn);
    hv_frame_put(arena, mfn);
}

/*
 * RAM becomes SHARED, with one leaf. Who looks it up from now on finds a frame of another owner: the
 * owner is changed first. Who looks in between finds an owner that does not fit the leaf, and looks again
 * until it does: for a few stores.
 */
static int seal_locked(struct hv_memory *memory, hv_gfn gfn, hv_mfn mfn,
                       struct hv_frame_taken *taken_out) HV_REQUIRES(&memory->p2m.lock);

static int seal_locked(struct hv_memory *memory, hv_gfn gfn, hv_mfn mfn,
                       struct hv_frame_taken *taken_out)
{
    struct hv_frame *frame = hv_arena_frame(memory->arena, mfn);

    if (hv_frame_type_references(frame) != 1) {
        return -EBUSY;
    }
    hv_frame_give(frame, HV_OWNER_SHARED, (hv_gfn){0});
    (void)hv_p2m_set_locked(&memory->p2m, gfn, (struct hv_leaf){HV_LEAF_SHARED, mfn, 0});
    if (hv_memory_swap_type_locked(memory, mfn, HV_FRAME_TYPE_SEALED, HV_SEAL_COW, taken_out)) {
        return 0;
    }
    hv_frame_give(frame, memory->owner, gfn);
    (void)hv_p2m_set_locked(&memory->p2m, gfn, (struct hv_leaf){HV_LEAF_RAM, mfn, 0});
    return -EBUSY;
}

static int seal(struct hv_memory *memory, hv_gfn gfn, hv_mfn mfn)
{
    const struct hv_frame_access access = {.memory = memory};
    struct hv_heap *heap = hv_arena_heap(memory->arena);
    struct hv_frame_taken taken;
    int err = hv_heap_claim(heap, 1);

    if (err) {
        return err;
    }
    hv_lock_take(&memory->p2m.lock);
    err = seal_locked(memory, gfn, mfn, &taken);
    hv_lock_drop(&memory->p2m.lock);
    if (err) {
        hv_heap_unclaim(heap, 1);
        return err;
    }
    HV_RACE("share.sealed");
    /* Invariant (1): nobody else has the frame before this flush is done. */
    hv_frame_type_settle(memory->arena, hv_arena_frame(memory->arena, mfn), &taken, &access);
    count_private(memory, -1);
    return 0;
}

static int freeze(struct hv_memory *memory, hv_gfn gfn, struct shared *shared)
{
    struct hv_leaf leaf = hv_p2m_lookup(&memory->p2m, gfn);
    int err;

    shared->mfn = leaf.mfn;
    switch (leaf.kind) {
    case HV_LEAF_UNPOPULATED:
        return 0;
    case HV_LEAF_RAM:
        err = seal(memory, gfn, leaf.mfn);
        return err ? err : take_references(memory, shared);
    case HV_LEAF_SHARED:
        return take_references(memory, shared);
    case HV_LEAF_RAM_RO:
    case HV_LEAF_ROM_OVER_RAM:
        return -EBUSY;
    case HV_LEAF_HOLE:
    case HV_LEAF_MMIO:
    case HV_LEAF_ABSENT:
    case HV_LEAF_WINDOW:
        break;
    }
    return -ENOENT;
}

static int install(struct hv_memory *memory, hv_gfn gfn, struct shared *shared)
{
    if (hv_p2m_lookup(&memory->p2m, gfn).kind != HV_LEAF_UNPOPULATED) {
        return -EEXIST;
    }
    hv_lock_take(&memory->p2m.lock);
    (void)hv_p2m_set_locked(&memory->p2m, gfn, (struct hv_leaf){HV_LEAF_SHARED, shared->mfn, 0});
    hv_lock_drop(&memory->p2m.lock);
    return 0;
}

int hv_memory_share(struct hv_memory *from, hv_gfn gfn, struct hv_memory *to, hv_gfn to_gfn)
{
    struct shared shared = {.found = false};
    int err;

    HV_ASSERT(from->arena == to->arena);
    /* One extent at a time: two may be shared crosswise. */
    err = change_page(from, gfn, freeze, &shared);
    if (err || !shared.found) {
        return err;
    }
    err = change_page(to, to_gfn, install, &shared);
    if (err) {
        put_references(from->arena, shared.mfn);
    }
    return err;
}

/* ---- parting ---- */

static void publish_ram(struct hv_memory *memory, hv_gfn gfn, hv_mfn mfn)
{
    hv_lock_take(&memory->p2m.lock);
    (void)hv_p2m_set_locked(&memory->p2m, gfn, (struct hv_leaf){HV_LEAF_RAM, mfn, 0});
    hv_lock_drop(&memory->p2m.lock);
    count_private(memory, 1);
}

/*
 * The last leaf: a frame that only we refer to is referred to by nobody else again, because who shares
 * it has to come through this leaf, whose extent is ours. Those who read our page meanwhile may; they
 * find the owner that fits the leaf, or look again.
 */
static void take_over(struct hv_memory *memory, hv_gfn gfn, hv_mfn mfn)
{
    const struct hv_frame_access access = {.memory = memory};
    struct hv_frame *frame = hv_arena_frame(memory->arena, mfn);
    struct hv_frame_taken taken;
    int rc;

    hv_frame_type_put(memory->arena, mfn);
    rc = hv_frame_type_take(frame, HV_FRAME_TYPE_WRITABLE, 0, false, &taken);
    HV_BUG_ON(rc != 0); /* of this owner nobody else asks for a type */
    hv_frame_type_settle(memory->arena, frame, &taken, &access);
    hv_frame_give(frame, memory->owner, gfn);
    publish_ram(memory, gfn, mfn);
    hv_heap_unclaim(hv_arena_heap(memory->arena), 1);
}

static int copy(struct hv_memory *memory, hv_gfn gfn, hv_mfn mfn)
{
    const void *from = hv_arena_host(memory->arena, mfn);
    hv_mfn fresh;
    int err = hv_heap_alloc_frame(hv_arena_heap(memory->arena), memory->owner, &fresh);

    if (err) {
        return err;
    }
    /* Both are nobody's to write: the one is sealed, the other in our hands alone. */
    if (from) {
        memcpy(hv_arena_host(memory->arena, fresh), from, HV_PAGE_SIZE);
    }
    hv_frame_become_ram(hv_arena_frame(memory->arena, fresh), memory->owner, gfn);
    publish_ram(memory, gfn, fresh);
    HV_RACE("unshare.published");
    hv_memory_flush_all(memory);
    put_references(memory->arena, mfn);
    return 0;
}

static int part(struct hv_memory *memory, hv_gfn gfn, struct shared *shared)
{
    struct hv_leaf leaf = hv_p2m_lookup(&memory->p2m, gfn);

    (void)shared;
    if (leaf.kind != HV_LEAF_SHARED) {
        return 0;
    }
    if (hv_frame_references(hv_arena_frame(memory->arena, leaf.mfn)) > 1) {
        return copy(memory, gfn, leaf.mfn);
    }
    take_over(memory, gfn, leaf.mfn);
    return 0;
}

int hv_memory_unshare(struct hv_memory *memory, hv_gfn gfn)
{
    return change_page(memory, gfn, part, NULL);
}
