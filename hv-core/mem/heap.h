/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Free frames of an arena: extents of 2 MiB in shards, and single frames split from them.
 *
 * A domain claims its memory when it is created, so that concurrent creates fail early instead of
 * half way. No frame is reachable by a domain before it is zero: allocation hands out CLEAN or
 * RETURNED extents, or scrubs one first.
 *
 * There are these two sizes and none between: RAM is filled by the whole extent or, beside a hole, by
 * the frame, so that a buddy system inside an extent would serve nobody.
 */
#pragma once

#include "mem/frame.h"
#include "sync/lock-head.h"

struct hv_heap;

struct hv_heap_info {
    uint64_t total_frames;
    uint64_t free_frames; /* the sum of: */
    uint64_t clean_frames, dirty_frames, returned_frames;
    uint64_t magazine_frames; /* in the magazines of threads */
    uint64_t moving_frames;   /* in some thread's hands: being scrubbed, returned, moved */
    uint64_t claimed_frames;  /* of the free ones */
    uint64_t freed_extents;   /* a counter: how often hv_heap_free_extent() freed one */
};

/**
 * Reserve @frames for a domain.
 *
 * Returns 0; -EINVAL for 0 or more than the arena has; -ENOMEM when fewer are free and unclaimed.
 */
HV_MUST_CHECK int hv_heap_claim(struct hv_heap *heap, uint64_t frames);

/** Give back what is left of a claim. */
void hv_heap_unclaim(struct hv_heap *heap, uint64_t frames);

/**
 * Allocate a whole extent out of a claim: 512 zero frames owned by @owner, each with the
 * allocation's reference, at 2 MiB alignment, backed by host memory.
 *
 * Returns 0 and the first frame; -ENOMEM when the heap or the host has none (the claim stays).
 * Context: no lock held (it may scrub and populate); the calling vCPU is OUTSIDE.
 */
HV_MUST_CHECK int hv_heap_alloc_extent(struct hv_heap *heap, uint16_t owner, hv_mfn *first_out);

/** As above for one frame. */
HV_MUST_CHECK int hv_heap_alloc_frame(struct hv_heap *heap, uint16_t owner, hv_mfn *mfn_out);

/**
 * Free a whole extent of @owner's with one lock operation, if every frame of it holds exactly the
 * allocation's reference and no type reference.
 *
 * Returns 0; -EBUSY when some frame is still referenced: free them one by one.
 */
HV_MUST_CHECK int hv_heap_free_extent(struct hv_heap *heap, hv_mfn first, uint16_t owner);

/** Free a frame whose last reference went. Context: any; takes HV_RANK_HEAP. */
void hv_heap_free_frame(struct hv_heap *heap, hv_mfn mfn);

/** The same for many, sorted: one lock operation a run of extents of one shard. */
void hv_heap_free_batch(struct hv_heap *heap, const hv_mfn *frames, size_t count);

/**
 * The calling thread allocates and frees single frames from here on by magazines of its own
 * (mem/magazine-private.h), of this one heap. Without, or when too many have some, each goes to a
 * shard. Detached before the thread ends, and that before the heap does.
 */
void hv_heap_attach_thread(struct hv_heap *heap);
/** Its magazines are emptied. Nothing happens when it has none. */
void hv_heap_detach_thread(struct hv_heap *heap);

/* 64 MiB: few host calls, and not much missing to an allocation that comes meanwhile. */
#define HV_HEAP_TRIM_BATCH 32u

/**
 * Give the host memory of up to @extents free whole extents back, dirty ones rather than clean ones,
 * HV_HEAP_TRIM_BATCH at a time. Returns of how many. May block; HV_RANK_FLUSH_WAIT.
 */
uint64_t hv_heap_trim(struct hv_heap *heap, uint64_t extents);

/** Takes no lock: at rest exact; while others allocate and free, of no one moment. */
void hv_heap_get_info(const struct hv_heap *heap, struct hv_heap_info *info_out);

/* One part of the heap, with a lock of its own. */
struct hv_heap_shard_info {
    uint64_t free_frames;
    const struct hv_lock_counters *lock;
};

unsigned hv_heap_shards(const struct hv_heap *heap);
/** @index is below hv_heap_shards(). */
struct hv_heap_shard_info hv_heap_get_shard(const struct hv_heap *heap, unsigned index);
