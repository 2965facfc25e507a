/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Who sees to it that no mapper writes through a stale translation once a page has changed its type.
 *
 * Only one way is the product's: `taint`, which an arena has from its creation. The others are what
 * was proposed instead, each right, for tests and benches that compare them; the wrong ways stand
 * with the tests (tests/lib/foreign-wrong.h). All are searched by tests/model/foreign.pml.
 *
 *                  at each unmap of a writable page       at a change of type
 *   taint          nothing                                a tainted frame: all mappers, filtered
 *   all-filtered   nothing                                all mappers, filtered
 *   put-flush      all mappers, unfiltered                nothing
 *   mask-locked    its bit in a mask of the owner         those of the mask, whose bits are cleared
 *                                                         first, under a lock held over the flush
 *   double-buffer  its bit in the owner's active mask     those of both masks, filtered; bits leave
 *                                                         the idle mask with a flush since the swap
 *
 * “Filtered” means by the stamp of the frame (mem/tlb-holder.h).
 */
#pragma once

#include "mem/arena-private.h"
#include "mem/memory.h"

struct hv_foreign_strategy {
    const char *name;
    bool masks; /* it keeps masks of mappers: arena->masks */
    /**
     * @mapper gives up its translation of a page of @owner's that it could write: its handle has it
     * no more, its type reference is still held. The owner may be gone.
     *
     * NULL: nothing to do. Context: the mapper's thread, OUTSIDE; may wait as HV_RANK_FLUSH_WAIT.
     */
    void (*unmap)(struct hv_arena *arena, uint16_t owner, const struct hv_holder *mapper);
    /**
     * A frame of @memory's leaves its old use, @old its type word, last put before @stamp: mappers
     * that may write it still are flushed when this returns.
     *
     * Returns true when every mapper was, so that the frame's taint may go.
     * Context: OUTSIDE; waits as HV_RANK_FLUSH_WAIT.
     */
    bool (*change)(struct hv_arena *arena, struct hv_memory *memory, uint64_t old, uint64_t stamp);
};

extern const struct hv_foreign_strategy hv_foreign_taint;

/* All right ones, the product's first. */
#define HV_FOREIGN_STRATEGIES 5
extern const struct hv_foreign_strategy *const hv_foreign_strategies[HV_FOREIGN_STRATEGIES];

/* Mappers that had pages of an owner, by their bits. Owners may share one: that flushes too much. */
struct HV_ALIGNED(HV_CACHE_LINE) hv_foreign_mask {
    struct hv_lock lock; /* HV_RANK_FOREIGN: held over the flush of a change, mask-locked only */
    /* Atomic: mask-locked uses the first alone. */
    _Atomic uint64_t bits[2];
    /* Atomic, double-buffer only: which one unmaps add to. */
    _Atomic uint32_t active;
    /* Atomic: one thread at a time sweeps, and owns the time of the last swap. */
    _Atomic uint32_t sweeping;
    uint64_t swapped;
};

/** The mask of @owner; the arena's strategy keeps masks. */
struct hv_foreign_mask *hv_foreign_mask(struct hv_arena *arena, uint16_t owner);

/** NULL is accepted. */
void hv_foreign_masks_destroy(struct hv_foreign_mask *masks);

/**
 * Choose another strategy than `taint`, for tests and benches: before the first mapper and domain.
 *
 * Returns 0 or -ENOMEM.
 */
HV_MUST_CHECK int hv_arena_set_strategy(struct hv_arena *arena,
                                        const struct hv_foreign_strategy *strategy);
