/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * TLB misses: the guest's tables say which guest physical page, the p2m says what stands there.
 *
 *     leaf             read             write                  fetch
 *     RAM              plain            plain, noted dirty     RAM
 *     RAM_RO           plain            CODE (slow)            RAM
 *     SHARED           plain            made one's own         RAM
 *     ROM_OVER_RAM     plain            ROM (slow): ignored    RAM
 *     HOLE MMIO WINDOW DEVICE (slow)    DEVICE (slow)          all ones
 *     UNPOPULATED      the extent is populated and the instruction restarted
 *
 * Populating may block, as does parting a page from those it is shared with, so the vCPU goes
 * OUTSIDE for it (D4); whatever was looked up before, the running block included, may be gone
 * afterwards. It happens once for 2 MiB, or once for a page, so it is not worth being clever: the
 * caller gets -EAGAIN and is OUTSIDE.
 *
 * A write translation exists only when the leaf's dirty bit is set and is good for one dirty epoch
 * (D5): hv_memory_note_write() is called when it is entered, and serving EPOCH drops all of them.
 */
#include "engine/soft/access-private.h"
#include "engine/soft/code.h"
#include "engine/soft/ram.h"
#include "engine/soft/tlb-private.h"

#include <errno.h>

#include "base/assert.h"
#include "mem/share.h"

/* What a fetch sees where no memory answers. */
static const uint8_t bus_without_responder[HV_PAGE_SIZE] = {[0 ... HV_PAGE_SIZE - 1] = 0xff};

/* The leaf at @gpa, for use until the next edge of a block. */
static struct hv_leaf look_up(struct hv_engine_vcpu *vcpu, hv_gpa gpa)
{
    HV_ASSERT(hv_load_relaxed(&vcpu->bell->mode) == HV_DOORBELL_MODE_IN_GUEST);
    hv_memory_mark_dirty(vcpu->memory, vcpu->index);
    return hv_p2m_lookup(&vcpu->memory->p2m, hv_gpa_to_gfn(gpa));
}

static void *host_of(const struct hv_engine_vcpu *vcpu, struct hv_leaf leaf, hv_gpa gpa)
{
    return (char *)hv_arena_host(vcpu->memory->arena, leaf.mfn) + hv_gpa_offset(gpa);
}

/* What stands at @gpa cannot be used as it is: have it made RAM, and restart the instruction. */
static HV_COLD int make_usable(struct hv_engine_vcpu *vcpu, hv_gpa gpa)
{
    hv_gfn gfn = hv_gpa_to_gfn(gpa);
    struct hv_leaf leaf = hv_p2m_lookup(&vcpu->memory->p2m, gfn);
    int result;

    HV_ASSERT(!vcpu->bounce.exclusive);
    hv_doorbell_leave(vcpu->bell);
    result = leaf.kind == HV_LEAF_SHARED ? hv_memory_unshare(vcpu->memory, gfn)
                                         : hv_memory_fill(vcpu->memory, gfn, &leaf);
    /* A dying domain's vCPU finds the reason at the next entry; a page whose blocks were not given up
     * in time is asked for again (D1: a guest never sees -EBUSY). */
    if (result && result != -ECANCELED && result != -EBUSY) {
        return result;
    }
    vcpu->awaits_device = false;
    return soft_restart(vcpu);
}

static bool is_usable(struct hv_leaf leaf, enum soft_tlb_kind kind)
{
    return leaf.kind != HV_LEAF_UNPOPULATED && leaf.kind != HV_LEAF_ABSENT &&
           (leaf.kind != HV_LEAF_SHARED || kind != SOFT_TLB_WRITE);
}

