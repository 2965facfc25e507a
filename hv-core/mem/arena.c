/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The arena: address range, frame table, heap and holders, made and unmade together. */
#include "mem/arena.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/bits.h"
#include "mem/arena-private.h"
#include "mem/foreign-strategy-private.h"
#include "mem/heap-private.h"

/* Frames are named by 32-bit indices in lists. */
#define ARENA_FRAMES_MAX UINT64_C(0xffffff00)

/* Reserve addresses with room to align to an extent, and map the backing over them. */
static int arena_map(struct hv_arena *arena)
{
    uint64_t bytes = arena->backing.bytes;

    if (arena->backing.kind == HV_BACKING_KIND_NONE) {
        return 0;
    }
    arena->reserved_bytes = bytes + HV_EXTENT_SIZE;
    arena->reserved = mmap(NULL, arena->reserved_bytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena->reserved == MAP_FAILED) {
        arena->reserved = NULL;
        return -ENOMEM;
    }
    arena->base = (uint8_t *)hv_align_up((uintptr_t)arena->reserved, HV_EXTENT_SIZE);
    return hv_backing_map(&arena->backing, arena->base, 0, bytes);
}

int hv_arena_create(const struct hv_arena_config *config, struct hv_arena **arena_out)
{
    struct hv_arena *arena;
    int err;

    *arena_out = NULL;
    if (config->bytes == 0 || config->bytes % HV_EXTENT_SIZE != 0 ||
        config->bytes / HV_PAGE_SIZE > ARENA_FRAMES_MAX) {
        return -EINVAL;
    }
    arena = hv_alloc_aligned(_Alignof(struct hv_arena), sizeof(*arena));
    if (!arena) {
        return -ENOMEM;
    }
    hv_holders_init(&arena->holders);
    hv_eventcount_init(&arena->settled);
    arena->strategy = &hv_foreign_taint;
    arena->frame_count = config->bytes / HV_PAGE_SIZE;
    arena->backing.fd = -1;
    arena->frames = hv_alloc(arena->frame_count, sizeof(*arena->frames));
    if (!arena->frames) {
        err = -ENOMEM;
        goto out;
    }
    err = hv_backing_open(&arena->backing, config->backing, config->bytes);
    if (err) {
        goto out;
    }
    err = arena_map(arena);
    if (err) {
        goto out;
    }
    err = hv_heap_create(arena, &arena->heap);
out:
    if (err) {
        hv_arena_destroy(arena);
        return err;
    }
    *arena_out = arena;
    return 0;
}

void hv_arena_destroy(struct hv_arena *arena)
{
    if (!arena) {
        return;
    }
    hv_heap_destroy(arena->heap);
    if (arena->reserved) {
        munmap(arena->reserved, arena->reserved_bytes);
    }
    hv_backing_close(&arena->backing);
    hv_free(arena->frames);
    hv_foreign_masks_destroy(arena->masks);
    hv_holders_finish(&arena->holders);
    hv_free(arena);
}

struct hv_frame *hv_arena_frame(const struct hv_arena *arena, hv_mfn mfn)
{
    HV_BUG_ON(mfn.v >= arena->frame_count);
    return &arena->frames[mfn.v];
}

void *hv_arena_host(const struct hv_arena *arena, hv_mfn mfn)
{
    HV_BUG_ON(mfn.v >= arena->frame_count);
    return arena->base ? arena->base + mfn.v * HV_PAGE_SIZE : NULL;
}

uint64_t hv_arena_frames(const struct hv_arena *arena)
{
    return arena->frame_count;
}

struct hv_heap *hv_arena_heap(struct hv_arena *arena)
{
    return arena->heap;
}

struct hv_holders *hv_arena_holders(struct hv_arena *arena)
{
    return &arena->holders;
}
