/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Inside of the TLBs: tables, address spaces, the global level. For tlb*.c, fill.c and their tests.
 */
#pragma once

#include "engine/soft/vcpu.h"

#define SOFT_TLB_VICTIMS        8u
/* Entries of a table: a power of two between the bounds. 16,384 reach 64 MiB in 256 KiB. */
#define SOFT_TLB_ENTRIES_MIN    64u
#define SOFT_TLB_ENTRIES_MAX    16384u
/* PCIDs whose translations are kept; the 17th displaces one (SDM 3A 4.10.1 promises nothing). */
#define SOFT_TLB_SPACES         16u
#define SOFT_TLB_GLOBAL_ENTRIES 1024u
#define SOFT_TLB_GONE_WORDS     32u

struct soft_tlb_table {
    struct soft_tlb_entry *entry;
    uint64_t mask; /* entries - 1 */
    unsigned next_victim;
    /* Of the window, the time between two flushes, numbered `window`. */
    uint32_t window;
    uint32_t fills;
    uint32_t displaced;  /* live entries that fills pushed out */
    uint32_t fills_most; /* in any window since the last clearing */
    struct soft_tlb_entry victim[SOFT_TLB_VICTIMS];
};

/*
 * Translations of global pages, whatever the address space.
 *
 *   tag     63:12 linear page   8:0 right bits (1 << mode * 3 + kind)
 *   addend  63:12 as in the first level   11:0 generation: another one's entries are void
 *
 * Fetches translate to guest physical, so they have a table of their own. SLOW entries do not come
 * here.
 */
struct soft_tlb_global {
    struct soft_tlb_entry entry[SOFT_TLB_GLOBAL_ENTRIES];
};

/* The smallest naturally aligned range that holds all large pages of one sort. INVLPG inside one
 * must drop all 4 KiB pieces of it, so it is answered with a flush (Source: QEMU's cputlb). */
struct soft_tlb_large {
    uint64_t base;
    uint64_t mask; /* bits that all of them have as base has */
    bool none;     /* no large page was met */
};

/* Where the host has a page of the guest's tables: a walk reads four. The key is its guest physical
 * address and, in 11:0, the generation as in the global level; so the p2m's flushes void it. */
#define SOFT_TLB_TABLE_PAGES 64u
struct soft_tlb_table_page {
    uint64_t key;
    const uint8_t *host;
};

/* An address space: id 0 when the slot is free. */
struct soft_tlb_space {
    uint16_t pcid;
    uint16_t id;
    uint64_t fetch_generation; /* of the lower half, when it is current again; 0: a new one */
};

struct soft_tlbs {
    struct soft_tlb_table table[SOFT_TLB_MODES][SOFT_TLB_KINDS];
    struct soft_tlb_entry none; /* EMPTY: the view while accesses are looked at one by one */
    bool alignment_checked;
    bool watched;        /* DR7 enables breakpoints on data */
    uint32_t rights_key; /* registers that the cached rights depend on */

    uint16_t next_id;
    uint16_t last_id; /* 2,047; less in tests */
    uint16_t pcid;    /* current */
    unsigned next_space;
    unsigned current_space;
    struct soft_tlb_space space[SOFT_TLB_SPACES];
    uint32_t window;

    uint16_t global_generation; /* 1 to 4,095 */
    struct soft_tlb_large large_global;
    struct soft_tlb_large large_local; /* all address spaces together */
    struct soft_tlb_global global_data;
    struct soft_tlb_global global_fetch;
    struct soft_tlb_table_page table_page[SOFT_TLB_TABLE_PAGES];

    uint64_t last_generation; /* given out for either half */
    /* A page of the upper half was fetched that is not global: changes of address space concern
     * that half, too. */
    bool upper_private;
    /* Pages, by half, whose fetch translation was used under a generation that is still good and
     * that may have left the tables since: hashed sets of them, for soft_tlb_flush_page(). */
    uint64_t fetch_gone[2][SOFT_TLB_GONE_WORDS];
};

static inline uint64_t soft_tlb_page(uint64_t gva)
{
    return gva & HV_PAGE_MASK;
}

/* tlb-table.c: one table. @id is the current address space's, which alone is live. */

/** @entries: a power of two within the bounds. -ENOMEM. */
HV_MUST_CHECK int soft_tlb_table_create(struct soft_tlb_table *table, uint32_t entries);
void soft_tlb_table_destroy(struct soft_tlb_table *table);

