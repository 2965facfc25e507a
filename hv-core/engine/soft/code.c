/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The block cache: lookup, publication, and the ways a block goes. See block.h for the states.
 *
 * Locks: HV_RANK_CODE around every change; never while mem is called (sealing takes locks of lower
 * rank). Readers take none: they go through acquire loads of hash chains whose blocks stay readable
 * until this vCPU acknowledges.
 */
#include "engine/soft/code.h"

#include "engine/soft/block.h"
#include "engine/soft/interp.h"
#include "engine/soft/soft-uops.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "sync/lock.h"

#include <errno.h>

#define BUCKETS       16384u
#define PAGE_BUCKETS  4096u
#define SEGMENTS      16u
#define SEGMENT_BYTES ((size_t)1 << 20)
/* Invalidations after which a page runs uncached, and for how many lookups. */
#define HEAT_LIMIT    64u
#define SHUN_LOOKUPS  4096u

enum page_state {
    PAGE_SEALING,
    PAGE_SEALED,
    PAGE_REVOKED, /* while its sealing was under way */
};

struct soft_page {
    uint64_t gfn;
    struct soft_page *next;
    struct soft_block *blocks;
    uint64_t serial; /* changes with every store */
    uint32_t chunks; /* bit per 128 bytes that blocks overlap */
    uint16_t heat;
    uint16_t shun;
    enum page_state state;
};

struct segment {
    char *memory;
    size_t used;
};

struct soft_code {
    struct hv_memory *memory;
    const void *stale; /* label of taken-out blocks */
    struct hv_lock lock;
    /* Guarded by the lock. */
    struct soft_page *page[PAGE_BUCKETS];
    struct segment segment[SEGMENTS];
    unsigned current;
    bool recycling;
    uint64_t serial;
    struct hv_doorbell *bell[HV_MAX_VCPUS];
    /* Atomic: recycling number each vCPU has acknowledged; pairs with soft_code_recycle(). */
    _Atomic uint64_t seen[HV_MAX_VCPUS];
    _Atomic uint64_t recycled;
    _Atomic uint64_t bytes;
    _Atomic uint64_t invalidations;
    /* Atomic: heads of hash chains; written under the lock. */
    _Atomic(struct soft_block *) bucket[BUCKETS];
};

static unsigned bucket_of(hv_gpa gpa, uint32_t key)
{
    uint64_t mixed = (gpa.v + key) * UINT64_C(0x9e3779b97f4a7c15);

    return (unsigned)(mixed >> 50);
}
HV_STATIC_ASSERT(BUCKETS == 1u << (64 - 50), "the hash gives a bucket");

static struct soft_page **page_slot(struct soft_code *code, uint64_t gfn)
{
    struct soft_page **slot = &code->page[gfn % PAGE_BUCKETS];

    while (*slot && (*slot)->gfn != gfn) {
        slot = &(*slot)->next;
    }
    return slot;
}

static void page_free(struct soft_page **slot)
{
    struct soft_page *page = *slot;

    *slot = page->next;
    hv_free(page);
}

int soft_code_create(struct hv_memory *memory, struct soft_code **code_out)
{
    struct soft_code *code = hv_alloc(1, sizeof(*code));
    const void *const *labels;

    *code_out = code;
    if (!code) {
        return -ENOMEM;
    }
    (void)soft_interpret(NULL, NULL, &labels);
    code->memory = memory;
    code->stale = labels[soft_uop_stale()];
    hv_lock_init(&code->lock, HV_RANK_CODE, "engine.code", 0);
    return 0;
}

void soft_code_destroy(struct soft_code *code)
{
    if (!code) {
        return;
    }
    for (unsigned i = 0; i < PAGE_BUCKETS; i++) {
        while (code->page[i]) {
            page_free(&code->page[i]);
        }
    }
    for (unsigned i = 0; i < SEGMENTS; i++) {
        hv_free(code->segment[i].memory);
    }
    hv_lock_finish(&code->lock);
    hv_free(code);
}

uint64_t soft_code_bytes(const struct soft_code *code)
{
    return hv_load_relaxed(&code->bytes);
}

void soft_code_add_vcpu(struct soft_code *code, unsigned index, struct hv_doorbell *bell)
{
    hv_lock_take(&code->lock);
    code->bell[index] = bell;
    hv_store_seq(&code->seen[index], hv_load_relaxed(&code->recycled));
    hv_lock_drop(&code->lock);
}

