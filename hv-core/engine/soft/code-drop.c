/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The ways a block goes: a store overlaps it, somebody wants its page WRITABLE, its memory is used
 * anew. A block that was taken out leads its runners to the lookup by its first micro-operation.
 *
 * A guest can put thousands of blocks into one page, or into one chain of the hash. So they are taken
 * out in batches: first all that go are marked dead, then each list that holds one is swept, once,
 * of all the dead in it. However many go, no list entry is looked at more than twice.
 */
#include "engine/soft/code-private.h"

/* ---- Taking out ------------------------------------------------------------------------------- */

/* Out of a chain of the hash. */
static void sweep_bucket(struct soft_code *code, unsigned number)
{
    _Atomic(struct soft_block *) *place = &code->bucket[number];
    struct soft_block *block;

    while ((block = hv_load_relaxed(place)) != NULL) {
        code->steps++;
        if (block->dead) {
            hv_store_release(place, hv_load_relaxed(&block->hash_next));
            block->listed &= (uint8_t)~SOFT_LISTED_HASH;
            /* Only now, or it would be found again at once. Pairs with the dispatch of whoever still
             * comes here by a link or a jump-cache entry. */
            hv_store_release(&block->uop[0].handler, code->stale);
        } else {
            place = &block->hash_next;
        }
    }
}

static void unlink_dead(struct soft_block *block)
{
    struct soft_links *links = soft_block_links(block);

    for (unsigned i = 0; i < HV_ARRAY_LEN(links->to); i++) {
        const struct soft_uop *to = hv_load_relaxed(&links->to[i]);

        if (to && soft_block_of(to)->dead) {
            hv_store_relaxed(&links->to[i], NULL);
        }
    }
}

/* Out of a page's list; what stays loses its links to the dead, which are all of the same page. The
 * chunks are counted anew. Returns those taken out, chained by the side they have had here. */
static struct soft_block *sweep_page(struct soft_code *code, struct soft_page *page)
{
    struct soft_block **place, *removed = NULL;

    HV_ASSERT(page);
    place = &page->blocks;
    page->chunks = 0;
    while (*place) {
        struct soft_block *block = *place;
        unsigned side = soft_block_side(block, page->gfn);
        uint64_t first, end;

        code->steps++;
        if (block->dead) {
            *place = block->page_next[side];
            block->page_next[side] = removed;
            block->listed &= (uint8_t) ~(SOFT_LISTED_PAGE << side);
            removed = block;
            page->count--;
            continue;
        }
        unlink_dead(block);
        soft_block_extent(block, page->gfn, &first, &end);
        page->chunks |= soft_chunks_of(first, end);
        place = &block->page_next[side];
    }
    return removed;
}

void soft_code_kill_locked(struct soft_code *code, struct soft_block *block)
{
    block->dead = true;
    hv_count(&code->invalidations, 1);
}

void soft_code_bury_locked(struct soft_code *code, struct soft_block *block)
{
    if (block->listed & SOFT_LISTED_HASH) {
        sweep_bucket(code, soft_code_bucket(block->gpa, block->key));
    }
    if (block->listed & SOFT_LISTED_PAGE) {
        (void)sweep_page(code, *soft_page_slot(code, hv_gpa_to_gfn(block->gpa).v));
    }
    if (block->listed & SOFT_LISTED_SECOND) {
        (void)sweep_page(code, *soft_page_slot(code, block->second_gfn));
    }
}

unsigned soft_page_drop_locked(struct soft_code *code, struct soft_page *page, uint64_t first,
                               uint64_t end)
{
    struct soft_block *block, *next;
    unsigned dropped = 0;

    for (block = page->blocks; block; block = block->page_next[soft_block_side(block, page->gfn)]) {
        uint64_t block_first, block_end;

        code->steps++;
        soft_block_extent(block, page->gfn, &block_first, &block_end);
        if (block_first < end && first < block_end) {
            soft_code_kill_locked(code, block);
            dropped++;
        }
    }
    for (block = dropped ? sweep_page(code, page) : NULL; block; block = next) {
        next = block->page_next[soft_block_side(block, page->gfn)];
        soft_code_bury_locked(code, block);
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
            if (soft_page_drop_locked(code, page, first, first + bytes) > 0) {
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
        (void)soft_page_drop_locked(code, *slot, 0, HV_PAGE_SIZE);
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