/* Read an entry the p2m's way, and remember the page when it is memory. */
static HV_COLD int read_entry(struct hv_engine_vcpu *vcpu, hv_gpa gpa, unsigned bytes,
                              uint64_t *value_out, struct soft_tlb_table_page *remember)
{
    struct hv_leaf leaf = look_up(vcpu, gpa);
    const uint8_t *host;

    *value_out = 0;
    switch (leaf.kind) {
    case HV_LEAF_RAM:
    case HV_LEAF_RAM_RO:
    case HV_LEAF_SHARED:
    case HV_LEAF_ROM_OVER_RAM:
        host = host_of(vcpu, leaf, gpa);
        *value_out = soft_ram_load(host, bytes);
        remember->key = soft_tlb_page(gpa.v) | vcpu->tlbs->global_generation;
        remember->host = host - hv_gpa_offset(gpa);
        break;
    case HV_LEAF_UNPOPULATED:
        break; /* it would be zeros: no need to populate it */
    case HV_LEAF_ABSENT:
        return make_usable(vcpu, gpa);
    case HV_LEAF_HOLE:
    case HV_LEAF_MMIO:
    case HV_LEAF_WINDOW:
        *value_out = hv_bytes_mask(bytes);
        break;
    }
    return 0;
}

static int walk_read(void *context, hv_gpa gpa, unsigned bytes, uint64_t *value_out)
{
    struct hv_engine_vcpu *vcpu = context;
    struct soft_tlbs *tlbs = vcpu->tlbs;
    struct soft_tlb_table_page *page =
        &tlbs->table_page[(gpa.v >> HV_PAGE_SHIFT) % SOFT_TLB_TABLE_PAGES];

    if (HV_LIKELY(page->key == (soft_tlb_page(gpa.v) | tlbs->global_generation))) {
        *value_out = soft_ram_load(page->host + hv_gpa_offset(gpa), bytes);
        return 0;
    }
    return read_entry(vcpu, gpa, bytes, value_out, page);
}

static int walk_update(void *context, hv_gpa gpa, unsigned bytes, uint64_t expected, uint64_t value,
                       bool *swapped_out)
{
    struct hv_engine_vcpu *vcpu = context;
    struct hv_leaf leaf = look_up(vcpu, gpa);
    struct soft_piece piece = {.kind = SOFT_PIECE_CODE, .bytes = bytes, .gpa = gpa};

    switch (leaf.kind) {
    case HV_LEAF_RAM:
        hv_memory_note_write(vcpu->memory, hv_gpa_to_gfn(gpa));
        *swapped_out = soft_ram_exchange(host_of(vcpu, leaf, gpa), bytes, expected, value);
        break;
    case HV_LEAF_RAM_RO:
        *swapped_out = soft_ram_exchange(host_of(vcpu, leaf, gpa), bytes, expected, value);
        if (*swapped_out) {
            soft_piece_stored(vcpu, &piece);
        }
        break;
    case HV_LEAF_SHARED:
        return make_usable(vcpu, gpa);
    case HV_LEAF_UNPOPULATED:
    case HV_LEAF_ABSENT:
        *swapped_out = false; /* it was something else a moment ago: walk again */
        break;
    case HV_LEAF_ROM_OVER_RAM:
    case HV_LEAF_HOLE:
    case HV_LEAF_MMIO:
    case HV_LEAF_WINDOW:
        *swapped_out = true; /* ignored, as by a bus without a responder */
        break;
    }
    return 0;
}

const struct hv_walk_memory soft_walk_memory = {
    .read = walk_read,
    .update = walk_update,
};

/* An access whose rights are those of the table: soft_tlb_mode_of() the other way round. */
static enum hv_walk_as as_of(enum soft_tlb_mode mode)
{
    static const enum hv_walk_as as[SOFT_TLB_MODES] = {
        [SOFT_TLB_USER] = HV_WALK_AS_USER,
        [SOFT_TLB_SUPERVISOR] = HV_WALK_AS_SUPERVISOR,
        [SOFT_TLB_SUPERVISOR_AC] = HV_WALK_AS_KERNEL,
    };

    return as[mode];
}

