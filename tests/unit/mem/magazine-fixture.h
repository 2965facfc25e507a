/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A heap, and this thread with magazines on it. */
#pragma once

#include "unit/mem/heap-fixture.h"

#define LOAD HV_MAGAZINE_FRAMES

static inline bool alloc(hv_mfn *mfn)
{
    return hv_heap_claim(heap, 1) == 0 && hv_heap_alloc_frame(heap, 1, mfn) == 0;
}

static inline bool alloc_many(hv_mfn *frames, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (!alloc(&frames[i])) {
            return false;
        }
    }
    return true;
}

static inline void free_many(const hv_mfn *frames, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        hv_frame_put(arena, frames[i]);
    }
}

/* An arena, and this thread with magazines on it. */
static inline bool open_attached(uint64_t extents)
{
    bool opened;

    if (heap) {
        hv_heap_detach_thread(heap); /* a case that failed half way */
    }
    opened = open_arena(HV_BACKING_KIND_ANON, extents);
    if (opened) {
        hv_heap_attach_thread(heap);
    }
    return opened && hv_magazines_own(heap);
}

static inline void close_attached(void)
{
    hv_heap_detach_thread(heap);
    hv_arena_destroy(arena);
}
