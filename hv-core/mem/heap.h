/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Free frames of an arena: extents of 2 MiB in shards, and single frames split from them.
 *
 * A domain claims its memory when it is created, so that concurrent creates fail early instead of
 * half way. No frame is reachable by a domain before it is zero: allocation hands out CLEAN or
 * RETURNED extents, or scrubs one first.
 */
#pragma once

#include "mem/frame.h"

struct hv_heap;

struct hv_heap_info {
    uint64_t total_frames, free_frames, clean_frames, dirty_frames, returned_frames, claimed_frames;
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

/** Free frames whose last reference went, sorted by extent, one lock operation an extent. */
void hv_heap_free_batch(struct hv_heap *heap, const hv_mfn *frames, size_t count);

/** Give back host memory of free extents but for @keep_bytes. Returns bytes returned. May block. */
uint64_t hv_heap_trim(struct hv_heap *heap, uint64_t keep_bytes);

void hv_heap_get_info(const struct hv_heap *heap, struct hv_heap_info *info_out);
