/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The block cache from inside: its pages, its segments, its hash. Private to code*.c:
 *
 *     code.c           lookup, pages made ready, blocks put in
 *     code-drop.c      blocks taken out: by a store, by who wants the page
 *     code-recycle.c   the memory of blocks, and its use anew
 */
#pragma once

#include "engine/soft/block.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "sync/lock.h"

#define BUCKETS       16384u
#define PAGE_BUCKETS  4096u
#define SEGMENTS      16u
#define SEGMENT_BYTES ((size_t)1 << 20)
/* Invalidations after which a page runs uncached, and for how many lookups. */
#define HEAT_LIMIT    64u
#define SHUN_LOOKUPS  4096u
/* Blocks that a page keeps: several times what code that means well has there, in all its modes. One
 * more, and they all go: what is done under the lock for one store to it has a bound. */
#define PAGE_BLOCKS   4096u

enum page_state {
    PAGE_SEALING,
    PAGE_SEALED,
    PAGE_REVOKED, /* while its sealing was under way */
};

struct soft_page {
    uint64_t gfn;
    struct soft_page *next;
    struct soft_block *blocks;
    uint64_t serial; /* changes with every store */
    uint32_t chunks; /* bit per 128 bytes that blocks overlap */
    uint32_t count;  /* of blocks */
    uint16_t heat;
    uint16_t shun;
    enum page_state state;
};

struct segment {
    char *memory;
    size_t used;
};

struct soft_code {
    struct hv_memory *memory;
    const void *stale; /* label of taken-out blocks */
    struct hv_lock lock;
    /* Guarded by the lock. */
    struct soft_page *page[PAGE_BUCKETS];
    struct segment segment[SEGMENTS];
    unsigned current;
    bool recycling;
    uint64_t serial;
    uint64_t steps; /* list entries looked at to take blocks out: tests count them */
    struct hv_doorbell *bell[HV_MAX_VCPUS];
    /* Atomic: recycling number each vCPU has acknowledged; pairs with soft_code_recycle(). */
    _Atomic uint64_t seen[HV_MAX_VCPUS];
    _Atomic uint64_t recycled;
    _Atomic uint64_t bytes;
    _Atomic uint64_t invalidations;
    /* Atomic: heads of hash chains; written under the lock. */
    _Atomic(struct soft_block *) bucket[BUCKETS];
};

static inline unsigned soft_code_bucket(hv_gpa gpa, uint32_t key)
{
    uint64_t mixed = (gpa.v + key) * UINT64_C(0x9e3779b97f4a7c15);

    return (unsigned)(mixed >> 50);
}
HV_STATIC_ASSERT(BUCKETS == 1u << (64 - 50), "the hash gives a bucket");

static inline struct soft_page **soft_page_slot(struct soft_code *code, uint64_t gfn)
{
    struct soft_page **slot = &code->page[gfn % PAGE_BUCKETS];

    while (*slot && (*slot)->gfn != gfn) {
        slot = &(*slot)->next;
    }
    return slot;
}

static inline void soft_page_free(struct soft_page **slot)
{
    struct soft_page *page = *slot;

    *slot = page->next;
    hv_free(page);
}

static inline unsigned soft_block_side(const struct soft_block *block, uint64_t gfn)
{
    return hv_gpa_to_gfn(block->gpa).v == gfn ? 0 : 1;
}

/* First and one past the last byte of @block inside page @gfn. */
static inline void soft_block_extent(const struct soft_block *block, uint64_t gfn,
                                     uint64_t *first_out, uint64_t *end_out)
{
    uint64_t offset = hv_gpa_offset(block->gpa);
    uint64_t end = offset + block->code_bytes;

    if (soft_block_side(block, gfn) == 0) {
        *first_out = offset;
        *end_out = end < HV_PAGE_SIZE ? end : HV_PAGE_SIZE;
    } else {
        *first_out = 0;
        *end_out = end - HV_PAGE_SIZE;
    }
}

/** Bit i for chunk i, of those that [@first, @end) of a page touches. */
static inline uint32_t soft_chunks_of(uint64_t first, uint64_t end)
{
    unsigned low = (unsigned)(first / SOFT_CHUNK_BYTES);
    unsigned high = (unsigned)((end - 1) / SOFT_CHUNK_BYTES);

    HV_ASSERT(first < end && end <= HV_PAGE_SIZE);
    return (uint32_t)(((UINT64_C(2) << high) - 1) & ~((UINT64_C(1) << low) - 1));
}

static inline struct soft_links *soft_block_links(struct soft_block *block)
{
    return (struct soft_links *)(void *)&block->uop[block->uops];
}

static inline struct soft_block *soft_block_of(const struct soft_uop *first)
{
    return HV_CONTAINER_OF((uintptr_t)first, struct soft_block, uop);
}

/** Take blocks out of hash, pages and links: kill all that are to go, then bury each; in between the
 * lock is held. Their memory stays. */
void soft_code_kill_locked(struct soft_code *code, struct soft_block *block);
void soft_code_bury_locked(struct soft_code *code, struct soft_block *block);

/** Take out blocks of @page that overlap [first, end). Returns how many. */
unsigned soft_page_drop_locked(struct soft_code *code, struct soft_page *page, uint64_t first,
                               uint64_t end);

/** Memory of a segment that holds nothing yet, or NULL: recycle. Locked. */
struct soft_block *soft_code_take_memory(struct soft_code *code, size_t bytes);

/** Give the segment that is to be filled memory; it is asked for outside the lock. */
void soft_code_provide_segment(struct soft_code *code);
