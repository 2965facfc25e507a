/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How many pages of a memory are used in a way that nobody counts when it begins or ends: read from
 * the frame table now and then, without a lock, a part at a time.
 *
 * What the p2m counts itself (populated, code, shared) costs nothing to ask. These would cost the hottest
 * words of the core a counter, or their users a name; so who asks for figures goes on with the look
 * at all pages instead, by 32 MiB of them a call: 33 µs, however large the memory.
 */
#pragma once

#include "sync/atomic.h"

#include <hv/types.h>

/* What one call looks at, of what has a table. */
#define HV_CENSUS_EXTENTS 16u

struct hv_memory;

enum hv_census_kind {
    HV_CENSUS_PGTABLE, /* sealed, walked by others than their guest; or once, and sealed since */
    HV_CENSUS_PINNED,  /* held for an area shared with the hypervisor, or for DMA */
    HV_CENSUS_KINDS,
};

/* Zero-initialised no look has begun. */
struct hv_page_census {
    /* Atomic: somebody goes on with the look. */
    _Atomic uint32_t busy;
    /* Owned by who is busy. */
    uint64_t extent; /* the next */
    uint64_t counting[HV_CENSUS_KINDS];
    /* Atomic: of the last whole look; each was true of some moment of it. */
    _Atomic uint64_t pages[HV_CENSUS_KINDS];
};

/**
 * Go on with the look at @memory; nothing, when another is at it. True when it has come to its end:
 * `pages` is new. Context: any thread, any lock, inside the domain: its tables stay.
 */
bool hv_page_census_step(struct hv_page_census *census, const struct hv_memory *memory);
