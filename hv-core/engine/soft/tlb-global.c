/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What is known of global pages whatever the address space, and where large pages are.
 *
 * A kernel's pages are global. Without this level each switch of address space would walk for all
 * of them again; with it they come back for a compare and two stores.
 */
#include "engine/soft/tlb-private.h"

#define GENERATION_MASK (HV_PAGE_SIZE - 1)

static uint64_t index_of(uint64_t page)
{
    return (page >> HV_PAGE_SHIFT) % SOFT_TLB_GLOBAL_ENTRIES;
}

bool soft_tlb_global_find(const struct soft_tlb_global *global, uint64_t page, uint64_t right,
                          uint16_t generation, uint64_t *addend_out)
{
    const struct soft_tlb_entry *entry = &global->entry[index_of(page)];

    *addend_out = entry->addend & HV_PAGE_MASK;
    return soft_tlb_page(entry->tag) == page && (entry->tag & right) &&
           (entry->addend & GENERATION_MASK) == generation;
}

void soft_tlb_global_insert(struct soft_tlb_global *global, uint64_t page, uint64_t right,
                            uint16_t generation, uint64_t addend)
{
    struct soft_tlb_entry *entry = &global->entry[index_of(page)];
    struct soft_tlb_entry fresh = {.tag = page | right, .addend = addend | generation};

    if (soft_tlb_page(entry->tag) == page && entry->addend == fresh.addend) {
        fresh.tag |= entry->tag;
    }
    *entry = fresh;
}

void soft_tlb_global_drop_page(struct soft_tlb_global *global, uint64_t page)
{
    struct soft_tlb_entry *entry = &global->entry[index_of(page)];

    if (soft_tlb_page(entry->tag) == page) {
        entry->tag = SOFT_TLB_EMPTY;
    }
}

void soft_tlb_global_drop_rights(struct soft_tlb_global *global, uint64_t rights)
{
    for (unsigned i = 0; i < SOFT_TLB_GLOBAL_ENTRIES; i++) {
        global->entry[i].tag &= ~rights;
    }
}

void soft_tlb_global_drop_host(struct soft_tlb_global *global, uint64_t rights, const void *host)
{
    for (unsigned i = 0; i < SOFT_TLB_GLOBAL_ENTRIES; i++) {
        struct soft_tlb_entry *entry = &global->entry[i];

        if (soft_tlb_page(entry->tag) + (entry->addend & HV_PAGE_MASK) == (uintptr_t)host) {
            entry->tag &= ~rights;
        }
    }
}

void soft_tlb_global_clear(struct soft_tlb_global *global)
{
    for (unsigned i = 0; i < SOFT_TLB_GLOBAL_ENTRIES; i++) {
        global->entry[i] = (struct soft_tlb_entry){.tag = SOFT_TLB_EMPTY};
    }
}

void soft_tlb_large_reset(struct soft_tlb_large *large)
{
    *large = (struct soft_tlb_large){.none = true};
}

void soft_tlb_large_add(struct soft_tlb_large *large, uint64_t gva, uint64_t page_size)
{
    uint64_t mask = ~(page_size - 1);

    if (!large->none) {
        mask &= large->mask;
        while ((gva ^ large->base) & mask) {
            mask <<= 1;
        }
    }
    *large = (struct soft_tlb_large){.base = gva & mask, .mask = mask};
}

bool soft_tlb_large_holds(const struct soft_tlb_large *large, uint64_t gva)
{
    return !large->none && ((gva ^ large->base) & large->mask) == 0;
}