static int walk(struct hv_engine_vcpu *vcpu, enum soft_tlb_mode mode, enum hv_walk_intent intent,
                uint64_t gva, struct hv_translation *found_out)
{
    int result;

    if (hv_cpu_long_mode(vcpu->cpu) && !hv_canonical(gva)) {
        return soft_raise(vcpu, HV_VECTOR_GP);
    }
    hv_count(&vcpu->counters.tlb_fills, 1);
    result = hv_walk(vcpu->cpu, &soft_walk_memory, vcpu, (hv_gva){gva}, intent, as_of(mode),
                     found_out, &vcpu->fault);
    if (result == -EAGAIN) {
        vcpu->awaits_device = false;
        return soft_restart(vcpu);
    }
    return result;
}

/* Enter a translation that a walk gave, or one that was SLOW and need not be any more. */
static void enter(struct hv_engine_vcpu *vcpu, enum soft_tlb_mode mode, enum soft_tlb_kind kind,
                  uint64_t gva, struct soft_tlb_entry entry, const struct hv_translation *found)
{
    soft_tlb_insert(vcpu, mode, kind, entry);
    if (kind == SOFT_TLB_WRITE && !(entry.tag & SOFT_TLB_SLOW)) {
        /* What may be written may be read (SDM 3A 4.6.1), and soon is: stacks, fresh pages. */
        soft_tlb_offer(vcpu, mode, SOFT_TLB_READ, entry);
    }
    if (!found) {
        return;
    }
    if (found->page_size > HV_PAGE_SIZE) {
        soft_tlb_note_large(vcpu, gva, found->page_size, found->global);
    }
    if (found->global && !(entry.tag & SOFT_TLB_SLOW)) {
        soft_tlb_insert_global(vcpu, mode, kind, entry);
        if (kind == SOFT_TLB_WRITE) {
            soft_tlb_insert_global(vcpu, mode, SOFT_TLB_READ, entry);
        }
    }
}

/* What an access of @kind to a leaf touches that is_usable(). */
static enum soft_piece_kind piece_kind(enum hv_leaf_kind leaf, enum soft_tlb_kind kind)
{
    switch (leaf) {
    case HV_LEAF_RAM:
    case HV_LEAF_SHARED:
        return SOFT_PIECE_RAM;
    case HV_LEAF_RAM_RO:
        return kind == SOFT_TLB_WRITE ? SOFT_PIECE_CODE : SOFT_PIECE_RAM;
    case HV_LEAF_ROM_OVER_RAM:
        return kind == SOFT_TLB_WRITE ? SOFT_PIECE_ROM : SOFT_PIECE_RAM;
    case HV_LEAF_HOLE:
    case HV_LEAF_MMIO:
    case HV_LEAF_WINDOW:
    case HV_LEAF_UNPOPULATED:
    case HV_LEAF_ABSENT:
        break;
    }
    return SOFT_PIECE_DEVICE;
}

/* What stands at @gpa. @found is what a walk said, NULL when the TLB knew @gpa as SLOW. */
static int place(struct hv_engine_vcpu *vcpu, enum soft_tlb_mode mode, enum soft_tlb_kind kind,
                 uint64_t gva, hv_gpa gpa, const struct hv_translation *found,
                 struct soft_piece *piece_out)
{
    struct soft_tlb_entry entry = {.tag = soft_tlb_page(gva)};
    struct hv_leaf leaf = look_up(vcpu, gpa);

    if (!is_usable(leaf, kind)) {
        return make_usable(vcpu, gpa);
    }
    piece_out->kind = piece_kind(leaf.kind, kind);
    piece_out->gpa = gpa;
    piece_out->host = piece_out->kind == SOFT_PIECE_DEVICE ? NULL : host_of(vcpu, leaf, gpa);