void soft_code_remove_vcpu(struct soft_code *code, unsigned index)
{
    hv_lock_take(&code->lock);
    code->bell[index] = NULL;
    hv_lock_drop(&code->lock);
}

void soft_code_acknowledge(struct soft_code *code, unsigned index)
{
    hv_store_seq(&code->seen[index], hv_load_seq(&code->recycled));
}

static const struct soft_block *match(const struct soft_block *block, hv_gpa gpa, uint32_t key)
{
    while (block && (block->gpa.v != gpa.v || block->key != key)) {
        block = hv_load_acquire(&block->hash_next);
    }
    return block;
}

const struct soft_block *soft_code_find(const struct soft_code *code, hv_gpa gpa, uint32_t key)
{
    return match(hv_load_acquire(&code->bucket[bucket_of(gpa, key)]), gpa, key);
}

const struct soft_block *soft_code_find_next(const struct soft_block *block)
{
    return match(hv_load_acquire(&block->hash_next), block->gpa, block->key);
}

/* ---- Pages ------------------------------------------------------------------------------------ */

static int open_locked(struct soft_code *code, struct soft_page **slot, struct soft_page *fresh,
                       uint64_t gfn, uint64_t *serial_out)
{
    struct soft_page *page = *slot;

    if (!page) {
        *fresh = (struct soft_page){.gfn = gfn, .state = PAGE_SEALING, .serial = ++code->serial};
        *slot = fresh;
        return -EAGAIN;
    }
    if (page->state != PAGE_SEALED) {
        return -EBUSY;
    }
    if (page->shun > 0) {
        page->shun--;
        return -EBUSY;
    }
    *serial_out = page->serial;
    return 0;
}

int soft_code_open(struct soft_code *code, hv_gfn gfn, uint64_t *serial_out)
{
    /* Allocation never happens under the lock. */
    struct soft_page *fresh = NULL;
    struct soft_page **slot;
    int rc;

    *serial_out = 0;
    hv_lock_take(&code->lock);
    slot = page_slot(code, gfn.v);
    if (!*slot) {
        hv_lock_drop(&code->lock);
        fresh = hv_alloc(1, sizeof(*fresh));
        if (!fresh) {
            return -EBUSY;
        }
        hv_lock_take(&code->lock);
        slot = page_slot(code, gfn.v);
    }
    rc = open_locked(code, slot, fresh, gfn.v, serial_out);
    if (rc == -EAGAIN) {
        fresh = NULL;
    }
    hv_lock_drop(&code->lock);
    hv_free(fresh);
    return rc;
}

int soft_code_seal(struct soft_code *code, hv_gfn gfn, const struct hv_holder *self)
{
    int rc = hv_memory_seal_code(code->memory, gfn, self);
    struct soft_page **slot;
    bool sealed = !rc;

    hv_lock_take(&code->lock);
    slot = page_slot(code, gfn.v);
    if (sealed && (*slot)->state == PAGE_SEALING) {
        (*slot)->state = PAGE_SEALED;
        sealed = false;
    } else {
        page_free(slot);
        rc = rc && rc != -ENOENT ? rc : -EBUSY;
    }
    hv_lock_drop(&code->lock);
    if (sealed) {
        /* It was revoked meanwhile: the hold is ours to give up. */
        hv_memory_unseal_code(code->memory, gfn);
    }
    return rc;
}

static unsigned side_of(const struct soft_block *block, uint64_t gfn)
{
    return hv_gpa_to_gfn(block->gpa).v == gfn ? 0 : 1;
}

/* First and one past the last byte of @block inside page @gfn. */
static void extent_in(const struct soft_block *block, uint64_t gfn, uint64_t *first_out,
                      uint64_t *end_out)
{
    uint64_t offset = hv_gpa_offset(block->gpa);
    uint64_t end = offset + block->code_bytes;

    if (side_of(block, gfn) == 0) {
        *first_out = offset;
        *end_out = end < HV_PAGE_SIZE ? end : HV_PAGE_SIZE;
    } else {
        *first_out = 0;
        *end_out = end - HV_PAGE_SIZE;
    }
}

