/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The memory of one domain: its p2m, its claim, its vCPUs' holders, its dirty epochs. Embedded in
 * struct hv_domain; reached by engines through the pointer given at their creation.
 *
 * RAM is UNPOPULATED until the first touch: hv_memory_fill() then allocates the whole extent, so
 * that a machine costs what it uses and is freed by whole extents.
 */
#pragma once

#include "mem/arena.h"
#include "mem/p2m.h"
#include "mem/tlb-holder.h"

#include <hv/guest-copy.h>

struct hv_memory;

/*
 * What mem calls upward, given at init; with no lock held.
 */
struct hv_memory_hooks {
    /**
     * Blocks decoded from the frame must go: somebody wants to write it. Unlinks and frees them,
     * then drops the frame's SEALED{CODE} reference. NULL when the domain has no block cache.
     */
    void (*revoke_code)(void *context, hv_gfn gfn);
};

struct hv_dirty_log; /* mem/dirty.h */

struct hv_memory {
    /* Set at creation. */
    struct hv_arena *arena; /* borrowed */
    uint16_t owner;         /* domain id in the frame table */
    const struct hv_memory_hooks *hooks;
    void *hook_context;
    struct hv_p2m p2m;
    /* Guarded by page_lock (HV_RANK_PAGE_ALLOC). */
    struct hv_lock page_lock;
    uint64_t claimed_frames; /* of the claim, not yet allocated */
    uint64_t populated_frames;
    bool dying; /* refuses any further allocation */
    /* vCPU holders: written at vCPU creation, before any runs. */
    struct hv_holder *holder[HV_MAX_VCPUS];
    /* Atomic: bit i set before vCPU i first looks up (D3: owner.dirty). */
    _Atomic uint64_t dirty_mask;
    _Atomic uint64_t epoch;
    _Atomic(struct hv_dirty_log *) dirty_log;
    struct hv_flush_counters flushes;
    _Atomic uint64_t type_changes;
};

/**
 * Make the memory of a domain: claims @bytes, no RAM mapped yet.
 *
 * Returns 0; -EINVAL for 0, an odd size, or more than the arena; -ENOMEM when the claim fails.
 */
HV_MUST_CHECK int hv_memory_init(struct hv_memory *memory, struct hv_arena *arena, uint16_t owner,
                                 uint64_t bytes, const struct hv_memory_hooks *hooks,
                                 void *hook_context);

/**
 * Tear down in bounded steps: puts the references of up to @budget frames, whole extents first.
 *
 * Returns 0 when nothing is left; -EAGAIN when called again goes on. No vCPU may run.
 */
HV_MUST_CHECK int hv_memory_relinquish(struct hv_memory *memory, uint64_t budget);

/** Free what is left after hv_memory_relinquish() said 0. */
void hv_memory_finish(struct hv_memory *memory);

/** Declare [first, first + count) as RAM, unpopulated until touched. -EINVAL, -ENOMEM, -ENOSPC. */
HV_MUST_CHECK int hv_memory_add_ram(struct hv_memory *memory, hv_gfn first, uint64_t count);

/** Declare [first, first + count) as a kind without frames (MMIO, HOLE). Flushes when it changed. */
HV_MUST_CHECK int hv_memory_set_kind(struct hv_memory *memory, hv_gfn first, uint64_t count,
                                     enum hv_leaf_kind kind);

/**
 * Populate the extent of an UNPOPULATED leaf and look it up again.
 *
 * Returns 0 and *leaf_out; -ENOMEM when the host has no memory: the domain pauses with that reason.
 * Context: OUTSIDE, no lock held; may block. Two vCPUs that fill one extent populate it once.
 */
HV_MUST_CHECK int hv_memory_fill(struct hv_memory *memory, hv_gfn gfn, struct hv_leaf *leaf_out);

/**
 * Seal a RAM page as CODE before blocks of it are published: read-only leaf, type change, flush of
 * the domain's vCPUs and of mappers.
 *
 * Returns 0 (the caller then owns one SEALED{CODE} hold per gfn, dropped by hv_memory_unseal());
 * -EBUSY when the frame is pinned: run uncached; -EAGAIN when a flush was waited for and pointers
 * are stale (the seal stands).
 */
HV_MUST_CHECK int hv_memory_seal_code(struct hv_memory *memory, hv_gfn gfn);

/** The last block of the page is gone: make the leaf RAM again. */
void hv_memory_unseal_code(struct hv_memory *memory, hv_gfn gfn);

/** Register the holder of vCPU @index, once, before it runs. */
void hv_memory_add_holder(struct hv_memory *memory, unsigned index, struct hv_holder *holder);

/** Mark vCPU @index's holder as having looked up: pairs with the mask read of a flush. */
static inline void hv_memory_mark_dirty(struct hv_memory *memory, unsigned index)
{
    uint64_t bit = (uint64_t)1 << index;

    if (!(hv_load_relaxed(&memory->dirty_mask) & bit)) {
        hv_or_seq(&memory->dirty_mask, bit);
    }
}

/** Flush all of the domain's own TLBs, whatever their age, and wait. OUTSIDE; FLUSH_WAIT. */
void hv_memory_flush_all(struct hv_memory *memory);

/** Note a store to @gfn for the dirty log; one load when none is kept. Any writer calls it (D5). */
void hv_memory_note_write(struct hv_memory *memory, hv_gfn gfn);

/** hv_guest_copy() for one who has the memory at hand; same contract. */
HV_MUST_CHECK int hv_memory_copy(struct hv_memory *memory, hv_gpa gpa, void *buffer, uint64_t bytes,
                                 enum hv_copy_direction direction);
