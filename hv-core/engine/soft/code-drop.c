/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The ways a block goes: a store overlaps it, somebody wants its page WRITABLE, its memory is used
 * anew. A block that was taken out leads its runners to the lookup by its first micro-operation.
 */
#include "engine/soft/code-private.h"

void soft_page_recount(struct soft_page *page)
{
    page->chunks = 0;
    for (const struct soft_block *block = page->blocks; block;
         block = block->page_next[soft_block_side(block, page->gfn)]) {
        uint64_t first, end;

        soft_block_extent(block, page->gfn, &first, &end);
        page->chunks |= soft_chunks_of(first, end);
    }
}

/* ---- Taking out ------------------------------------------------------------------------------- */

static void page_unlist(struct soft_page *page, struct soft_block *block)
{
    struct soft_block **place = &page->blocks;

    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a listed block is found before the end */
    while (*place != block) {
        struct soft_links *links = soft_block_links(*place);

        for (unsigned i = 0; i < HV_ARRAY_LEN(links->to); i++) {
            if (hv_load_relaxed(&links->to[i]) == block->uop) {
                hv_store_relaxed(&links->to[i], NULL);
            }
        }
        place = &(*place)->page_next[soft_block_side(*place, page->gfn)];
    }
    *place = block->page_next[soft_block_side(block, page->gfn)];
    for (struct soft_block *other = *place; other;
         other = other->page_next[soft_block_side(other, page->gfn)]) {
        struct soft_links *links = soft_block_links(other);

        for (unsigned i = 0; i < HV_ARRAY_LEN(links->to); i++) {
            if (hv_load_relaxed(&links->to[i]) == block->uop) {
                hv_store_relaxed(&links->to[i], NULL);
            }
        }
    }
}

void soft_code_drop_locked(struct soft_code *code, struct soft_block *block)
{
    _Atomic(struct soft_block *) *place = &code->bucket[soft_code_bucket(block->gpa, block->key)];
    struct soft_block *at = hv_load_relaxed(place);

    while (at != block) {
        place = &at->hash_next;
        at = hv_load_relaxed(place);
    }
    hv_store_release(place, hv_load_relaxed(&block->hash_next));
    block->dead = true;
    /* Pairs with the dispatch of whoever still comes here by a link or a jump-cache entry. */
    hv_store_release(&block->uop[0].handler, code->stale);
    page_unlist(*soft_page_slot(code, hv_gpa_to_gfn(block->gpa).v), block);
    if (soft_block_crosses(block)) {
        page_unlist(*soft_page_slot(code, block->second_gfn), block);
    }
    hv_count(&code->invalidations, 1);
}

/* Drop blocks of @page that overlap [first, end). Returns how many. */
static unsigned drop_overlapping(struct soft_code *code, struct soft_page *page, uint64_t first,
                                 uint64_t end)
{
    struct soft_block *block = page->blocks;
    unsigned dropped = 0;

    while (block) {
        struct soft_block *next = block->page_next[soft_block_side(block, page->gfn)];
        uint64_t block_first, block_end;

        soft_block_extent(block, page->gfn, &block_first, &block_end);
        if (block_first < end && first < block_end) {
            soft_code_drop_locked(code, block);
            dropped++;
        }
        block = next;
    }
    if (dropped) {
        soft_page_recount(page);
    }
    return dropped;
}

/* A page that is invalidated over and over is left uncached for a while. */
static void page_heat(struct soft_page *page)
{
    page->heat++;
    if (page->heat >= HEAT_LIMIT) {
        page->heat = HEAT_LIMIT / 2;
        page->shun = SHUN_LOOKUPS;
    }
}

bool soft_code_store(struct soft_code *code, struct hv_engine_vcpu *running, hv_gpa gpa,
                     unsigned bytes)
{
    uint64_t gfn = hv_gpa_to_gfn(gpa).v;
    uint64_t first = hv_gpa_offset(gpa);
    bool unseal = false, empty = false;
    struct soft_page **slot;

    hv_lock_take(&code->lock);
    slot = soft_page_slot(code, gfn);
    if (!*slot) {
        empty = true;
    } else {
        struct soft_page *page = *slot;

        page->serial = ++code->serial;
        if (page->chunks & soft_chunks_of(first, first + bytes)) {
            if (drop_overlapping(code, page, first, first + bytes) > 0) {
                page_heat(page);
                if (running) {
                    running->leave_block = true;
                    hv_count(&running->counters.block_invalidations, 1);
                }
            }
        } else if (!page->blocks && page->state == PAGE_SEALED && page->shun == 0) {
            /* The second store in a row that found no code: data lives here now. */
            soft_page_free(slot);
            unseal = true;
        }
    }
    hv_lock_drop(&code->lock);
    if (unseal) {
        hv_memory_unseal_code(code->memory, (hv_gfn){gfn});
    }
    return unseal || empty;
}

void soft_code_revoke(struct soft_code *code, hv_gfn gfn)
{
    struct soft_page **slot;
    bool unseal = false;

    hv_lock_take(&code->lock);
    slot = soft_page_slot(code, gfn.v);
    if (*slot) {
        (void)drop_overlapping(code, *slot, 0, HV_PAGE_SIZE);
        if ((*slot)->state == PAGE_SEALED) {
            soft_page_free(slot);
            unseal = true;
        } else {
            (*slot)->state = PAGE_REVOKED;
        }
    }
    hv_lock_drop(&code->lock);
    if (unseal) {
        hv_memory_unseal_code(code->memory, gfn);
    }
}
