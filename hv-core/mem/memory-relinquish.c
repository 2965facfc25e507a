/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Giving a dying domain's memory back, in steps that may be interrupted after any frame: whole
 * extents with one lock operation, the rest frame by frame in batches.
 */
#include "mem/memory-private.h"

#include <errno.h>

#include "base/assert.h"
#include "base/bits.h"
#include "mem/dirty.h"
#include "mem/heap.h"

#define RELINQUISH_BATCH 64u
#define RELINQUISH_LOOKS 64u

/*
 * After this nothing is allocated and no extent is under change: who found the memory alive did so
 * under the page lock, which the wait takes, and what he began stands in `changes` by then.
 */
static void settle(struct hv_memory *memory)
{
    uint64_t claimed;

    hv_memory_kill(memory);
    hv_memory_await_changes(memory);

    hv_lock_take(&memory->page_lock);
    claimed = memory->claimed_frames;
    memory->claimed_frames = 0;
    hv_lock_drop(&memory->page_lock);
    hv_heap_unclaim(hv_arena_heap(memory->arena), claimed);
    hv_dirty_stop(memory);
    memory->settled = true;
}

/*
 * The leaf's type reference, and with it the holds of blocks, which nobody will run any more. The
 * last one's stamp is left out: most frames are wiped next, and STAMPING stands for a stamp of now.
 */
static void put_types(struct hv_memory *memory, hv_mfn mfn)
{
    struct hv_frame *frame = hv_arena_frame(memory->arena, mfn);
    bool code = hv_frame_revocable(frame);
    uint64_t stamping;

    do {
        stamping = hv_frame_type_release(frame);
    } while (code && stamping == 0);
}

/* The first frame of an extent that stands whole and in order at @first. */
static bool maps_whole_extent(const struct hv_memory *memory, hv_gfn first, hv_mfn *mfn_out)
{
    *mfn_out = hv_p2m_lookup(&memory->p2m, first).mfn;
    if (mfn_out->v % HV_EXTENT_FRAMES != 0) {
        return false;
    }
    for (uint64_t i = 0; i < HV_EXTENT_FRAMES; i++) {
        struct hv_leaf leaf = hv_p2m_lookup(&memory->p2m, (hv_gfn){first.v + i});

        if (!hv_leaf_has_frame(leaf) || leaf.kind == HV_LEAF_SHARED ||
            leaf.mfn.v != mfn_out->v + i) {
            return false;
        }
    }
    return true;
}

static void clear_leaves(struct hv_memory *memory, hv_gfn first, uint64_t count)
{
    hv_lock_take(&memory->p2m.lock);
    hv_p2m_clear_locked(&memory->p2m, first, count);
    hv_lock_drop(&memory->p2m.lock);
}

static void count_gone(struct hv_memory *memory, uint64_t frames)
{
    hv_lock_take(&memory->page_lock);
    hv_count(&memory->populated_frames, -frames);
    hv_lock_drop(&memory->page_lock);
}

/* Drop the general references of frames whose leaves are gone. */
static void put_frames(struct hv_memory *memory, const hv_mfn *frames, size_t count)
{
    hv_mfn last[RELINQUISH_BATCH];
    size_t lasts = 0;

    for (size_t i = 0; i < count; i++) {
        if (hv_frame_release(hv_arena_frame(memory->arena, frames[i]))) {
            last[lasts++] = frames[i];
        }
    }
    hv_heap_free_batch(hv_arena_heap(memory->arena), last, lasts);
}

static void relinquish_whole(struct hv_memory *memory, hv_gfn first, hv_mfn mfn)
{
    clear_leaves(memory, first, HV_EXTENT_FRAMES);
    for (uint64_t i = 0; i < HV_EXTENT_FRAMES; i++) {
        put_types(memory, (hv_mfn){mfn.v + i});
    }
    if (hv_heap_free_extent(hv_arena_heap(memory->arena), mfn, memory->owner) == 0) {
        count_gone(memory, HV_EXTENT_FRAMES);
        return;
    }
    for (uint64_t i = 0; i < HV_EXTENT_FRAMES; i += RELINQUISH_BATCH) {
        hv_mfn frames[RELINQUISH_BATCH];

        for (unsigned k = 0; k < RELINQUISH_BATCH; k++) {
            frames[k].v = mfn.v + i + k;
        }
        put_frames(memory, frames, RELINQUISH_BATCH);
    }
    count_gone(memory, HV_EXTENT_FRAMES);
}

/* Up to a batch of leaves from @first, all in one extent. */
static void relinquish_some(struct hv_memory *memory, hv_gfn first, uint64_t count)
{
    hv_mfn frames[RELINQUISH_BATCH];
    size_t found = 0, shared = 0;

    for (uint64_t i = 0; i < count; i++) {
        struct hv_leaf leaf = hv_p2m_lookup(&memory->p2m, (hv_gfn){first.v + i});

        if (hv_leaf_has_frame(leaf)) {
            frames[found++] = leaf.mfn;
            shared += leaf.kind == HV_LEAF_SHARED;
        }
    }
    clear_leaves(memory, first, count);
    for (size_t i = 0; i < found; i++) {
        put_types(memory, frames[i]);
    }
    put_frames(memory, frames, found);
    /* The claims of shared pages went with the others. */
    count_gone(memory, found - shared);
}

/* From an extent without a table, at most so many, to the next that has one. */
static void skip_holes(struct hv_memory *memory)
{
    unsigned looks = 0;

    do {
        memory->relinquished = hv_align_up(memory->relinquished + 1, HV_EXTENT_FRAMES);
        looks++;
    } while (looks < RELINQUISH_LOOKS && memory->relinquished < memory->p2m.frames &&
             !hv_p2m_covers(&memory->p2m, (hv_gfn){memory->relinquished}));
}

/* Give back what stands from memory->relinquished on, at most to the end of its extent. */
static uint64_t relinquish_step(struct hv_memory *memory, uint64_t budget)
{
    hv_gfn first = {memory->relinquished};
    uint64_t offset = first.v % HV_EXTENT_FRAMES;
    uint64_t count = HV_EXTENT_FRAMES - offset;
    hv_mfn mfn;

    if (!hv_p2m_covers(&memory->p2m, first)) {
        skip_holes(memory);
        return 1; /* looking is work, too */
    }
    if (offset == 0 && budget >= HV_EXTENT_FRAMES && maps_whole_extent(memory, first, &mfn)) {
        relinquish_whole(memory, first, mfn);
    } else {
        count = count < RELINQUISH_BATCH ? count : RELINQUISH_BATCH;
        count = count < budget ? count : budget;
        relinquish_some(memory, first, count);
    }
    memory->relinquished += count;
    return count;
}

/* Less than an extent, where one begins, is left to the next call, which can give it back whole. */
static bool is_left_to_next(const struct hv_memory *memory, uint64_t budget)
{
    return budget < HV_EXTENT_FRAMES && memory->relinquished % HV_EXTENT_FRAMES == 0;
}

int hv_memory_relinquish(struct hv_memory *memory, uint64_t budget)
{
    bool by_extents = budget >= HV_EXTENT_FRAMES;

    if (!memory->settled) {
        settle(memory);
    }
    while (memory->relinquished < memory->p2m.frames) {
        if (budget == 0 || (by_extents && is_left_to_next(memory, budget))) {
            return -EAGAIN;
        }
        budget -= relinquish_step(memory, budget);
    }
    return 0;
}

int hv_memory_dismantle(struct hv_memory *memory, uint64_t budget)
{
    return hv_p2m_free_tables(&memory->p2m, &memory->dismantled, budget);
}
