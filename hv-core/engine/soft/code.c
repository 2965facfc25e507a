/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The block cache: lookup and publication. See block.h for the states of a page.
 *
 * Locks: HV_RANK_CODE around every change; never while mem is called (sealing takes locks of lower
 * rank). Readers take none: they go through acquire loads of hash chains whose blocks stay readable
 * until this vCPU acknowledges.
 */
#include "engine/soft/code.h"

#include "engine/soft/code-private.h"
#include "engine/soft/interp.h"
#include "engine/soft/soft-uops.h"

#include <errno.h>

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

bool soft_code_shrink(struct soft_code *code)
{
    for (unsigned i = 0; i < SEGMENTS; i++) {
        if (code->segment[i].memory) {
            hv_free(code->segment[i].memory);
            code->segment[i].memory = NULL;
            return true;
        }
    }
    return false;
}

void soft_code_destroy(struct soft_code *code)
{
    if (!code) {
        return;
    }
    for (unsigned i = 0; i < PAGE_BUCKETS; i++) {
        while (code->page[i]) {
            soft_page_free(&code->page[i]);
        }
    }
    while (soft_code_shrink(code)) {
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
    return match(hv_load_acquire(&code->bucket[soft_code_bucket(gpa, key)]), gpa, key);
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
    slot = soft_page_slot(code, gfn.v);
    if (!*slot) {
        hv_lock_drop(&code->lock);
        fresh = hv_alloc(1, sizeof(*fresh));
        if (!fresh) {
            return -EBUSY;
        }
        hv_lock_take(&code->lock);
        slot = soft_page_slot(code, gfn.v);
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
    slot = soft_page_slot(code, gfn.v);
    if (sealed && (*slot)->state == PAGE_SEALING) {
        (*slot)->state = PAGE_SEALED;
        sealed = false;
    } else {
        soft_page_free(slot);
        rc = rc && rc != -ENOENT ? rc : -EBUSY;
    }
    hv_lock_drop(&code->lock);
    if (sealed) {
        /* It was revoked meanwhile: the hold is ours to give up. */
        hv_memory_unseal_code(code->memory, gfn);
    }
    return rc;
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
    block->listed = 0;
    memcpy(block->uop, plan->uop, plan->uops * sizeof(*plan->uop));
    block->uop[0].insns = (uint8_t)plan->insns;
    links = soft_block_links(block);
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
        const struct soft_page *page = *soft_page_slot(code, gfn[i]);

        if (!page || page->state != PAGE_SEALED || page->serial != plan->serial[i]) {
            return false;
        }
    }
    return true;
}

/* Room in the pages' lists: a full one is emptied. */
static void make_room_locked(struct soft_code *code, const struct soft_block_plan *plan)
{
    uint64_t gfn[2] = {hv_gpa_to_gfn(plan->gpa).v, plan->second_gfn};

    for (unsigned i = 0; i < 2 && gfn[i] != UINT64_MAX; i++) {
        struct soft_page *page = *soft_page_slot(code, gfn[i]);

        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it was found unchanged */
        if (page->count >= PAGE_BLOCKS) {
            (void)soft_page_drop_locked(code, page, 0, HV_PAGE_SIZE);
        }
    }
}

static void enlist_locked(struct soft_code *code, struct soft_block *block)
{
    _Atomic(struct soft_block *) *head = &code->bucket[soft_code_bucket(block->gpa, block->key)];
    uint64_t gfn[2] = {hv_gpa_to_gfn(block->gpa).v, block->second_gfn};

    for (unsigned i = 0; i < 2 && gfn[i] != UINT64_MAX; i++) {
        struct soft_page *page = *soft_page_slot(code, gfn[i]);
        uint64_t first, end;

        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): its page was found unchanged */
        block->page_next[i] = page->blocks;
        block->listed |= (uint8_t)(SOFT_LISTED_PAGE << i);
        page->blocks = block;
        page->count++;
        soft_block_extent(block, gfn[i], &first, &end);
        page->chunks |= soft_chunks_of(first, end);
    }
    block->listed |= SOFT_LISTED_HASH;
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
            block = soft_code_take_memory(code, soft_block_bytes(plan));
            if (block) {
                make_room_locked(code, plan);
                soft_block_fill(block, plan);
                enlist_locked(code, block);
            }
        }
        hv_lock_drop(&code->lock);
        if (!block && !rc) {
            soft_code_provide_segment(code);
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
    const struct soft_block *block = soft_block_of(to);

    hv_lock_take(&code->lock);
    if (!block->dead && !soft_block_crosses(block)) {
        /* Pairs with the acquire load of FOLLOW. */
        hv_store_release(&soft_uop_links(branch)->to[which], to);
    }
    hv_lock_drop(&code->lock);
}
