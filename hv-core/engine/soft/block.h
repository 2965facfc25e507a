/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The block cache as the translator and the run loop see it; code.h is what others see.
 *
 * The life of a page that holds code:
 *
 *     absent --soft_code_open--> SEALING --soft_code_seal--> SEALED --(store without blocks left,
 *                                   |                          |       or recycling)--> absent
 *                                   '--soft_code_revoke--------+--soft_code_revoke--> absent
 *
 * A block is built from a copy of the page's bytes, and inserted only when no store to the page came
 * in between (the serial). A store is reported after it was made: either the copy has it, or the
 * report finds the block, or the report moves the serial before the insertion.
 *
 * Memory: 16 segments of 1 MiB, filled in turn. When all are full the oldest is emptied: its blocks
 * are taken out, every other vCPU acknowledges HV_REQUEST_CODE or is OUTSIDE, and it is filled anew
 * (decisions D4, D23).
 */
#pragma once

#include "engine/soft/code.h"
#include "engine/soft/uop.h"

/** vCPU @index may hold blocks from now on; it serves HV_REQUEST_CODE by soft_code_acknowledge(). */
void soft_code_add_vcpu(struct soft_code *code, unsigned index, struct hv_doorbell *bell);
void soft_code_remove_vcpu(struct soft_code *code, unsigned index);

/** The vCPU holds no pointer to any block. Its jump cache was cleared. */
void soft_code_acknowledge(struct soft_code *code, unsigned index);

/** The first block at @gpa for @key, or NULL. Lock-free; context: IN_GUEST. */
const struct soft_block *soft_code_find(const struct soft_code *code, hv_gpa gpa, uint32_t key);
/** The next one at the same address: crossing blocks differ in their second page. */
const struct soft_block *soft_code_find_next(const struct soft_block *block);

/**
 * Is @gfn ready for blocks?
 *
 * Returns 0 with *serial_out for soft_code_insert(); -EAGAIN: the caller must go OUTSIDE and call
 * soft_code_seal(); -EBUSY: run uncached this time (somebody else seals it, or it is invalidated
 * over and over).
 */
HV_MUST_CHECK int soft_code_open(struct soft_code *code, hv_gfn gfn, uint64_t *serial_out);

/**
 * Seal it after soft_code_open() said -EAGAIN. Context: OUTSIDE, no lock.
 *
 * @self  the calling vCPU's holder: it drops its own write translations of the page afterwards.
 *
 * Returns 0; -EBUSY: run uncached; another negative errno from mem.
 */
HV_MUST_CHECK int soft_code_seal(struct soft_code *code, hv_gfn gfn, const struct hv_holder *self);

/* What soft_code_insert() makes a block of. */
struct soft_block_plan {
    hv_gpa gpa;
    uint64_t second_gfn; /* UINT64_MAX unless it crosses */
    uint64_t serial[2];  /* of the pages, from soft_code_open() */
    uint32_t key;
    unsigned code_bytes;
    unsigned insns;
    const struct soft_uop *uop;
    unsigned uops;
    const struct soft_links *links;
    const struct soft_call *call; /* until insertion uop.imm is the call's index in it … */
    unsigned calls;
    const void *function; /* … in micro-operations with this label */
};

/**
 * Publish a block.
 *
 * Returns 0 and *block_out; -EAGAIN when a store came in between: build it again; -ENOSPC when the
 * cache is full: soft_code_recycle() first.
 */
HV_MUST_CHECK int soft_code_insert(struct soft_code *code, const struct soft_block_plan *plan,
                                   const struct soft_block **block_out);

/** Fill @block, soft_block_bytes() large, from @plan. For blocks outside the cache too. */
void soft_block_fill(struct soft_block *block, const struct soft_block_plan *plan);
size_t soft_block_bytes(const struct soft_block_plan *plan);

/** Empty the oldest segment. @index is the caller's, whose jump cache it has cleared. OUTSIDE. */
void soft_code_recycle(struct soft_code *code, unsigned index);

/**
 * Empty the whole cache and keep it empty until soft_code_reopen(). @index and context as above.
 *
 * Returns true when afterwards no vCPU holds a block, nor a micro-operation of one it is making
 * that can become part of one; false, with nothing done: another vCPU recycles.
 */
HV_MUST_CHECK bool soft_code_empty(struct soft_code *code, unsigned index);
void soft_code_reopen(struct soft_code *code);

/** Link @branch to @to, unless @to was taken out meanwhile. Both are of one page. */
void soft_code_link(struct soft_code *code, const struct soft_uop *branch,
                    enum soft_link_index which, const struct soft_uop *to);
