/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Parts of a domain's memory that its files share. */
#pragma once

#include "mem/frame-private.h"
#include "mem/memory.h"

/** The domain's TLBs that may hold entries, but for the caller's own, @self (may be NULL). */
static inline uint64_t hv_memory_flush_mask(const struct hv_memory *memory,
                                            const struct hv_holder *self)
{
    /* Pairs with hv_memory_mark_dirty(). */
    uint64_t mask = hv_load_seq(&memory->dirty_mask);

    return self ? mask & ~((uint64_t)1 << self->index) : mask;
}

/**
 * Take @frame WRITABLE although it is sealed as CODE: have its blocks revoked, new seals refused
 * meanwhile. Errors as hv_frame_type_take(). Context: no lock held.
 */
HV_MUST_CHECK int hv_memory_take_from_code(struct hv_memory *memory, struct hv_frame *frame,
                                           bool foreign, struct hv_frame_taken *taken_out);

/** No new seal from here on, and none half done, until hv_memory_allow_seals(). Counted. */
void hv_memory_refuse_seals(struct hv_memory *memory);
void hv_memory_allow_seals(struct hv_memory *memory);

/**
 * Have the blocks of a page revoked until it is no longer sealed as CODE. Seals are refused.
 * -EBUSY when a hold stays. Context: no lock held, no change of the extent begun.
 */
HV_MUST_CHECK int hv_memory_revoke_code(struct hv_memory *memory, hv_gfn gfn);

/** The memory ends: no mapper has a right to it any more. Locks: HV_RANK_LEAF. */
void hv_foreign_revoke_all(struct hv_memory *memory);

/** The memory takes no more allocations. Any thread. */
static inline bool hv_memory_dying(const struct hv_memory *memory)
{
    return hv_load_seq(&memory->dying);
}

/** A mapper holds it, and lets go. The latter may be the end of the memory. */
HV_MUST_CHECK int hv_memory_hold(struct hv_memory *memory);
void hv_memory_release(struct hv_memory *memory);

/** Between these, by one who holds it, its tables stay. -ECANCELED when its owner is dying. */
HV_MUST_CHECK int hv_memory_enter(struct hv_memory *memory);
void hv_memory_leave(struct hv_memory *memory);

/**
 * Hold the frame of a page that has one, by a general reference.
 *
 * @populate  fill the page first when it is UNPOPULATED; else that kind is given, without frame.
 *
 * Returns 0; -ENOENT when nothing but a device or a hole stands there; -ECANCELED when the memory is
 * dying; -ENOMEM; -EOVERFLOW. Context: OUTSIDE, no lock held.
 */
HV_MUST_CHECK int hv_memory_get_page(struct hv_memory *memory, hv_gfn gfn, bool populate,
                                     struct hv_leaf *leaf_out);

/**
 * The same with a WRITABLE type reference as well, dropped before the general one: the page is filled,
 * parted from those it is shared with, its code revoked, as need be.
 *
 * @foreign  as in struct hv_frame_access.
 *
 * Returns 0; -EPERM for ROM; -EBUSY when it is sealed for good; else as hv_memory_get_page().
 * Context: OUTSIDE, no lock held; waits as HV_RANK_FLUSH_WAIT.
 */
HV_MUST_CHECK int hv_memory_get_writable_page(struct hv_memory *memory, hv_gfn gfn, bool foreign,
                                              hv_mfn *mfn_out);

/** All of the domain's own TLBs, whatever their age, and wait. Context: OUTSIDE; FLUSH_WAIT. */
void hv_memory_flush_all(struct hv_memory *memory);

/**
 * Give the frame of a leaf, which is WRITABLE or SEALED, the other type, having one reference of it.
 * Its put and get are one step to whoever changes leaves; when a getter of a type without a leaf comes
 * between, the frame stays what it was: false. Holds the p2m's lock.
 */
HV_MUST_CHECK bool hv_memory_swap_type_locked(struct hv_memory *memory, hv_mfn mfn,
                                              enum hv_frame_type type, unsigned reason,
                                              struct hv_frame_taken *taken_out);

/* One extent of gfns under change: filled, or given another kind. Lives on the changer's stack. */
struct hv_memory_change {
    struct hv_list link;
    uint64_t extent;
};

/**
 * Have the extent for oneself, waiting for another's change. -ECANCELED when dying.
 * Context: OUTSIDE, no lock held.
 */
HV_MUST_CHECK int hv_memory_change_begin(struct hv_memory *memory, struct hv_memory_change *change,
                                         uint64_t extent);
void hv_memory_change_end(struct hv_memory *memory, struct hv_memory_change *change);

/** Wait until no extent is under change. The memory is dying, so that none begins. */
void hv_memory_await_changes(struct hv_memory *memory);