static uint32_t chunks_of(uint64_t first, uint64_t end)
{
    unsigned low = (unsigned)(first / SOFT_CHUNK_BYTES);
    unsigned high = (unsigned)((end - 1) / SOFT_CHUNK_BYTES);

    return (uint32_t)(((UINT64_C(2) << high) - 1) & ~((UINT64_C(1) << low) - 1));
}

static void page_recount(struct soft_page *page)
{
    page->chunks = 0;
    for (const struct soft_block *block = page->blocks; block;
         block = block->page_next[side_of(block, page->gfn)]) {
        uint64_t first, end;

        extent_in(block, page->gfn, &first, &end);
        page->chunks |= chunks_of(first, end);
    }
}

/* ---- Taking out ------------------------------------------------------------------------------- */

static struct soft_links *links_of(struct soft_block *block)
{
    return (struct soft_links *)(void *)&block->uop[block->uops];
}

static void page_unlist(struct soft_page *page, struct soft_block *block)
{
    struct soft_block **place = &page->blocks;

    while (*place != block) {
        struct soft_links *links = links_of(*place);

        for (unsigned i = 0; i < HV_ARRAY_LEN(links->to); i++) {
            if (hv_load_relaxed(&links->to[i]) == block->uop) {
                hv_store_relaxed(&links->to[i], NULL);
            }
        }
        place = &(*place)->page_next[side_of(*place, page->gfn)];
    }
    *place = block->page_next[side_of(block, page->gfn)];
    for (struct soft_block *other = *place; other;
         other = other->page_next[side_of(other, page->gfn)]) {
        struct soft_links *links = links_of(other);

        for (unsigned i = 0; i < HV_ARRAY_LEN(links->to); i++) {
            if (hv_load_relaxed(&links->to[i]) == block->uop) {
                hv_store_relaxed(&links->to[i], NULL);
            }
        }
    }
}

