/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Type references: the type word of a frame and the flush that a change of type asks for.
 *
 * Checked by tests/model/stamp.pml (why STAMPING), stamp-token.pml (why it needs a token) and
 * foreign.pml (why FTAINT); the same schedules are scripted in tests/unit/mem/test-frame-type.c.
 */
#include "mem/frame-private.h"

#include <errno.h>

#include "base/assert.h"
#include "base/bits.h"
#include "mem/foreign-strategy-private.h"
#include "mem/memory-private.h"
#include "sync/race.h"

#define TYPE_SHIFT   60
#define REASON_SHIFT 50
#define REASON_MASK  UINT64_C(7)
#define TYPE_BITS    (UINT64_C(15) << TYPE_SHIFT)
#define REASON_BITS  (REASON_MASK << REASON_SHIFT)

/* A thread takes tokens in blocks, so that puts of different threads share no line. */
#define TOKEN_BLOCK  4096

static struct {
    _Atomic uint64_t next_block;
} frame_tokens;

static _Thread_local struct {
    uint64_t next, end;
} thread_tokens;

/* Unique among all puts: 2^48 of them last 8.9 years at a million a second. */
static uint64_t token_take(void)
{
    if (thread_tokens.next == thread_tokens.end) {
        thread_tokens.next = hv_add_relaxed(&frame_tokens.next_block, TOKEN_BLOCK);
        thread_tokens.end = thread_tokens.next + TOKEN_BLOCK;
    }
    return thread_tokens.next++ & HV_FRAME_VALUE_MASK;
}

static uint64_t type_pack(enum hv_frame_type type, unsigned reason)
{
    return (uint64_t)type << TYPE_SHIFT | (uint64_t)reason << REASON_SHIFT;
}

static enum hv_frame_type word_type(uint64_t word)
{
    return (enum hv_frame_type)(word >> TYPE_SHIFT);
}

static unsigned word_reasons(uint64_t word)
{
    return (unsigned)((word & REASON_BITS) >> REASON_SHIFT);
}

enum hv_frame_type hv_frame_type(const struct hv_frame *frame)
{
    return word_type(hv_load_seq(&frame->type));
}

unsigned hv_frame_reasons(const struct hv_frame *frame)
{
    return word_reasons(hv_load_seq(&frame->type));
}

uint64_t hv_frame_type_references(const struct hv_frame *frame)
{
    uint64_t word = hv_load_seq(&frame->type);

    return word & HV_FRAME_INUSE ? word & HV_FRAME_VALUE_MASK : 0;
}

bool hv_frame_revocable(const struct hv_frame *frame)
{
    uint64_t word = hv_load_seq(&frame->type);

    return (word & HV_FRAME_INUSE) && word_type(word) == HV_FRAME_TYPE_SEALED &&
           word_reasons(word) == HV_SEAL_CODE;
}

/* For a reason that nobody gives up on request. */
static bool sealed_otherwise(const struct hv_frame *frame)
{
    uint64_t word = hv_load_seq(&frame->type);

    return (word & HV_FRAME_INUSE) && word_type(word) == HV_FRAME_TYPE_SEALED &&
           word_reasons(word) != HV_SEAL_CODE;
}

int hv_frame_type_take(struct hv_frame *frame, enum hv_frame_type type, unsigned reason,
                       bool foreign, struct hv_frame_taken *taken_out)
{
    uint64_t asked = type_pack(type, reason);
    uint64_t taint = foreign ? HV_FRAME_FTAINT : 0;
    uint64_t word = hv_load_seq(&frame->type);
    uint64_t wanted;

    HV_ASSERT(type != HV_FRAME_TYPE_NONE && (reason != 0) == (type == HV_FRAME_TYPE_SEALED));
    do {
        taken_out->old = word;
        if (!(word & HV_FRAME_INUSE)) {
            /* Other reasons are a change as well: what was cached for the old ones must go. */
            bool same = (word & (TYPE_BITS | REASON_BITS)) == asked;

            taken_out->how = same ? HV_FRAME_HOW_SAME : HV_FRAME_HOW_CHANGED;
            wanted = asked | HV_FRAME_INUSE | 1 | taint | (word & HV_FRAME_FTAINT) |
                     (same ? word & HV_FRAME_VALIDATED : 0);
        } else if (word_type(word) != type) {
            return -EBUSY;
        } else if ((word & HV_FRAME_VALUE_MASK) == HV_FRAME_VALUE_MASK) {
            return -EOVERFLOW;
        } else {
            taken_out->how = HV_FRAME_HOW_SHARED;
            wanted = (word + 1) | taint | (asked & REASON_BITS);
        }
    } while (!hv_cas_weak_seq(&frame->type, &word, wanted));
    return 0;
}

/*
 * By the old type (XSA-408). WRITABLE leaves writable entries; PGTABLE cached walks; COW the
 * mappings of those it was shared with. CODE leaves entries that only read, which are right for
 * whatever the owner makes of its frame, and its blocks went before its last reference did (D4).
 */
bool hv_frame_type_must_flush(const struct hv_frame_taken *taken)
{
    return taken->how == HV_FRAME_HOW_CHANGED &&
           (word_type(taken->old) == HV_FRAME_TYPE_WRITABLE ||
            (word_reasons(taken->old) & (HV_SEAL_COW | HV_SEAL_PGTABLE)) != 0);
}

