/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The core's only allocator of its own bookkeeping (guest memory comes from mem/).
 *
 * Every allocation can be made to fail by number: tests run a create path once for each n until it
 * succeeds and check that each failure left nothing behind. The countdown is the thread's own, so
 * that what other threads allocate meanwhile is neither counted nor failed.
 *
 * Context: any thread; may block in the C library, so never under a lock of rank >= 70.
 */
#pragma once

#include <hv/types.h>

/**
 * Allocate zeroed memory.
 *
 * @count, @size  product in bytes; checked for overflow. Zero bytes give a valid, unique pointer.
 *
 * Returns the memory, owned by the caller and released by hv_free(); NULL when the host has none
 * or hv_alloc_fail_at() says so.
 */
HV_MUST_CHECK void *hv_alloc(size_t count, size_t size);

/**
 * As hv_alloc(1, size), aligned to @alignment, a power of two >= sizeof(void *). Pages of a large block
 * come from the host when they are touched first, as those of hv_alloc() do.
 */
HV_MUST_CHECK void *hv_alloc_aligned(size_t alignment, size_t size);

/** Release what the two above gave. NULL is accepted. */
void hv_free(void *memory);

/** Give the host what is free in between. Takes as long as there are pieces; others wait meanwhile. */
void hv_alloc_trim(void);

/**
 * Let the @nth allocation of this thread from now on fail, once; 0 turns it off. Tests only.
 */
void hv_alloc_fail_at(uint64_t nth);

/** How many allocations this thread made since the last hv_alloc_fail_at(). Tests only. */
uint64_t hv_alloc_count(void);

/** Blocks allocated and not yet freed, over all threads: leak checks of tests. */
int64_t hv_alloc_live(void);