/** The entry of @page, SLOW or not, moved out of the victims if it stood there; NULL: none. */
struct soft_tlb_entry *soft_tlb_table_find(struct soft_tlb_table *table, uint64_t page,
                                           uint64_t id);

/**
 * Put an entry of the present address space in its place.
 *
 * @window  the number of the present window.
 *
 * Returns the tag of what left the table and its victims, or SOFT_TLB_EMPTY.
 */
uint64_t soft_tlb_table_insert(struct soft_tlb_table *table, struct soft_tlb_entry entry,
                               uint32_t window);

/** True when it is time for soft_tlb_table_grow(), which the host's lack of memory may prevent. */
bool soft_tlb_table_crowded(const struct soft_tlb_table *table);
/** Double. Victims stay; entries move. */
void soft_tlb_table_grow(struct soft_tlb_table *table);

/** Put an entry where nothing of the present address space stands. Never of a fetch. */
void soft_tlb_table_offer(struct soft_tlb_table *table, struct soft_tlb_entry entry);

/** Drop the entries of @page in every address space; true when there was one. */
bool soft_tlb_table_drop_page(struct soft_tlb_table *table, uint64_t page);
/** Drop the entries that lead to the host page at @host. */
void soft_tlb_table_drop_host(struct soft_tlb_table *table, const void *host);
void soft_tlb_table_drop_all(struct soft_tlb_table *table);
/** Drop everything and shrink to what was used. */
void soft_tlb_table_clear(struct soft_tlb_table *table);

/* tlb-global.c: the level of global translations, and where large pages are. */

/** The addend for @page when @right is known there; false: none. */
bool soft_tlb_global_find(const struct soft_tlb_global *global, uint64_t page, uint64_t right,
                          uint16_t generation, uint64_t *addend_out);
void soft_tlb_global_insert(struct soft_tlb_global *global, uint64_t page, uint64_t right,
                            uint16_t generation, uint64_t addend);
void soft_tlb_global_drop_page(struct soft_tlb_global *global, uint64_t page);
/** Take @rights from all entries, or from those that lead to the host page at @host. */
void soft_tlb_global_drop_rights(struct soft_tlb_global *global, uint64_t rights);
void soft_tlb_global_drop_host(struct soft_tlb_global *global, uint64_t rights, const void *host);
void soft_tlb_global_clear(struct soft_tlb_global *global);

void soft_tlb_large_reset(struct soft_tlb_large *large);
void soft_tlb_large_add(struct soft_tlb_large *large, uint64_t gva, uint64_t page_size);
bool soft_tlb_large_holds(const struct soft_tlb_large *large, uint64_t gva);

/* tlb.c. Fetches of both supervisor modes share a table: SMAP does not concern them. */

/** The entry for an access of @kind to @page, out of any level; NULL: walk. */
struct soft_tlb_entry *soft_tlb_find(struct hv_engine_vcpu *vcpu, enum soft_tlb_mode mode,
                                     enum soft_tlb_kind kind, uint64_t page);

/** Enter a translation of the present address space. @entry: tag is page, or page | SLOW. */
struct soft_tlb_entry *soft_tlb_insert(struct hv_engine_vcpu *vcpu, enum soft_tlb_mode mode,
                                       enum soft_tlb_kind kind, struct soft_tlb_entry entry);

/** Enter it where its place is free. */
void soft_tlb_offer(struct hv_engine_vcpu *vcpu, enum soft_tlb_mode mode, enum soft_tlb_kind kind,
                    struct soft_tlb_entry entry);

/** Enter what soft_tlb_insert() was given in the level of global pages, too. Never SLOW. */
void soft_tlb_insert_global(struct hv_engine_vcpu *vcpu, enum soft_tlb_mode mode,
                            enum soft_tlb_kind kind, struct soft_tlb_entry entry);

/** A walk for a fetch met a page: whose it is decides what outlives a change of address space. */
void soft_tlb_note_fetch(struct hv_engine_vcpu *vcpu, uint64_t gva, bool global);

/** A walk met a large page: INVLPG in it must drop all pieces. */
void soft_tlb_note_large(struct hv_engine_vcpu *vcpu, uint64_t gva, uint64_t page_size,
                         bool global);

/** A flush that the p2m asked for: as soft_tlb_flush_all(), but the guest's own translations of
 * fetches, which name no host address, are as good as before. */
void soft_tlb_flush_holder(struct hv_engine_vcpu *vcpu);

/** Drop write translations: a new dirty epoch begins. */
void soft_tlb_drop_writes(struct hv_engine_vcpu *vcpu);
