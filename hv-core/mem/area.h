/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A few bytes of guest memory that the hypervisor writes while the guest reads them: guest clock,
 * steal time, end of interrupt. Within one page, whose frame is pinned WRITABLE (decisions D1) for
 * as long as the area is: it is never sealed meanwhile, nor freed, whatever becomes of the page it
 * was, so that a store is a store, in any thread and under any lock.
 *
 * What stands there is the guest's: each value is a relaxed atomic of its own, and nothing that is
 * read is trusted. Each store is noted for the dirty log.
 */
#pragma once

#include "base/assert.h"
#include "mem/memory.h"

struct hv_area {
    struct hv_memory *memory; /* borrowed; NULL: there is no area */
    uint8_t *host;            /* the first byte */
    hv_mfn mfn;
    hv_gfn gfn;
};

/** Could an area be at [gpa, gpa + bytes)? RAM, within one page. Takes no lock, never waits. */
bool hv_area_possible(const struct hv_memory *memory, hv_gpa gpa, unsigned bytes);

/**
 * Pin [gpa, gpa + bytes). The area was zeroed or unpinned before.
 *
 * Returns 0; -EINVAL for a range that is not hv_area_possible(); -EBUSY when the
 * page cannot be made writable; -ENOMEM when the host has no memory for it; -EOVERFLOW for more pins
 * than a frame can have; -ECANCELED when the domain is dying.
 * Context: OUTSIDE, no lock held; waits as HV_RANK_FLUSH_WAIT.
 */
HV_MUST_CHECK int hv_area_pin(struct hv_area *area, struct hv_memory *memory, hv_gpa gpa,
                              unsigned bytes);

/** Let go. An area that is not pinned is accepted. Context: any thread; ranks < HEAP. */
void hv_area_unpin(struct hv_area *area);

static inline bool hv_area_pinned(const struct hv_area *area)
{
    return area->memory != NULL;
}

/* @offset is aligned as the access is wide, and so is the area's address. */

static inline uint32_t hv_area_load4(const struct hv_area *area, unsigned offset)
{
    HV_ASSERT(((uintptr_t)area->host + offset) % 4 == 0);
    return hv_load_relaxed((_Atomic uint32_t *)(void *)(area->host + offset));
}

/** Releases: what was stored before is seen by who sees this. */
static inline void hv_area_store4(const struct hv_area *area, unsigned offset, uint32_t value)
{
    HV_ASSERT(((uintptr_t)area->host + offset) % 4 == 0);
    hv_store_release((_Atomic uint32_t *)(void *)(area->host + offset), value);
    hv_memory_note_write(area->memory, area->gfn);
}

/** The same as two halves, which a reader may see one without the other. */
static inline void hv_area_store8(const struct hv_area *area, unsigned offset, uint64_t value)
{
    hv_area_store4(area, offset, (uint32_t)value);
    hv_area_store4(area, offset + 4, (uint32_t)(value >> 32));
}

static inline uint8_t hv_area_load1(const struct hv_area *area, unsigned offset)
{
    return hv_load_relaxed((_Atomic uint8_t *)(area->host + offset));
}

static inline void hv_area_store1(const struct hv_area *area, unsigned offset, uint8_t value)
{
    hv_store_release((_Atomic uint8_t *)(area->host + offset), value);
    hv_memory_note_write(area->memory, area->gfn);
}

/** Put @value there in one step with a look at what stood there, which is returned. */
static inline uint8_t hv_area_swap1(const struct hv_area *area, unsigned offset, uint8_t value)
{
    uint8_t old = hv_swap_seq((_Atomic uint8_t *)(area->host + offset), value);

    hv_memory_note_write(area->memory, area->gfn);
    return old;
}