static void await_validated(struct hv_arena *arena, const struct hv_frame *frame)
{
    uint32_t ticket;

    if (hv_load_seq(&frame->type) & HV_FRAME_VALIDATED) {
        return;
    }
    hv_lock_check_wait(HV_RANK_FLUSH_WAIT, "validation of a frame");
    for (;;) {
        ticket = hv_eventcount_listen(&arena->settled);
        if (hv_load_seq(&frame->type) & HV_FRAME_VALIDATED) {
            hv_eventcount_cancel(&arena->settled);
            return;
        }
        hv_eventcount_wait(&arena->settled, ticket, HV_NS_NEVER);
    }
}

/* The flush of a change; true when every mapper took part. */
static bool flush_old_use(struct hv_arena *arena, const struct hv_frame_taken *taken,
                          const struct hv_frame_access *access)
{
    struct hv_memory *memory = access->memory;
    uint64_t stamp = taken->old & HV_FRAME_VALUE_MASK;
    /* Mappers that only read one of those it was shared with: no taint tells of them. */
    uint64_t mappers = word_reasons(taken->old) & HV_SEAL_COW ? HV_MAPPERS_ALL : HV_MAPPERS_NONE;

    if (taken->old & HV_FRAME_STAMPING) {
        /* Its put has not read the clock yet, or not published it: no stamp of its is newer. */
        stamp = hv_flush_clock(&arena->holders);
    }
    hv_holders_flush(&arena->holders, memory->holder, hv_memory_flush_mask(memory, access->self),
                     mappers, stamp, &memory->flushes);
    return arena->strategy->change && arena->strategy->change(arena, memory, taken->old, stamp);
}

void hv_frame_type_settle(struct hv_arena *arena, struct hv_frame *frame,
                          const struct hv_frame_taken *taken, const struct hv_frame_access *access)
{
    bool cleansed = false;
    uint64_t word;
    uint64_t wanted;

    if (taken->how == HV_FRAME_HOW_SHARED) {
        await_validated(arena, frame);
        return;
    }
    if (taken->how == HV_FRAME_HOW_SAME) {
        return;
    }
    hv_add_relaxed(&access->memory->type_changes, 1);
    HV_RACE("frame.get.taken");
    if (hv_frame_type_must_flush(taken)) {
        cleansed = flush_old_use(arena, taken, access) && !access->foreign;
    }
    word = hv_load_seq(&frame->type);
    do {
        wanted = word | HV_FRAME_VALIDATED;
        /* Alone: another reference may be foreign and have tainted it anew (invariant 4). */
        if (cleansed && (word & HV_FRAME_VALUE_MASK) == 1) {
            wanted &= ~HV_FRAME_FTAINT;
        }
    } while (!hv_cas_weak_seq(&frame->type, &word, wanted));
    hv_eventcount_signal(&arena->settled);
}

int hv_frame_type_get(struct hv_arena *arena, hv_mfn mfn, enum hv_frame_type type, unsigned reason,
                      const struct hv_frame_access *access)
{
    struct hv_frame *frame = hv_arena_frame(arena, mfn);
    struct hv_frame_taken taken;
    int err;

    if (!(hv_load_seq(&frame->count) & HV_FRAME_ALLOCATED) ||
        hv_frame_owner(frame) != access->memory->owner) {
        return -ENOENT;
    }
    HV_RACE("frame.get.owned");
    do {
        err = hv_frame_type_take(frame, type, reason, access->foreign, &taken);
        if (err) {
            HV_RACE("frame.get.refused");
        }
        if (err == -EBUSY && type == HV_FRAME_TYPE_WRITABLE && hv_frame_revocable(frame)) {
            err = hv_memory_take_from_code(access->memory, frame, access->foreign, &taken);
            break;
        }
        /* Its block cache may have given the seal up, and sealed it again, between the looks. */
    } while (err == -EBUSY && type == HV_FRAME_TYPE_WRITABLE && !sealed_otherwise(frame));
    if (err) {
        return err;
    }
    hv_frame_type_settle(arena, frame, &taken, access);
    return 0;
}

uint64_t hv_frame_type_release(struct hv_frame *frame)
{
    uint64_t word = hv_load_seq(&frame->type);
    uint64_t token = token_take();
    uint64_t wanted;
    bool last;

    do {
        HV_BUG_ON(!(word & HV_FRAME_INUSE) || (word & HV_FRAME_VALUE_MASK) == 0);
        HV_RACE("frame.put.read");
        last = (word & HV_FRAME_VALUE_MASK) == 1;
        wanted = word - 1;
        if (last) {
            wanted = (wanted & ~HV_FRAME_INUSE) | HV_FRAME_STAMPING | token;
        }
    } while (!hv_cas_weak_seq(&frame->type, &word, wanted));
    return last ? wanted : 0;
}

void hv_frame_type_stamp(struct hv_arena *arena, struct hv_frame *frame, uint64_t stamping)
{
    /* Read after the reference was dropped: every use by every earlier one happened before. */
    uint64_t stamp = hv_flush_clock(&arena->holders);
    uint64_t kept = stamping & ~(HV_FRAME_STAMPING | HV_FRAME_VALUE_MASK);

    HV_RACE("frame.put.clock");
    /* The whole word, token and all: a later put's STAMPING is not ours to finish. When somebody
     * took the frame over, there is nothing to stamp. */
    (void)hv_cas_seq(&frame->type, &stamping, kept | stamp);
}

void hv_frame_type_put(struct hv_arena *arena, hv_mfn mfn)
{
    struct hv_frame *frame = hv_arena_frame(arena, mfn);
    uint64_t stamping = hv_frame_type_release(frame);

    if (stamping) {
        hv_frame_type_stamp(arena, frame, stamping);
    }
}
