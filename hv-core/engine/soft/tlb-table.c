/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One table of a TLB: direct-mapped entries, eight victims, and its size.
 *
 * Growth is decided by what it cures: a fill that pushes out a live entry of another page. When
 * that happened to half as many entries as there are between two flushes, the table doubles. Every
 * old slot then has two new ones to itself, so nothing is lost by moving.
 */
#include "engine/soft/tlb-private.h"

#include "base/alloc.h"

#include <errno.h>

static void fill_empty(struct soft_tlb_entry *entry, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        entry[i] = (struct soft_tlb_entry){.tag = SOFT_TLB_EMPTY};
    }
}

static struct soft_tlb_entry *slot_of(const struct soft_tlb_table *table, uint64_t tag)
{
    return &table->entry[(tag >> HV_PAGE_SHIFT) & table->mask];
}

int soft_tlb_table_create(struct soft_tlb_table *table, uint32_t entries)
{
    *table = (struct soft_tlb_table){.mask = entries - 1};
    table->entry = hv_alloc(entries, sizeof(*table->entry));
    if (!table->entry) {
        return -ENOMEM;
    }
    fill_empty(table->entry, entries);
    fill_empty(table->victim, SOFT_TLB_VICTIMS);
    return 0;
}

void soft_tlb_table_destroy(struct soft_tlb_table *table)
{
    hv_free(table->entry);
    table->entry = NULL;
}

struct soft_tlb_entry *soft_tlb_table_find(struct soft_tlb_table *table, uint64_t page, uint64_t id)
{
    uint64_t wanted = page | id;
    struct soft_tlb_entry *slot = slot_of(table, page);

    if ((slot->tag & ~SOFT_TLB_SLOW) == wanted) {
        return slot;
    }
    for (unsigned i = 0; i < SOFT_TLB_VICTIMS; i++) {
        struct soft_tlb_entry found = table->victim[i];

        if ((found.tag & ~SOFT_TLB_SLOW) == wanted) {
            table->victim[i] = *slot;
            *slot = found;
            return slot;
        }
    }
    return NULL;
}

static void begin_window(struct soft_tlb_table *table, uint32_t window)
{
    if (table->fills > table->fills_most) {
        table->fills_most = table->fills;
    }
    table->window = window;
    table->fills = 0;
    table->displaced = 0;
}

uint64_t soft_tlb_table_insert(struct soft_tlb_table *table, struct soft_tlb_entry entry,
                               uint32_t window)
{
    struct soft_tlb_entry *slot = slot_of(table, entry.tag);
    struct soft_tlb_entry old = *slot;
    unsigned victim;

    if (table->window != window) {
        begin_window(table, window);
    }
    table->fills++;

    *slot = entry;
    if (((old.tag ^ entry.tag) & ~SOFT_TLB_SLOW) == 0) {
        return SOFT_TLB_EMPTY;
    }
    if ((old.tag ^ entry.tag) & SOFT_TLB_ID_MASK) {
        return old.tag;
    }
    table->displaced++;
    victim = table->next_victim++ % SOFT_TLB_VICTIMS;
    entry = table->victim[victim];
    table->victim[victim] = old;
    return entry.tag;
}

void soft_tlb_table_offer(struct soft_tlb_table *table, struct soft_tlb_entry entry)
{
    struct soft_tlb_entry *slot = slot_of(table, entry.tag);

    if ((slot->tag ^ entry.tag) & SOFT_TLB_ID_MASK) {
        *slot = entry;
    }
}

bool soft_tlb_table_crowded(const struct soft_tlb_table *table)
{
    return table->displaced > table->mask / 2 && table->mask < SOFT_TLB_ENTRIES_MAX - 1;
}

void soft_tlb_table_grow(struct soft_tlb_table *table)
{
    struct soft_tlb_entry *old = table->entry;
    uint64_t old_entries = table->mask + 1;
    struct soft_tlb_entry *entry = hv_alloc(old_entries * 2, sizeof(*entry));

    table->displaced = 0;
    if (!entry) {
        return;
    }
    fill_empty(entry, old_entries * 2);
    table->entry = entry;
    table->mask = old_entries * 2 - 1;
    for (uint64_t i = 0; i < old_entries; i++) {
        if (old[i].tag != SOFT_TLB_EMPTY) {
            *slot_of(table, old[i].tag) = old[i];
        }
    }
    hv_free(old);
}

bool soft_tlb_table_drop_page(struct soft_tlb_table *table, uint64_t page)
{
    struct soft_tlb_entry *slot = slot_of(table, page);
    bool dropped = false;

    if (soft_tlb_page(slot->tag) == page) {
        slot->tag = SOFT_TLB_EMPTY;
        dropped = true;
    }
    for (unsigned i = 0; i < SOFT_TLB_VICTIMS; i++) {
        if (soft_tlb_page(table->victim[i].tag) == page) {
            table->victim[i].tag = SOFT_TLB_EMPTY;
            dropped = true;
        }
    }
    return dropped;
}

static void drop_host(struct soft_tlb_entry *entry, size_t count, uint64_t host)
{
    for (size_t i = 0; i < count; i++) {
        if (soft_tlb_page(entry[i].tag) + entry[i].addend == host &&
            !(entry[i].tag & SOFT_TLB_SLOW)) {
            entry[i].tag = SOFT_TLB_EMPTY;
        }
    }
}

void soft_tlb_table_drop_host(struct soft_tlb_table *table, const void *host)
{
    drop_host(table->entry, table->mask + 1, (uintptr_t)host);
    drop_host(table->victim, SOFT_TLB_VICTIMS, (uintptr_t)host);
}

void soft_tlb_table_drop_all(struct soft_tlb_table *table)
{
    fill_empty(table->entry, table->mask + 1);
    fill_empty(table->victim, SOFT_TLB_VICTIMS);
}

void soft_tlb_table_clear(struct soft_tlb_table *table)
{
    uint64_t entries = table->mask + 1;
    struct soft_tlb_entry *entry = NULL;

    begin_window(table, table->window);
    while (entries > SOFT_TLB_ENTRIES_MIN && entries / 4 >= table->fills_most) {
        entries /= 2;
    }
    table->fills_most = 0;
    if (entries <= table->mask) {
        entry = hv_alloc(entries, sizeof(*entry));
    }
    if (entry) {
        hv_free(table->entry);
        table->entry = entry;
        table->mask = entries - 1;
    }
    soft_tlb_table_drop_all(table);
}
