/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Extents, shards and the steps between them.
 *
 *     RETURNED --populate--> (moving) --> OWNED | SPLIT
 *     CLEAN --------------> (moving) --> OWNED | SPLIT
 *     DIRTY ----scrub-----> (moving) --> OWNED
 *     DIRTY --------------> (moving) --> SPLIT, whose frames are scrubbed one by one
 *     DIRTY --hv_heap_scrub_spare--> (moving) --> CLEAN; DIRTY again when somebody wants it
 *     CLEAN | DIRTY --hv_heap_trim--> (moving) --> RETURNED
 *     OWNED --hv_heap_free_extent--> DIRTY
 *     OWNED | FULL --one frame freed--> SPLIT --the last one freed--> DIRTY (CLEAN: none was used)
 *     SPLIT --its last free frame allocated--> FULL
 *
 * Invariants:
 *   (1) RETURNED, CLEAN, DIRTY and SPLIT extents stand in that list of their shard, others in none;
 *   (2) the shard of an extent changes only while it is MOVING, in the hands of one thread;
 *   (3) `unclaimed` is the free frames less those claimed: it falls by a claim, rises by a free (of
 *       one into a magazine, later), and an allocation out of a claim leaves it alone;
 *   (4) who holds a claim finds memory: a search of all lists and magazines that found none is
 *       repeated while something came back since it began or is still moving
 *       (hv_heap_search_on());
 *   (5) only MOVING extents are scrubbed, populated or returned, with no lock held;
 *   (6) what is owed for a free frame stands in its count word, wherever the frame is: NEED_SCRUB
 *       until it is zero, NEED_FLUSH until mappers have forgotten it.
 */
#pragma once

#include "mem/arena-private.h"
#include "mem/frame-private.h"
#include "mem/heap.h"
#include "mem/magazine-private.h"

enum hv_extent_state {
    HV_EXTENT_STATE_CLEAN, /* the lists come first */
    HV_EXTENT_STATE_RETURNED,
    HV_EXTENT_STATE_DIRTY,
    HV_EXTENT_STATE_SPLIT, /* some frames are free */
    HV_EXTENT_LISTS,
    HV_EXTENT_STATE_FULL = HV_EXTENT_LISTS, /* split, no frame is free */
    HV_EXTENT_STATE_OWNED,
    HV_EXTENT_STATE_MOVING,
};

#define HV_EXTENT_NIL UINT32_MAX

struct hv_extent {
    /* Guarded by the shard's lock; the MOVING ones by who moves them. */
    uint32_t prev, next;
    uint16_t state; /* enum hv_extent_state */
    uint16_t shard; /* an index */
    uint16_t free;  /* SPLIT: frames in free_map */
    uint16_t dirty; /* SPLIT: those of them that need a scrub */
    uint64_t stamp; /* flush time of its newest free; 0: nothing to flush before reuse */
    uint64_t free_map[HV_EXTENT_FRAMES / 64];
};

/* Most shards: locks of disjoint data, so that destroyers of several domains do not meet. */
#define HV_HEAP_SHARDS 8

struct HV_ALIGNED(HV_CACHE_LINE) hv_shard {
    struct hv_lock lock; /* HV_RANK_HEAP */
    uint32_t head[HV_EXTENT_LISTS];
    /* Written under the lock, in frames. */
    _Atomic uint64_t clean, dirty, returned;
    _Atomic uint64_t clean_extents; /* in that list: of `clean`, without the frames of split ones */
    _Atomic uint64_t freed_extents; /* by hv_heap_free_extent(), so far */
};

/* What the background scrubber is at. */
enum hv_scrub_state {
    HV_SCRUB_IDLE,
    HV_SCRUB_BUSY,   /* it has an extent, or looks for one */
    HV_SCRUB_WANTED, /* somebody found no other: it is to give it up */
};

/* What is done to free memory in the background (mem/upkeep.h). */
enum hv_duty {
    HV_DUTY_SCRUB,
    HV_DUTY_RETURN,
    HV_DUTIES,
};

struct hv_heap {
    /* Set at creation. */
    struct hv_arena *arena;
    uint32_t extent_count;
    unsigned shard_count;
    struct hv_extent *extents;
    struct hv_shard *shards;
    struct hv_magazines *magazines; /* HV_MAGAZINE_OWNERS */
    /* Atomic. */
    HV_ALIGNED(HV_CACHE_LINE) _Atomic uint64_t unclaimed;
    _Atomic uint64_t returns;         /* how often something came into a list or a magazine */
    _Atomic uint64_t moving;          /* frames taken out of a list, neither owned nor back yet */
    _Atomic uint64_t backed;          /* extents in lists CLEAN and DIRTY */
    _Atomic uint64_t fewest_backed;   /* since hv_heap_fewest_backed() */
    _Atomic uint32_t magazine_owners; /* of `magazines`, from the first, that ever had one */
    _Atomic uint32_t crediting;       /* threads with a magazine's credit, about to be booked */
    _Atomic uint32_t scrub;           /* enum hv_scrub_state */
    _Atomic uint32_t duties_asleep;   /* a bit for each that waits for something to do */
    struct hv_doorbell duty_bell[HV_DUTIES];
    struct hv_eventcount settled;     /* fewer are moving */
    struct hv_flush_counters flushes; /* of reuse */
};

HV_MUST_CHECK int hv_heap_create(struct hv_arena *arena, struct hv_heap **heap_out);
/** NULL is accepted. */
void hv_heap_destroy(struct hv_heap *heap);

