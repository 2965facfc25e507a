/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Pages with code: RAM to RAM_RO and back, by put and get of the leaf's type reference under the
 * p2m lock, and the waits outside it.
 *
 *     RAM    {WRITABLE, 1}          --seal-->    RAM_RO {SEALED(CODE), 1 of the leaf + holds}
 *     RAM_RO {SEALED(CODE), 1 + 1}  --unseal-->  RAM    {WRITABLE, 1}
 */
#include "mem/memory-private.h"

#include <errno.h>

#include "base/assert.h"
#include "base/clock.h"
#include "mem/arena-private.h"
#include "sync/race.h"

/* A revocation asks again this often when a block in the making does not give up its hold by
 * itself, and gives up after a second: whoever holds the seal is no block cache. */
#define REVOKE_AGAIN_NS HV_NS_PER_MS
#define REVOKE_TRIES    1000

bool hv_memory_swap_type_locked(struct hv_memory *memory, hv_mfn mfn, enum hv_frame_type type,
                                unsigned reason, struct hv_frame_taken *taken_out)
{
    struct hv_frame *frame = hv_arena_frame(memory->arena, mfn);
    bool writable = type == HV_FRAME_TYPE_WRITABLE;
    enum hv_frame_type before = writable ? HV_FRAME_TYPE_SEALED : HV_FRAME_TYPE_WRITABLE;
    struct hv_frame_taken again;

    hv_lock_assert_held(&memory->p2m.lock);
    hv_frame_type_put(memory->arena, mfn);
    HV_RACE("memory.swap.between");
    for (;;) {
        if (hv_frame_type_take(frame, type, reason, false, taken_out) == 0) {
            return true;
        }
        if (hv_frame_type_take(frame, before, writable ? HV_SEAL_CODE : 0, false, &again) == 0) {
            /* Who came between holds it as what it was, so this was no change. */
            HV_ASSERT(again.how != HV_FRAME_HOW_CHANGED);
            return false;
        }
    }
}

static int seal_ram_locked(struct hv_memory *memory, hv_gfn gfn, hv_mfn mfn,
                           struct hv_frame_taken *taken_out) HV_REQUIRES(&memory->p2m.lock);

static int seal_ram_locked(struct hv_memory *memory, hv_gfn gfn, hv_mfn mfn,
                           struct hv_frame_taken *taken_out)
{
    struct hv_frame *frame = hv_arena_frame(memory->arena, mfn);
    struct hv_frame_taken hold;

    if (hv_frame_type_references(frame) != 1) {
        return -EBUSY; /* pinned, or being written by a device or a mapper */
    }
    /* Before the type changes: whoever fills from now on gets a read-only entry (D1). */
    (void)hv_p2m_set_locked(&memory->p2m, gfn, (struct hv_leaf){HV_LEAF_RAM_RO, mfn, 0});
    if (!hv_memory_swap_type_locked(memory, mfn, HV_FRAME_TYPE_SEALED, HV_SEAL_CODE, taken_out)) {
        (void)hv_p2m_set_locked(&memory->p2m, gfn, (struct hv_leaf){HV_LEAF_RAM, mfn, 0});
        return -EBUSY;
    }
    return hv_frame_type_take(frame, HV_FRAME_TYPE_SEALED, HV_SEAL_CODE, false, &hold);
}

/*
 * One hold of a block more, or less, on a page that nobody writes as it is. -EBUSY when there are too
 * many. A leaf without a hold is asked for one less when the page was parted from its blocks and
 * shared anew since: they gave theirs up then.
 */
static int hold_shared_locked(struct hv_memory *memory, hv_gfn gfn, struct hv_leaf leaf, int more)
    HV_REQUIRES(&memory->p2m.lock);

static int hold_shared_locked(struct hv_memory *memory, hv_gfn gfn, struct hv_leaf leaf, int more)
{
    if (more > 0 ? leaf.holds == HV_LEAF_HOLDS_MAX : leaf.holds == 0) {
        return -EBUSY;
    }
    leaf.holds += (uint32_t)more;
    (void)hv_p2m_set_locked(&memory->p2m, gfn, leaf);
    return 0;
}

int hv_memory_seal_code(struct hv_memory *memory, hv_gfn gfn, const struct hv_holder *self)
{
    const struct hv_frame_access access = {.memory = memory, .self = self};
    struct hv_frame_taken taken = {.how = HV_FRAME_HOW_SAME};
    struct hv_frame *frame = NULL;
    struct hv_leaf leaf;
    int err;

    hv_lock_check_wait(HV_RANK_FLUSH_WAIT, "seal of a code page");
    hv_lock_take(&memory->p2m.lock);
    leaf = hv_p2m_lookup(&memory->p2m, gfn);
    if (leaf.kind == HV_LEAF_ROM_OVER_RAM) {
        err = 0;
    } else if (!hv_leaf_has_frame(leaf)) {
        err = -ENOENT;
    } else if (hv_load_seq(&memory->write_wanted) > 0) {
        err = -EBUSY;
    } else if (leaf.kind == HV_LEAF_SHARED) {
        err = hold_shared_locked(memory, gfn, leaf, 1);
    } else if (leaf.kind == HV_LEAF_RAM_RO) {
        frame = hv_arena_frame(memory->arena, leaf.mfn);
        err = hv_frame_type_take(frame, HV_FRAME_TYPE_SEALED, HV_SEAL_CODE, false, &taken);
    } else {
        frame = hv_arena_frame(memory->arena, leaf.mfn);
        err = seal_ram_locked(memory, gfn, leaf.mfn, &taken);
    }
    hv_lock_drop(&memory->p2m.lock);
    if (!err && frame) {
        hv_frame_type_settle(memory->arena, frame, &taken, &access);
    }
    return err;
}