static void drop_locked(struct soft_code *code, struct soft_block *block)
{
    _Atomic(struct soft_block *) *place = &code->bucket[bucket_of(block->gpa, block->key)];
    struct soft_block *at = hv_load_relaxed(place);

    while (at != block) {
        place = &at->hash_next;
        at = hv_load_relaxed(place);
    }
    hv_store_release(place, hv_load_relaxed(&block->hash_next));
    block->dead = true;
    /* Pairs with the dispatch of whoever still comes here by a link or a jump-cache entry. */
    hv_store_release(&block->uop[0].handler, code->stale);
    page_unlist(*page_slot(code, hv_gpa_to_gfn(block->gpa).v), block);
    if (soft_block_crosses(block)) {
        page_unlist(*page_slot(code, block->second_gfn), block);
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
        struct soft_block *next = block->page_next[side_of(block, page->gfn)];
        uint64_t block_first, block_end;

        extent_in(block, page->gfn, &block_first, &block_end);
        if (block_first < end && first < block_end) {
            drop_locked(code, block);
            dropped++;
        }
        block = next;
    }
    if (dropped) {
        page_recount(page);
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
    slot = page_slot(code, gfn);
    if (!*slot) {
        empty = true;
    } else {
        struct soft_page *page = *slot;

        page->serial = ++code->serial;
        if (page->chunks & chunks_of(first, first + bytes)) {
            if (drop_overlapping(code, page, first, first + bytes) > 0) {
                page_heat(page);
                if (running) {
                    running->leave_block = true;
                    hv_count(&running->counters.block_invalidations, 1);
                }
            }
        } else if (!page->blocks && page->state == PAGE_SEALED && page->shun == 0) {
            /* The second store in a row that found no code: data lives here now. */
            page_free(slot);
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
    slot = page_slot(code, gfn.v);
    if (*slot) {
        (void)drop_overlapping(code, *slot, 0, HV_PAGE_SIZE);
        if ((*slot)->state == PAGE_SEALED) {
            page_free(slot);
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

/* ---- Putting in ------------------------------------------------------------------------------- */

size_t soft_block_bytes(const struct soft_block_plan *plan)
{
    size_t bytes = sizeof(struct soft_block) + (plan->uops + 1) * sizeof(struct soft_uop) +
                   plan->calls * sizeof(struct soft_call);

    return hv_align_up(bytes, 32);
}

void soft_block_fill(struct soft_block *block, const struct soft_block_plan *plan)
{
    struct soft_links *links;
    struct soft_call *call;

    block->gpa = plan->gpa;
    block->second_gfn = plan->second_gfn;
    block->key = plan->key;
    block->bytes = (uint32_t)soft_block_bytes(plan);
    block->code_bytes = (uint16_t)plan->code_bytes;
    block->uops = (uint16_t)plan->uops;
    block->dead = false;
    memcpy(block->uop, plan->uop, plan->uops * sizeof(*plan->uop));
    block->uop[0].insns = (uint8_t)plan->insns;
    links = links_of(block);
    memcpy(links, plan->links, sizeof(*links));
    call = (struct soft_call *)(void *)(links + 1);
    memcpy(call, plan->call, plan->calls * sizeof(*call));
    for (unsigned i = 0; i < plan->uops; i++) {
        struct soft_uop *uop = &block->uop[i];

        if (hv_load_relaxed(&uop->handler) == plan->function) {
            uop->call = &call[uop->imm];
        }
    }
}

static bool pages_unchanged(struct soft_code *code, const struct soft_block_plan *plan)
{
    uint64_t gfn[2] = {hv_gpa_to_gfn(plan->gpa).v, plan->second_gfn};

    for (unsigned i = 0; i < 2 && gfn[i] != UINT64_MAX; i++) {
        const struct soft_page *page = *page_slot(code, gfn[i]);

        if (!page || page->state != PAGE_SEALED || page->serial != plan->serial[i]) {
            return false;
        }
    }
    return true;
}

/* Memory of a segment that holds nothing yet, or NULL: recycle. */
static struct soft_block *take_memory(struct soft_code *code, size_t bytes)
{
    struct segment *segment = &code->segment[code->current];
    struct soft_block *block;

    if (code->recycling || bytes > SEGMENT_BYTES) {
        return NULL;
    }
    if (segment->memory && segment->used + bytes > SEGMENT_BYTES) {
        unsigned next = (code->current + 1) % SEGMENTS;

        if (code->segment[next].used > 0) {
            return NULL;
        }
        code->current = next;
        segment = &code->segment[next];
    }
    if (!segment->memory) {
        return NULL;
    }
    block = (struct soft_block *)(void *)(segment->memory + segment->used);
    segment->used += bytes;
    hv_count(&code->bytes, bytes);
    return block;
}

/* Give the segment that is to be filled memory; it is asked for outside the lock. */
static void provide_segment(struct soft_code *code)
{
    char *memory = NULL;
    unsigned at;

    hv_lock_take(&code->lock);
    at = code->current;
    if (code->segment[at].memory) {
        at = (at + 1) % SEGMENTS;
    }
    if (!code->segment[at].memory) {
        hv_lock_drop(&code->lock);
        memory = hv_alloc_aligned(HV_CACHE_LINE, SEGMENT_BYTES);
        hv_lock_take(&code->lock);
        if (!code->segment[at].memory) {
            code->segment[at] = (struct segment){.memory = memory};
            memory = NULL;
        }
    }
    hv_lock_drop(&code->lock);
    hv_free(memory);
}

static void enlist_locked(struct soft_code *code, struct soft_block *block)
{
    _Atomic(struct soft_block *) *head = &code->bucket[bucket_of(block->gpa, block->key)];
    uint64_t gfn[2] = {hv_gpa_to_gfn(block->gpa).v, block->second_gfn};

    for (unsigned i = 0; i < 2 && gfn[i] != UINT64_MAX; i++) {
        struct soft_page *page = *page_slot(code, gfn[i]);
        uint64_t first, end;

        block->page_next[i] = page->blocks;
        page->blocks = block;
        extent_in(block, gfn[i], &first, &end);
        page->chunks |= chunks_of(first, end);
    }
    hv_store_relaxed(&block->hash_next, hv_load_relaxed(head));
    /* Pairs with soft_code_find(): the block is whole before it can be found. */
    hv_store_release(head, block);
}

int soft_code_insert(struct soft_code *code, const struct soft_block_plan *plan,
                     const struct soft_block **block_out)
{
    struct soft_block *block = NULL;
    int rc = 0;

    *block_out = NULL;
    for (unsigned attempt = 0; attempt < 2 && !block && !rc; attempt++) {
        hv_lock_take(&code->lock);
        if (!pages_unchanged(code, plan)) {
            rc = -EAGAIN;
        } else {
            block = take_memory(code, soft_block_bytes(plan));
            if (block) {
                soft_block_fill(block, plan);
                enlist_locked(code, block);
            }
        }
        hv_lock_drop(&code->lock);
        if (!block && !rc) {
            provide_segment(code);
        }
    }
    if (!rc && !block) {
        rc = -ENOSPC;
    }
    *block_out = block;
    return rc;
}

void soft_code_link(struct soft_code *code, const struct soft_uop *branch,
                    enum soft_link_index which, const struct soft_uop *to)
{
    const struct soft_block *block = HV_CONTAINER_OF((uintptr_t)to, struct soft_block, uop);

    hv_lock_take(&code->lock);
    if (!block->dead && !soft_block_crosses(block)) {
        /* Pairs with the acquire load of FOLLOW. */
        hv_store_release(&soft_uop_links(branch)->to[which], to);
    }
    hv_lock_drop(&code->lock);
}

/* ---- Recycling -------------------------------------------------------------------------------- */

/* Take out all blocks of the segment after the current one. */
static void empty_segment(struct soft_code *code, struct segment *segment)
{
    size_t at = 0;

    while (at < segment->used) {
        struct soft_block *block = (struct soft_block *)(void *)(segment->memory + at);

        at += block->bytes;
        if (!block->dead) {
            drop_locked(code, block);
        }
    }
}

/* Pages left without code, @max of them: their frames are to be unsealed. */
static unsigned collect_empty_pages(struct soft_code *code, uint64_t *gfns, unsigned max)
{
    unsigned count = 0;

    for (unsigned i = 0; i < PAGE_BUCKETS && count < max; i++) {
        struct soft_page **slot = &code->page[i];

        while (*slot && count < max) {
            if (!(*slot)->blocks && (*slot)->state == PAGE_SEALED) {
                gfns[count++] = (*slot)->gfn;
                page_free(slot);
            } else {
                slot = &(*slot)->next;
            }
        }
    }
    return count;
}

static void recount_pages(struct soft_code *code)
{
    for (unsigned i = 0; i < PAGE_BUCKETS; i++) {
        for (struct soft_page *page = code->page[i]; page; page = page->next) {
            page_recount(page);
        }
    }
}

/* Wait until no other vCPU can hold a block that was taken out before recycling @number. */
static void wait_for_others(struct soft_code *code, unsigned self, uint64_t number)
{
    for (unsigned i = 0; i < HV_MAX_VCPUS; i++) {
        struct hv_doorbell *bell = code->bell[i];

        if (i == self || !bell) {
            continue;
        }
        hv_doorbell_ring(bell, HV_REQUEST_CODE);
        for (;;) {
            uint32_t since = hv_doorbell_acknowledged(bell);

            if (hv_load_seq(&code->seen[i]) >= number || !hv_doorbell_in_guest(bell)) {
                break;
            }
            hv_doorbell_wait(bell, since);
        }
    }
}

void soft_code_recycle(struct soft_code *code, unsigned index)
{
    uint64_t gfns[64];
    unsigned count;
    struct segment *segment = NULL;
    uint64_t number = 0;

    hv_lock_take(&code->lock);
    if (!code->recycling) {
        unsigned next = (code->current + 1) % SEGMENTS;

        segment = &code->segment[next];
        code->recycling = true;
        empty_segment(code, segment);
        recount_pages(code);
        number = hv_load_relaxed(&code->recycled) + 1;
        hv_store_seq(&code->recycled, number);
    }
    hv_lock_drop(&code->lock);
    if (!segment) {
        return;
    }
    soft_code_acknowledge(code, index);
    wait_for_others(code, index, number);
    hv_lock_take(&code->lock);
    hv_store_relaxed(&code->bytes, hv_load_relaxed(&code->bytes) - segment->used);
    segment->used = 0;
    code->recycling = false;
    hv_lock_drop(&code->lock);
    do {
        hv_lock_take(&code->lock);
        count = collect_empty_pages(code, gfns, HV_ARRAY_LEN(gfns));
        hv_lock_drop(&code->lock);
        for (unsigned i = 0; i < count; i++) {
            hv_memory_unseal_code(code->memory, (hv_gfn){gfns[i]});
        }
    } while (count == HV_ARRAY_LEN(gfns));
}