    if (piece_out->kind == SOFT_PIECE_RAM) {
        if (kind == SOFT_TLB_WRITE) {
            hv_memory_note_write(vcpu->memory, hv_gpa_to_gfn(gpa));
        }
        entry.addend = (uintptr_t)piece_out->host - gva;
        enter(vcpu, mode, kind, gva, entry, found);
    } else if (found) {
        entry.tag |= SOFT_TLB_SLOW;
        entry.addend = gpa.v - gva;
        enter(vcpu, mode, kind, gva, entry, found);
    }
    return 0;
}

int soft_resolve(struct hv_engine_vcpu *vcpu, enum soft_tlb_mode mode, enum soft_tlb_kind kind,
                 uint64_t gva, struct soft_piece *piece_out)
{
    const struct soft_tlb_entry *known = soft_tlb_find(vcpu, mode, kind, soft_tlb_page(gva));
    struct hv_translation found;
    int result;

    if (known && !(known->tag & SOFT_TLB_SLOW)) {
        piece_out->kind = SOFT_PIECE_RAM;
        piece_out->host = (void *)(uintptr_t)(gva + known->addend);
        return 0;
    }
    if (known) {
        return place(vcpu, mode, kind, gva, (hv_gpa){gva + known->addend}, NULL, piece_out);
    }
    result = walk(vcpu, mode, kind == SOFT_TLB_WRITE ? HV_WALK_WRITE : HV_WALK_READ, gva, &found);
    return result ? result : place(vcpu, mode, kind, gva, found.gpa, &found, piece_out);
}

int soft_probe(struct hv_engine_vcpu *vcpu, enum soft_tlb_mode mode, uint64_t gva)
{
    struct hv_translation found;
    bool writable;
    int result;

    if (soft_tlb_find(vcpu, mode, SOFT_TLB_WRITE, soft_tlb_page(gva))) {
        return 0;
    }
    result = walk(vcpu, mode, HV_WALK_READ, gva, &found);
    if (result < 0) {
        return result;
    }
    writable =
        result == 0 && (found.writable || (mode != SOFT_TLB_USER && !(vcpu->cpu->cr0 & HV_CR0_WP)));
    if (!writable) {
        /* It faults as the store would, and sets no bit when it does. */
        return walk(vcpu, mode, HV_WALK_WRITE, gva, &found);
    }
    return is_usable(look_up(vcpu, found.gpa), SOFT_TLB_WRITE) ? 0 : make_usable(vcpu, found.gpa);
}

int soft_fetch_page(struct hv_engine_vcpu *vcpu, uint64_t gva, hv_gpa *gpa_out,
                    const uint8_t **host_out)
{
    const struct soft_tlb_entry *known;
    struct soft_tlb_entry entry = {0};
    struct hv_translation found;
    struct hv_leaf leaf;

    gva = soft_linear(vcpu, gva);
    *host_out = NULL;
    known = soft_tlb_find(vcpu, vcpu->mode, SOFT_TLB_EXEC, soft_tlb_page(gva));
    if (known) {
        found.gpa = (hv_gpa){gva + known->addend};
    } else {
        int result = walk(vcpu, vcpu->mode, HV_WALK_FETCH, gva, &found);

        if (result) {
            return result;
        }
        entry.tag = soft_tlb_page(gva);
        entry.addend = found.gpa.v - gva;
        enter(vcpu, vcpu->mode, SOFT_TLB_EXEC, gva, entry, &found);
        soft_tlb_note_fetch(vcpu, gva, found.global);
    }

    leaf = look_up(vcpu, found.gpa);
    if (!is_usable(leaf, SOFT_TLB_EXEC)) {
        return make_usable(vcpu, found.gpa);
    }
    *gpa_out = found.gpa;
    *host_out = piece_kind(leaf.kind, SOFT_TLB_EXEC) == SOFT_PIECE_RAM
                    ? host_of(vcpu, leaf, found.gpa)
                    : bus_without_responder + hv_gpa_offset(found.gpa);
    return 0;
}
