/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * From a RIP to the block there: a per-vCPU cache keyed by RIP, and behind it the fetch TLB and the
 * domain's block cache.
 *
 *   entry   rip | stamp = (fetch_generation, key) | first micro-operation
 *
 * An entry counts only while the vCPU's stamp for its half of addresses is the one it was made
 * under, so that a changed translation or mode needs no sweep; a block that was taken out since is
 * recognised by the label of its first micro-operation.
 */
#pragma once

#include "engine/soft/uop.h"

#define SOFT_JUMPS       4096u
/* No vCPU has this stamp: generations begin at 1. A cache that nobody has used is of zeros, which cost
 * the host no memory. */
#define SOFT_STAMP_NEVER UINT64_C(0)

struct soft_jump {
    uint64_t rip;
    uint64_t stamp;
    const struct soft_uop *uop;
    uint64_t unused;
};

struct soft_jump_cache {
    struct soft_jump jump[SOFT_JUMPS];
    /* Where the run loop started blocks, newest at count - 1: for crash reports. Blocks that others
     * lead to without leaving the interpreter are not in it: to record those too, the loops of
     * soft-loops take 3 % longer in the mean and the one of the shortest blocks 13 %. With
     * vcpu->trace_blocks no block leads to another. */
    uint64_t trace_rip[HV_ENGINE_TRACE_BLOCKS];
    uint64_t traced;
};

static inline struct soft_jump *soft_jump_slot(struct soft_jump_cache *cache, uint64_t rip)
{
    return &cache->jump[(rip ^ (rip >> 12)) & (SOFT_JUMPS - 1)];
}

/** One vCPU's cache, which knows nothing. -ENOMEM. */
HV_MUST_CHECK int soft_jumps_create(struct soft_jump_cache **cache_out);
/** NULL is accepted. */
void soft_jumps_destroy(struct soft_jump_cache *cache);

/** Forget all: before the memory of blocks is used again. */
void soft_jumps_clear(struct soft_jump_cache *cache);

/** What is remembered for @rip was taken out of the cache of blocks. */
static inline void soft_jump_forget(struct soft_jump_cache *cache, uint64_t rip)
{
    soft_jump_slot(cache, rip)->stamp = SOFT_STAMP_NEVER;
}

/**
 * The block at @rip, when one is known and the fetch TLB has its page: put into the jump cache.
 *
 * Returns its first micro-operation; NULL when the run loop must look (translate, raise a fault),
 * and then the mode may be OUTSIDE: the page was not populated.
 */
const struct soft_uop *soft_jump_find(struct hv_engine_vcpu *vcpu, uint64_t rip);

/** As soft_jump_find(), for a block that leads to @rip: NULL, too, when the run loop is to record it. */
const struct soft_uop *soft_jump_onward(struct hv_engine_vcpu *vcpu, uint64_t rip);

/** As soft_jump_onward(), and link @branch to what was found when both are of one page. */
const struct soft_uop *soft_jump_link(struct hv_engine_vcpu *vcpu, uint64_t rip,
                                      const struct soft_uop *branch, enum soft_link_index which);

/** The stamp of the present fetch_generation and key. */
static inline void soft_jump_restamp(struct hv_engine_vcpu *vcpu)
{
    for (unsigned half = 0; half < 2; half++) {
        vcpu->stamp[half] = vcpu->fetch_generation[half] << SOFT_KEY_BITS | vcpu->key;
    }
}

/** Derive key and stamp from the vCPU's registers, and the TLB's view. */
void soft_jump_refresh(struct hv_engine_vcpu *vcpu);
