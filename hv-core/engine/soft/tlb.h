/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The software engine's TLBs: linear page to host address, three modes × three kinds.
 *
 *   entry  tag     63:12 linear page   11 SLOW   10:0 address-space id
 *          addend  host address - linear address; guest physical - linear address when SLOW, and
 *                  for fetches
 *
 *   lookup  tag == (page of the LAST byte | id)  at the index of the FIRST byte's page
 *
 * so one comparison refuses another page, another address space, an access that crosses pages, and
 * (SLOW) everything that is no plain RAM: devices, ROM, pages with code under a store. A SLOW entry
 * remembers the guest's translation only; what stands there is asked of the p2m at each access.
 * Fetches do the same always: blocks are found by guest physical address.
 *
 * Modes: the CPL and SMAP decide rights, so user, supervisor, and supervisor with RFLAGS.AC have
 * tables of their own and a change of mode only changes the current view. Kinds: reads, writes and
 * fetches are apart; two arrays a multiple of the table size apart would else evict each other at
 * each store. While alignment is checked (CPL 3, CR0.AM, RFLAGS.AC) the views of reads and writes
 * are empty, so that every access is slow and the fast path need not know.
 *
 * Address-space ids: each PCID gets one; "flush all but global" takes a new one instead of
 * clearing. Global translations stand in a second, id-less level (`global`) from which a miss
 * refills in a few nanoseconds. Ids are used up after 2,046 flushes: then everything is cleared.
 *
 * A table grows when fills pushed out many live entries between two flushes, and shrinks, at the
 * next clearing, when little was used; 8 victims beside each catch what two hot pages of one index
 * evict. Source: QEMU's cputlb for victims and resizing.
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
/* A tag that no lookup asks for: not canonical, and ids start at 1. */
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

/** The host address for [gva, gva + bytes), or NULL: take the slow path. READ and WRITE only. */
static inline void *soft_tlb_lookup(const struct soft_tlb_view *view, uint64_t id, uint64_t gva,
                                    unsigned bytes)
{
    const struct soft_tlb_entry *entry = &view->entry[(gva >> HV_PAGE_SHIFT) & view->mask];

    if (HV_LIKELY(entry->tag == (((gva + bytes - 1) & HV_PAGE_MASK) | id))) {
        return (void *)(uintptr_t)(gva + entry->addend);
    }
    return NULL;
}

/** Guest physical address of a fetch at @gva; false: ask soft_fetch_page(). EXEC only. */
static inline bool soft_tlb_lookup_fetch(const struct soft_tlb_view *view, uint64_t id,
                                         uint64_t gva, hv_gpa *gpa_out)
{
    const struct soft_tlb_entry *entry = &view->entry[(gva >> HV_PAGE_SHIFT) & view->mask];

    *gpa_out = (hv_gpa){gva + entry->addend};
    return HV_LIKELY(entry->tag == ((gva & HV_PAGE_MASK) | id));
}
