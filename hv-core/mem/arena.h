/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One address range of 2 MiB slots that holds all guest memory, with the frame table beside it.
 *
 *     slot s:  [base + s * 2 MiB, …)   backed by (backing, offset)   frames s * 512 … + 511
 *
 * The kernel chooses the address (sanitizers need theirs). A free slot is CLEAN (zero), DIRTY (its
 * last owner's data), RETURNED (no host memory behind it) or being scrubbed; a free that empties an
 * extent moves all of it with one lock operation (mem/heap.h).
 */
#pragma once

#include "mem/backing.h"
#include "mem/frame.h"

struct hv_arena;

struct hv_arena_config {
    enum hv_backing_kind backing;
    uint64_t bytes; /* a multiple of 2 MiB, at least one slot */
};

/**
 * Reserve address range, frame table and pool. Uses no host memory yet.
 *
 * Returns 0 and *arena_out, owned by the caller; -EINVAL for the size; -ENOMEM.
 */
HV_MUST_CHECK int hv_arena_create(const struct hv_arena_config *config,
                                  struct hv_arena **arena_out);

/** Release everything. No frame may be allocated. NULL is accepted. */
void hv_arena_destroy(struct hv_arena *arena);

/** The frame's entry; @mfn is below hv_arena_frames(). */
struct hv_frame *hv_arena_frame(const struct hv_arena *arena, hv_mfn mfn);

/** The host address of a frame. Valid while a reference is held and no flush has been waited for. */
void *hv_arena_host(const struct hv_arena *arena, hv_mfn mfn);

uint64_t hv_arena_frames(const struct hv_arena *arena);

struct hv_heap;
struct hv_holders;

struct hv_heap *hv_arena_heap(struct hv_arena *arena);
struct hv_holders *hv_arena_holders(struct hv_arena *arena);
