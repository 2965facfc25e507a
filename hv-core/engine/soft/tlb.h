/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The software engine's TLBs: linear page to host address, three modes × three kinds.
 *
 *   entry  tag     63:12 linear page   11 SLOW   10:0 address-space id
 *          addend  host address - linear address
 *
 *   lookup  tag == (page of the LAST byte | id)  at the index of the FIRST byte's page
 *
 * so one comparison refuses another page, another address space, an access that crosses pages, and
 * (SLOW) everything that is no plain RAM: devices, ROM, pages with code under a store.
 *
 * Modes: the CPL and SMAP decide rights, so user, supervisor, and supervisor with RFLAGS.AC have
 * tables of their own and a change of mode only changes the current view. Kinds: reads, writes and
 * fetches are apart; two arrays a multiple of the table size apart would else evict each other at
 * each store.
 *
 * Address-space ids: each (PCID) gets one; "flush all but global" takes a new one instead of
 * clearing. Global translations stand in a second, id-less level (`global`) from which a miss
 * refills in a few nanoseconds. Ids are used up after 2,046 flushes: then everything is cleared.
 *
 * A table grows when most of it was used between flushes, and shrinks when little was; 8 victims
 * beside each catch what two hot pages of one index evict. Source: QEMU's cputlb for resize and
 * victims; engine.md B3 for the measured cost of sharing reads and writes.
 */
#pragma once

#include "cpu/walk.h"

enum soft_tlb_mode {
    SOFT_TLB_USER,
    SOFT_TLB_SUPERVISOR,    /* AC = 0: user pages are out of reach when SMAP is on */
    SOFT_TLB_SUPERVISOR_AC, /* AC = 1, or SMAP off */
    SOFT_TLB_MODES,
};

enum soft_tlb_kind {
    SOFT_TLB_READ,
    SOFT_TLB_WRITE,
    SOFT_TLB_EXEC,
    SOFT_TLB_KINDS,
};

#define SOFT_TLB_SLOW    ((uint64_t)1 << 11)
#define SOFT_TLB_ID_MASK (SOFT_TLB_SLOW - 1)
/* A tag that no address has: not canonical. */
#define SOFT_TLB_EMPTY   ((uint64_t)1 << 62)

struct soft_tlb_entry {
    uint64_t tag;
    uint64_t addend;
};

/* What a lookup needs, copied into the vCPU for the current mode. */
struct soft_tlb_view {
    struct soft_tlb_entry *entry;
    uint64_t mask; /* entries - 1 */
};

/** The host address for [gva, gva + bytes), or NULL: take the slow path. */
static inline void *soft_tlb_lookup(const struct soft_tlb_view *view, uint64_t id, uint64_t gva,
                                    unsigned bytes)
{
    const struct soft_tlb_entry *entry = &view->entry[(gva >> HV_PAGE_SHIFT) & view->mask];

    if (HV_LIKELY(entry->tag == (((gva + bytes - 1) & HV_PAGE_MASK) | id))) {
        return (void *)(uintptr_t)(gva + entry->addend);
    }
    return NULL;
}
