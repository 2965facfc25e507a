/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The memory of blocks: segments filled in turn, the oldest emptied when all are full. Nobody may
 * read a block of it any more when it is filled anew (block.h).
 */
#include "engine/soft/code-private.h"

/* Memory of a segment that holds nothing yet, or NULL: recycle. */
struct soft_block *soft_code_take_memory(struct soft_code *code, size_t bytes)
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
void soft_code_provide_segment(struct soft_code *code)
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

/* ---- Recycling -------------------------------------------------------------------------------- */

static struct soft_block *block_at(const struct segment *segment, size_t offset)
{
    return (struct soft_block *)(void *)(segment->memory + offset);
}

/* Take out all blocks of some segments. */
static void empty_segments(struct soft_code *code, const struct segment *segment, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        for (size_t at = 0; at < segment[i].used; at += block_at(&segment[i], at)->bytes) {
            struct soft_block *block = block_at(&segment[i], at);

            if (!block->dead) {
                soft_code_kill_locked(code, block);
            }
        }
    }
    for (unsigned i = 0; i < count; i++) {
        for (size_t at = 0; at < segment[i].used; at += block_at(&segment[i], at)->bytes) {
            soft_code_bury_locked(code, block_at(&segment[i], at));
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
                soft_page_free(slot);
            } else {
                slot = &(*slot)->next;
            }
        }
    }
    return count;
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

/* What was taken out before @number is acknowledged by all, nothing is put in any more. */
static uint64_t begin_locked(struct soft_code *code)
{
    uint64_t number = hv_load_relaxed(&code->recycled) + 1;

    code->recycling = true;
    hv_store_seq(&code->recycled, number);
    return number;
}

static void reuse_locked(struct soft_code *code, struct segment *segment)
{
    hv_store_relaxed(&code->bytes, hv_load_relaxed(&code->bytes) - segment->used);
    segment->used = 0;
}

static void unseal_empty_pages(struct soft_code *code)
{
    uint64_t gfns[64];
    unsigned count;

    do {
        hv_lock_take(&code->lock);
        count = collect_empty_pages(code, gfns, HV_ARRAY_LEN(gfns));
        hv_lock_drop(&code->lock);
        for (unsigned i = 0; i < count; i++) {
            hv_memory_unseal_code(code->memory, (hv_gfn){gfns[i]});
        }
    } while (count == HV_ARRAY_LEN(gfns));
}

void soft_code_recycle(struct soft_code *code, unsigned index)
{
    struct segment *segment = NULL;
    uint64_t number = 0;

    hv_lock_take(&code->lock);
    if (!code->recycling) {
        segment = &code->segment[(code->current + 1) % SEGMENTS];
        empty_segments(code, segment, 1);
        number = begin_locked(code);
    }
    hv_lock_drop(&code->lock);
    if (!segment) {
        return;
    }
    soft_code_acknowledge(code, index);
    wait_for_others(code, index, number);
    hv_lock_take(&code->lock);
    reuse_locked(code, segment);
    code->recycling = false;
    hv_lock_drop(&code->lock);
    unseal_empty_pages(code);
}

bool soft_code_empty(struct soft_code *code, unsigned index)
{
    uint64_t number = 0;
    bool begun;

    hv_lock_take(&code->lock);
    begun = !code->recycling;
    if (begun) {
        empty_segments(code, code->segment, SEGMENTS);
        number = begin_locked(code);
    }
    hv_lock_drop(&code->lock);
    if (begun) {
        soft_code_acknowledge(code, index);
        wait_for_others(code, index, number);
    }
    return begun;
}

void soft_code_reopen(struct soft_code *code)
{
    hv_lock_take(&code->lock);
    for (unsigned i = 0; i < SEGMENTS; i++) {
        reuse_locked(code, &code->segment[i]);
    }
    code->recycling = false;
    hv_lock_drop(&code->lock);
    unseal_empty_pages(code);
}
