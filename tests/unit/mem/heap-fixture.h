/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One arena and its heap, and what must be true of them between any two steps. */
#pragma once

#include "unit/mem/mem-fixture.h"

static struct hv_arena *arena;
static struct hv_heap *heap;

static inline bool open_arena(enum hv_backing_kind kind, uint64_t extents)
{
    const struct hv_arena_config config = {kind, extents * HV_EXTENT_SIZE};

    if (hv_arena_create(&config, &arena)) {
        return false;
    }
    heap = hv_arena_heap(arena);
    return true;
}

/* In how many places the frame is free: the list of its extent, a magazine. */
static inline unsigned free_places(hv_mfn mfn)
{
    const struct hv_extent *extent = &heap->extents[hv_extent_of(mfn)];
    uint64_t at = mfn.v % HV_EXTENT_FRAMES;
    unsigned places = extent->state < HV_EXTENT_STATE_SPLIT;

    if (extent->state == HV_EXTENT_STATE_SPLIT) {
        places = extent->free_map[at / 64] >> at % 64 & 1;
    }
    for (unsigned i = 0; i < hv_load_seq(&heap->magazine_owners) * 2; i++) {
        const struct hv_magazine *magazine = &heap->magazines[i / 2].each[i % 2];
        unsigned count = hv_magazine_count(hv_load_seq(&magazine->word));

        for (unsigned k = 0; k < count; k++) {
            places += hv_load_relaxed(&magazine->frames[k]) == mfn.v;
        }
    }
    return places;
}

/*
 * Every frame is free in one place, or owned, and the counters say so: by a walk that trusts none of
 * them. No thread is at anything.
 */
static inline bool conserved(uint64_t owned)
{
    struct hv_heap_info info;
    uint64_t allocated = 0;

    hv_heap_get_info(heap, &info);
    for (uint64_t i = 0; i < hv_arena_frames(arena); i++) {
        const struct hv_frame *frame = hv_arena_frame(arena, (hv_mfn){i});
        bool has_owner = hv_frame_references(frame) > 0;

        hv_frame_check(frame);
        allocated += has_owner;
        if (free_places((hv_mfn){i}) + has_owner != 1) {
            return false;
        }
    }
    return allocated == owned && info.free_frames + owned == info.total_frames &&
           info.claimed_frames <= info.free_frames &&
           info.clean_frames + info.dirty_frames + info.returned_frames + info.magazine_frames ==
               info.free_frames &&
           info.moving_frames == 0;
}

static inline bool is_zero(hv_mfn mfn)
{
    const uint64_t *word = hv_arena_host(arena, mfn);

    for (unsigned i = 0; i < HV_PAGE_SIZE / sizeof(*word); i++) {
        if (word[i] != 0) {
            return false;
        }
    }
    return true;
}

static inline void scribble(hv_mfn mfn)
{
    memset(hv_arena_host(arena, mfn), 0xa5, HV_PAGE_SIZE);
}

/* How often any shard was locked. */
static inline uint64_t shard_locks(void)
{
    uint64_t acquired = 0;

    for (unsigned i = 0; i < heap->shard_count; i++) {
        acquired += hv_load_relaxed(&hv_lock_counters(&heap->shards[i].lock)->acquired);
    }
    return acquired;
}

static inline struct hv_heap_info heap_info(void)
{
    struct hv_heap_info info;

    hv_heap_get_info(heap, &info);
    return info;
}
