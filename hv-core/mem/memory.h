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
#include "mem/holds.h"
#include "mem/p2m.h"
#include "mem/page-census.h"
#include "mem/tlb-holder.h"
#include "sync/eventcount.h"

#include <hv/guest-copy.h>

struct hv_memory;

/*
 * What mem calls upward, given at init; with no lock held.
 */
struct hv_memory_hooks {
    /**
     * Blocks decoded from the page must go: somebody wants to write it, or it leaves the p2m.
     * Unlinks them, drops their hold by hv_memory_unseal_code(), and makes a block whose page was
     * sealed before this call but is not yet inserted give up its hold instead. Called again when
     * a hold is still there. NULL when the domain has no block cache.
     */
    void (*revoke_code)(void *context, hv_gfn gfn);
    /**
     * A mapper is about to hold pages: what the memory stands in stays until it lets go, relinquished
     * or not. 0, or -EOVERFLOW when too many do. Both NULL: the owner sees to that in another
     * way, and not by `held_frames`, after whose fall the memory is looked at once more.
     */
    int (*hold)(void *context);
    /**
     * It looks pages up, from here to leave(): no table goes meanwhile, nor anything that is called
     * here or flushed. 0, or -ECANCELED when the owner is dying. Both may be NULL.
     */
    int (*enter)(void *context);
    void (*leave)(void *context);
    /** One has let go; `held_frames` says how much others hold. The memory may be no more afterwards. */
    void (*release)(void *context);
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
    uint64_t claimed_frames;    /* of the claim, not yet allocated */
    uint64_t undeclared_frames; /* of the claim, not yet declared as RAM */
    struct hv_list changes;     /* extents being filled or given another kind */
    /* Atomic: written under page_lock, read by anybody. */
    _Atomic uint64_t populated_frames;
    /* Atomic: refuses any further allocation. Set by anybody; who begins a change looks at it under
     * page_lock, so that taking that once is enough to have everybody know. */
    _Atomic uint32_t dying;
    /* Atomic: frames that mappers hold at present, each as often as it is mapped. */
    _Atomic uint64_t held_frames;
    /* Owned by the one thread that relinquishes: what it has done, and how far it came. */
    bool settled;
    uint64_t relinquished, dismantled;
    /* vCPU holders: written at vCPU creation, before any runs. */
    struct hv_holder *holder[HV_MAX_VCPUS];
    /* Atomic: bit i set before vCPU i first looks up (D3: owner.dirty). */
    _Atomic uint64_t dirty_mask;
    _Atomic uint64_t epoch;
    _Atomic(struct hv_dirty_log *) dirty_log;
    /* Atomic: writers inside hv_memory_note_write(), by the parity of the epoch they entered in. */
    _Atomic uint64_t noting[2];
    /* Atomic: who revokes CODE and must not be overtaken by a new seal. */
    _Atomic uint64_t write_wanted;
    /* A change of an extent ended, a hold was dropped, the last writer of an epoch left. */
    struct hv_eventcount changed;
    /* Guarded by the lock of the arena's holders: mappers that may map pages (mem/foreign.h), and,
     * read by anybody, how many of these they have mapped. */
    struct hv_list grants;
    struct hv_holds holds;
    struct hv_page_census census; /* of pages that nobody counts; on behalf of who asks */
    struct hv_flush_counters flushes;
    _Atomic uint64_t type_changes;
    _Atomic uint64_t foreign_maps, foreign_frames; /* mappings made by others, and their pages */
};

/**
 * Make the memory of a domain: claims @bytes, no RAM mapped yet.
 *
 * Returns 0; -EINVAL for 0, no multiple of 4 KiB, or more than the arena; -ENOMEM when the claim
 * fails. Nothing is left behind on failure.
 */
HV_MUST_CHECK int hv_memory_init(struct hv_memory *memory, struct hv_arena *arena, uint16_t owner,
                                 uint64_t bytes, const struct hv_memory_hooks *hooks,
                                 void *hook_context);

/** It takes no page from here on: who asks is told -ECANCELED. Context: any thread, any lock. */
void hv_memory_kill(struct hv_memory *memory);

/**
 * Tear down in bounded steps: puts the references of up to @budget frames, by whole extents where
 * they stand so and @budget is one at least.
 *
 * Returns 0 when nothing is left in the p2m; -EAGAIN when called again goes on. No vCPU may run.
 * The first call makes the memory dying, and waits for changes that began before. A frame that a
 * mapper still holds goes back to the heap with the mapper's last reference; until then the owner's
 * id must not be used again: hv_foreign_holds() names who keeps the zombie.
 */