/** Put an extent that is in no list into that of @state. Holds its shard's lock. */
void hv_shard_insert_locked(struct hv_heap *heap, uint32_t extent, enum hv_extent_state state);
/** Take it out; it is MOVING then. Holds its shard's lock. */
void hv_shard_remove_locked(struct hv_heap *heap, uint32_t extent);

/** The shard an owner allocates from first. */
unsigned hv_heap_home(const struct hv_heap *heap, uint16_t owner);

/**
 * Take a free whole extent, CLEAN before DIRTY before RETURNED, from shard @home or else another's; it
 * belongs to @home then. HV_EXTENT_NIL when there is none. *was_out is the list it stood in.
 */
uint32_t hv_heap_take_extent(struct hv_heap *heap, unsigned home, enum hv_extent_state *was_out);
/** One that has host memory, DIRTY rather than CLEAN, of shard @from or the next; it stays there. */
uint32_t hv_heap_take_spare_extent(struct hv_heap *heap, unsigned from,
                                   enum hv_extent_state *was_out);
/** A DIRTY one, of shard @from or the next; it stays there. */
uint32_t hv_heap_take_dirty_extent(struct hv_heap *heap, unsigned from);
/** Put a MOVING extent into a list. */
void hv_heap_give_extent(struct hv_heap *heap, uint32_t extent, enum hv_extent_state state);
/** A MOVING extent has an owner now. */
void hv_heap_own_extent(struct hv_heap *heap, uint32_t extent);

/**
 * A search of the lists, each under its own lock, can miss what moves from one to another, and what
 * another thread splits or returns is in none. So it is repeated:
 *
 *     struct hv_heap_search search = {0};
 *     do {
 *         err = …;     -EAGAIN when no list has one
 *     } while (hv_heap_search_on(heap, &search, &err));
 */
struct hv_heap_search {
    bool listening; /* not in the first search, which mostly finds something */
    uint32_t ticket;
    uint64_t returns;
};
/** False when it is over; an -EAGAIN that stays has become -ENOMEM then. May wait. */
HV_MUST_CHECK bool hv_heap_search_on(struct hv_heap *heap, struct hv_heap_search *search,
                                     int *err_inout);

/** Something came into a list; before `unclaimed` rises. */
static inline void hv_heap_note_return(struct hv_heap *heap)
{
    /* Pairs with hv_heap_search_on(). */
    hv_add_seq(&heap->returns, 1);
}

/** Free frames are in the caller's hands. Before they can be missed where they were. */
static inline void hv_heap_hold(struct hv_heap *heap, uint64_t frames)
{
    /* Pairs with hv_heap_search_on(). */
    hv_add_seq(&heap->moving, frames);
}
/** No longer: they have an owner, or are back and their return is noted. */
void hv_heap_let_go(struct hv_heap *heap, uint64_t frames);

/** A MOVING extent: make it zero and backed by host memory. -ENOMEM: it is back in its list. */
HV_MUST_CHECK int hv_heap_make_ready(struct hv_heap *heap, uint32_t extent,
                                     enum hv_extent_state was);

/**
 * Free frames, in any order, into the lists of their extents: one lock operation a run of extents of
 * one shard. The order of the batch is lost.
 */
void hv_heap_put_back(struct hv_heap *heap, struct hv_frame_batch *batch);

/** Zero a free frame that is in nobody's hands but the caller's, if it is owed that. */
void hv_heap_scrub_frame(struct hv_heap *heap, hv_mfn mfn);
/** As above for all frames of a MOVING extent. */
void hv_heap_scrub_extent(struct hv_heap *heap, uint32_t extent);
/** The frames of a MOVING extent are zero and forgotten: nothing is owed for them. */
void hv_heap_mark_clean(struct hv_heap *heap, uint32_t extent);

enum hv_scrubbed {
    HV_SCRUBBED_NONE,    /* no extent is dirty */
    HV_SCRUBBED_EXTENT,  /* one fewer is */
    HV_SCRUBBED_GAVE_UP, /* it was wanted amid: some of its frames are zero */
};
/** Scrub one dirty extent, past the caches. One thread at a time; waits for mappers. */
enum hv_scrubbed hv_heap_scrub_spare(struct hv_heap *heap);

/** The fewest extents that were CLEAN or DIRTY at any moment since the last call. */
uint64_t hv_heap_fewest_backed(struct hv_heap *heap);

/** The shard with most free frames that have host memory, or of them most dirty ones. A guess. */
unsigned hv_heap_richest_shard(const struct hv_heap *heap, bool dirty_only);

/** Have mappers forget what they knew of frames freed at @stamp or before; 0: nothing to do. */
void hv_heap_flush_reused(struct hv_heap *heap, uint64_t stamp);
/** The same for a MOVING extent, once. */
void hv_heap_flush_extent(struct hv_heap *heap, uint32_t extent);

/** True when mappers may still know the free frame. */
static inline bool hv_heap_owes_flush(const struct hv_heap *heap, hv_mfn mfn)
{
    return hv_load_seq(&hv_arena_frame(heap->arena, mfn)->count) & HV_FRAME_NEED_FLUSH;
}

static inline hv_mfn hv_extent_first(uint32_t extent)
{
    return (hv_mfn){(uint64_t)extent * HV_EXTENT_FRAMES};
}

static inline uint32_t hv_extent_of(hv_mfn mfn)
{
    return (uint32_t)(mfn.v / HV_EXTENT_FRAMES);
}

static inline struct hv_shard *hv_extent_shard(const struct hv_heap *heap, uint32_t extent)
{
    return &heap->shards[heap->extents[extent].shard];
}
