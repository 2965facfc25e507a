/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Magazines: a thread's own store of free single frames. While one lasts, allocating and freeing
 * takes no lock and writes no line that another thread writes.
 *
 *     hv_heap_free_frame() --push--> [ two magazines of 64 ] --pop--> hv_heap_alloc_frame()
 *     both full: one is emptied into the shards;    both empty: one is loaded from a shard
 *
 * Two, so that a thread that goes back and forth over the edge of one does not load and empty it each
 * time. A magazine is an array and one word; only the owner pushes and pops, anybody takes all:
 *
 *     word   31 TAKEN   30:8 credit   7:0 count
 *
 *     {n}   --push, owner--> {n+1}      slot n is written, then the compare-and-swap
 *     {n+1} --pop, owner-->  {n}        slot n is read, then the compare-and-swap
 *     {n}   --take, anybody--> {n,TAKEN} --the slots are copied, by the same--> {0}
 *
 * Who can find no frame elsewhere takes the magazines of others, whatever those are doing, asleep
 * or amid a push: nobody waits for anybody, so that there is no order of locks to keep and no quiet
 * moment to wait for. An owner whose magazine is TAKEN goes to its other one, or to a shard.
 *
 * Invariants:
 *   (1) only the owner raises the count. Between its look at the word and its compare-and-swap
 *       others can only make it TAKEN, and then 0: the word cannot go and come back, so that a
 *       swap that succeeds finds the slot as it was read, and no generation is needed
 *       (tests/model/magazine.pml: without TAKEN a frame is had twice);
 *   (2) slots below n of {n,TAKEN} are not written: the owner writes only slot n of an {n} it saw;
 *   (3) a frame in a magazine is free: it keeps NEED_SCRUB and NEED_FLUSH in its count word, and is
 *       made zero and flushed for when it is popped. `stamp` is not older than any free into it;
 *   (4) the credit is of frames that were freed into it and are not yet in heap->unclaimed: it is
 *       booked when 64 have come together, with every take, and for a claim that would fail
 *       without it. From before it leaves the word until it is booked, heap->crediting is not zero:
 *       a claim that finds no credit in any word, then nobody crediting, and then too little
 *       unclaimed, may fail (tests/model/magazine-credit.pml);
 *   (5) a push is not noted as a return (hv_heap_note_return()), but the booking of its credit is.
 *       A searcher that looked before the push can come to miss that frame only when another one
 *       is allocated by a claim that it allowed, and so after the booking.
 *
 * Source: J. Bonwick, J. Adams, "Magazines and Vmem", USENIX 2001 (loaded and previous magazine;
 * here the depot is the shards, because only there 512 frames become an extent again).
 */
#pragma once

#include "sync/atomic.h"

#include <hv/types.h>

struct hv_heap;

#define HV_MAGAZINE_FRAMES       64u
/* Threads of a heap that can have magazines, as many as there can be workers; more go to the shards. */
#define HV_MAGAZINE_OWNERS       256u

#define HV_MAGAZINE_TAKEN        (UINT32_C(1) << 31)
#define HV_MAGAZINE_CREDIT_SHIFT 8
#define HV_MAGAZINE_CREDIT_ONE   (UINT32_C(1) << HV_MAGAZINE_CREDIT_SHIFT)

static inline uint32_t hv_magazine_count(uint32_t word)
{
    return word & (HV_MAGAZINE_CREDIT_ONE - 1);
}

static inline uint32_t hv_magazine_credit(uint32_t word)
{
    return (word & ~HV_MAGAZINE_TAKEN) >> HV_MAGAZINE_CREDIT_SHIFT;
}

struct hv_magazine {
    /* Atomic. */
    _Atomic uint32_t word;
    _Atomic uint32_t frames[HV_MAGAZINE_FRAMES];
    /* The owner's: flush time of the newest free into it; 0: flushed since. */
    uint64_t stamp;
};

/* Those of one thread. */
struct HV_ALIGNED(HV_CACHE_LINE) hv_magazines {
    /* Atomic: hv_thread_id() of the owner; 0: none. */
    _Atomic uint64_t owner;
    /* The owner's. */
    unsigned loaded; /* the one of `each` it pushes to and pops from */
    struct hv_magazine each[2];
    /* Counters, written by the owner. */
    _Atomic uint64_t loads, empties;
};

/* Frames between magazine and shard, in one thread's hands. */
struct hv_frame_batch {
    unsigned count;
    hv_mfn frames[HV_MAGAZINE_FRAMES];
    uint64_t stamp; /* newest flush time of those that need a flush; 0: none does */
};

/** The calling thread's magazines of this heap, or NULL. */
struct hv_magazines *hv_magazines_own(const struct hv_heap *heap);

/**
 * Owner: a frame, and the stamp to flush by before its use (0: none), which is then the caller's to
 * do at once. False when both are empty.
 */
HV_MUST_CHECK bool hv_magazines_pop(struct hv_heap *heap, struct hv_magazines *own, hv_mfn *mfn_out,
                                    uint64_t *stamp_out);

/** Owner: a free frame. Takes HV_RANK_HEAP when one must be emptied. */
void hv_magazines_push(struct hv_heap *heap, struct hv_magazines *own, hv_mfn mfn);

/**
 * Owner: load frames of a shard, flushed for, which count as moving until then. When there is no
 * room, because somebody is just taking what there was, they go back.
 */
void hv_magazines_load(struct hv_heap *heap, struct hv_magazines *own,
                       struct hv_frame_batch *batch);

/**
 * Anybody: have one frame of some magazine, anybody's, and give the rest of it back to the shards.
 * The stamp as for hv_magazines_pop(). False when all are empty.
 */
HV_MUST_CHECK bool hv_magazines_steal(struct hv_heap *heap, hv_mfn *mfn_out, uint64_t *stamp_out);

/** Anybody: give all frames of all magazines back to the shards. Returns how many. */
uint64_t hv_magazines_drain(struct hv_heap *heap);

/**
 * Anybody: book all credit in heap->unclaimed. True when there was some, or somebody was about to book
 * it, who is waited for: look at it anew. False: all that there was before the call stands in it.
 */
HV_MUST_CHECK bool hv_magazines_collect(struct hv_heap *heap);

/** Frames in all magazines, and those of them that heap->unclaimed does not know. Moving targets. */
void hv_magazines_sum(const struct hv_heap *heap, uint64_t *frames_out, uint64_t *credit_out);