HV_MUST_CHECK int hv_memory_relinquish(struct hv_memory *memory, uint64_t budget);

/**
 * Free the p2m's tables in bounded steps, up to @budget of them, after hv_memory_relinquish() said
 * 0. Nobody looks a page up any more. 0, or -EAGAIN when called again goes on.
 */
HV_MUST_CHECK int hv_memory_dismantle(struct hv_memory *memory, uint64_t budget);

/** Free what is left after hv_memory_relinquish() said 0. Mappers may hold frames still. */
void hv_memory_finish(struct hv_memory *memory);

/**
 * Declare [first, first + count) as RAM, unpopulated until touched.
 *
 * Returns 0; -EINVAL for a count of 0, a range that wraps or lies beyond the p2m (4 GiB and the
 * claim), or one that is not all HOLE; -ENOSPC beyond the claim; -ENOMEM; -ECANCELED when dying.
 */
HV_MUST_CHECK int hv_memory_add_ram(struct hv_memory *memory, hv_gfn first, uint64_t count);

/**
 * Declare [first, first + count) as a kind without frames (MMIO, HOLE). RAM that stood there is
 * given back to the heap, with its claim, once every vCPU has forgotten it.
 *
 * Returns 0; -EINVAL for a count of 0, a range that wraps or lies beyond the p2m, another kind;
 * -ENOMEM; -EBUSY when a hold on code there is not given up; -ECANCELED when dying. What was done
 * before the error stands.
 * Context: OUTSIDE, no lock held; waits as HV_RANK_FLUSH_WAIT.
 */
HV_MUST_CHECK int hv_memory_set_kind(struct hv_memory *memory, hv_gfn first, uint64_t count,
                                     enum hv_leaf_kind kind);

/**
 * Populate the extent of an UNPOPULATED leaf and look it up again.
 *
 * Returns 0 and *leaf_out (whatever stands there: another may have been faster); -ENOMEM when the
 * host has no memory: the domain pauses with that reason; -ECANCELED when the domain is dying.
 * Context: OUTSIDE, no lock held; may block. Two vCPUs that fill one extent populate it once.
 */
HV_MUST_CHECK int hv_memory_fill(struct hv_memory *memory, hv_gfn gfn, struct hv_leaf *leaf_out);

/**
 * Seal a RAM page as CODE before blocks of it are published: read-only leaf, type change, flush.
 *
 * @self  the calling vCPU's own holder, or NULL.
 *
 * Who flushes whom: every other vCPU of the domain, and every mapper when the frame is tainted, is
 * asked for a full flush and waited for, as far as its last flush is older than the seal. @self is
 * not asked: its thread drops its own write translations of this one page before it publishes a
 * block, which costs less than a full flush. With NULL the caller's vCPU is rung like the others.
 * Others may have asked the caller for a flush meanwhile, as in any time OUTSIDE: what
 * hv_doorbell_enter() says then stands, pointers are void, the instruction restarts.
 *
 * Holds are counted: each success is paired with one hv_memory_unseal_code(), so that a vCPU that
 * seals a page for its new block and another that drops the page's last block cannot undo each
 * other. A page of ROM needs no seal: 0, and its hold is nothing.
 *
 * Returns 0 and the caller owns one hold; -EBUSY when somebody else has it WRITABLE (pin, device
 * copy, foreign mapping) or wants it so: run uncached; -ENOENT when it is no populated RAM.
 * Context: OUTSIDE, no lock held; waits as HV_RANK_FLUSH_WAIT.
 */
HV_MUST_CHECK int hv_memory_seal_code(struct hv_memory *memory, hv_gfn gfn,
                                      const struct hv_holder *self);

/**
 * Drop one hold; with the last one the leaf is RAM again, without a flush: what is cached of a page
 * sealed as CODE only reads. Nothing happens when the page is no longer sealed, because it left the
 * p2m. Context: any thread that holds only locks of rank < HV_RANK_P2M; never waits for a vCPU.
 */
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

/**
 * Note a store to @gfn for the dirty log; one load when none is kept. Any writer calls it (D5): a
 * vCPU IN_GUEST before the store, when it fills a write translation that is good until it adopts
 * the next epoch; everybody else after the store. Never blocks.
 */
void hv_memory_note_write(struct hv_memory *memory, hv_gfn gfn);

/** hv_guest_copy() for one who has the memory at hand; same contract. */
HV_MUST_CHECK int hv_memory_copy(struct hv_memory *memory, hv_gpa gpa, void *buffer, uint64_t bytes,
                                 enum hv_copy_direction direction);