void hv_memory_unseal_code(struct hv_memory *memory, hv_gfn gfn)
{
    const struct hv_frame_access access = {.memory = memory};
    struct hv_frame_taken taken;
    struct hv_frame *frame;
    struct hv_leaf leaf;

    hv_lock_take(&memory->p2m.lock);
    leaf = hv_p2m_lookup(&memory->p2m, gfn);
    if (leaf.kind == HV_LEAF_SHARED) {
        (void)hold_shared_locked(memory, gfn, leaf, -1);
    } else if (leaf.kind == HV_LEAF_RAM_RO) {
        frame = hv_arena_frame(memory->arena, leaf.mfn);
        if (hv_frame_type_references(frame) > 1) {
            hv_frame_type_put(memory->arena, leaf.mfn);
        }
        if (hv_frame_type_references(frame) == 1 && hv_frame_revocable(frame) &&
            hv_memory_swap_type_locked(memory, leaf.mfn, HV_FRAME_TYPE_WRITABLE, 0, &taken)) {
            /* From CODE there is nothing to flush, so this does not wait; and whoever took the frame
             * WRITABLE in between, and has yet to say VALIDATED, need not be waited for. */
            HV_ASSERT(!hv_frame_type_must_flush(&taken));
            if (taken.how == HV_FRAME_HOW_CHANGED) {
                hv_frame_type_settle(memory->arena, frame, &taken, &access);
            }
            (void)hv_p2m_set_locked(&memory->p2m, gfn, (struct hv_leaf){HV_LEAF_RAM, leaf.mfn, 0});
        }
    }
    hv_lock_drop(&memory->p2m.lock);
    hv_eventcount_signal(&memory->changed);
}

void hv_memory_refuse_seals(struct hv_memory *memory)
{
    hv_add_seq(&memory->write_wanted, 1);
    /* A seal that did not see it is under the lock: wait until its change is done. */
    hv_lock_take(&memory->p2m.lock);
    hv_lock_drop(&memory->p2m.lock);
}

void hv_memory_allow_seals(struct hv_memory *memory)
{
    hv_sub_seq(&memory->write_wanted, 1);
}

/* Blocks hold the page. */
static bool sealed_as_code(const struct hv_memory *memory, hv_gfn gfn)
{
    struct hv_leaf leaf = hv_p2m_lookup(&memory->p2m, gfn);

    return (leaf.kind == HV_LEAF_SHARED && leaf.holds > 0) ||
           (leaf.kind == HV_LEAF_RAM_RO &&
            hv_frame_revocable(hv_arena_frame(memory->arena, leaf.mfn)));
}

int hv_memory_revoke_code(struct hv_memory *memory, hv_gfn gfn)
{
    hv_lock_check_wait(HV_RANK_FLUSH_WAIT, "revoking of code");
    HV_ASSERT(hv_load_seq(&memory->write_wanted) > 0);
    if (!memory->hooks || !memory->hooks->revoke_code) {
        return sealed_as_code(memory, gfn) ? -EBUSY : 0;
    }
    for (int i = 0; i < REVOKE_TRIES && sealed_as_code(memory, gfn); i++) {
        uint32_t ticket = hv_eventcount_listen(&memory->changed);

        memory->hooks->revoke_code(memory->hook_context, gfn);
        if (!sealed_as_code(memory, gfn)) {
            hv_eventcount_cancel(&memory->changed);
            return 0;
        }
        hv_eventcount_wait(&memory->changed, ticket,
                           hv_ns_add(hv_clock_host_now(), REVOKE_AGAIN_NS));
    }
    return sealed_as_code(memory, gfn) ? -EBUSY : 0;
}

int hv_memory_take_from_code(struct hv_memory *memory, struct hv_frame *frame, bool foreign,
                             struct hv_frame_taken *taken_out)
{
    int err;

    hv_memory_refuse_seals(memory);
    err = hv_memory_revoke_code(memory, hv_frame_gfn(frame));
    if (!err) {
        err = hv_frame_type_take(frame, HV_FRAME_TYPE_WRITABLE, 0, foreign, taken_out);
    }
    hv_memory_allow_seals(memory);
    return err;
}
