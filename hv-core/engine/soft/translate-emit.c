/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Appending micro-operations, addresses of memory operands, and the general ways. */
#include "engine/soft/translate-private.h"

#include "engine/soft/insn.h"

#include "base/assert.h"

#include <errno.h>

struct soft_uop *soft_emit(struct soft_translator *t, int number)
{
    struct soft_uop *uop = &t->uop[t->uops++];
    unsigned offset = t->offset[t->at];

    HV_ASSERT(number >= 0 && t->uops <= SOFT_PLAN_UOPS);
    *uop = (struct soft_uop){
        .offset = (uint16_t)offset,
        .next = (uint16_t)(offset + t->insn[t->at].length),
        .base = SOFT_PLACE_ZERO,
        .index = SOFT_PLACE_ZERO,
        .segment = SOFT_PLACE_ZERO,
        .rest = (uint8_t)(t->insns - t->at - 1),
    };
    t->number[t->uops - 1] = (int16_t)number;
    hv_store_relaxed(&uop->handler, t->label[number]);
    return uop;
}

/* Bytes of the move that @number is, register to register; 0 when it is none. */
static unsigned moved_bytes(int number)
{
    return number == soft_uop_mov_rr(8) ? 8 : number == soft_uop_mov_rr(4) ? 4 : 0;
}

void soft_emit_join_move(struct soft_translator *t, unsigned first)
{
    struct soft_uop *uop, *move;
    int joined;

    if (first == 0 || t->uops != first + 1) {
        return;
    }
    uop = &t->uop[first];
    move = uop - 1;
    joined = soft_uop_moved((unsigned)t->number[first], moved_bytes(t->number[first - 1]));
    /* Of one instruction each: what came before the move is not its address. */
    if (joined < 0 || move->next != uop->offset) {
        return;
    }
    move->base = move->dst;
    move->index = move->src;
    move->imm = uop->imm;
    move->next = uop->next;
    move->dst = uop->dst;
    move->src = uop->src;
    t->uops--;
    t->number[first - 1] = (int16_t)joined;
    hv_store_relaxed(&move->handler, t->label[joined]);
}

static uint64_t address_mask(const struct soft_insn *insn)
{
    return hv_bytes_mask(insn->address_bytes);
}

/* In 64-bit mode only FS and GS have a base; SS is named for the sake of its fault. */
static uint8_t segment_place(const struct soft_translator *t, unsigned seg)
{
    if (soft_mode_64(t) && seg != HV_SEG_FS && seg != HV_SEG_GS) {
        return seg == HV_SEG_SS ? SOFT_PLACE_SS : SOFT_PLACE_ZERO;
    }
    return SOFT_PLACE((unsigned)HV_SLOT_SEG_BASE + seg);
}

/*
 * The operand as it is written, with RIP as that of the block's page. The address has room for 32
 * bits of displacement; all of it is in *disp_out.
 */
static struct soft_address written_address(const struct soft_translator *t,
                                           const struct soft_insn *insn, int64_t *disp_out)
{
    const struct soft_mem *mem = &insn->mem;
    struct soft_address address = {
        .form = SOFT_FORM_D,
        .base = SOFT_PLACE_ZERO,
        .index = SOFT_PLACE_ZERO,
        .segment = segment_place(t, mem->segment),
    };

    *disp_out = mem->disp;
    if (mem->base == SOFT_REG_RIP) {
        address.base = SOFT_PLACE(SOFT_SLOT_RIP);
        *disp_out += t->offset[t->at] + insn->length;
    } else if (mem->base != SOFT_REG_NONE) {
        address.base = SOFT_PLACE(mem->base);
    }
    if (mem->index != SOFT_REG_NONE) {
        address.index = SOFT_PLACE(mem->index);
        address.scale = mem->scale;
        address.form = SOFT_FORM_X;
    }
    address.disp = (int32_t)*disp_out;
    return address;
}

/* The operand's linear address stands in SOFT_SLOT_EA from here on. */
static struct soft_address made_address(const struct soft_translator *t,
                                        const struct soft_insn *insn)
{
    return (struct soft_address){
        .form = SOFT_FORM_D,
        .base = SOFT_PLACE(SOFT_SLOT_EA),
        .index = SOFT_PLACE_ZERO,
        /* Non-canonical addresses exist in 64-bit mode only. */
        .segment =
            soft_mode_64(t) && insn->mem.segment == HV_SEG_SS ? SOFT_PLACE_SS : SOFT_PLACE_ZERO,
    };
}

/* Flat segments need no check, but a store through CS never passes. */
static bool is_unchecked(const struct soft_translator *t, const struct soft_insn *insn, bool write)
{
    unsigned seg = insn->mem.segment;

    if (soft_mode_64(t)) {
        return true;
    }
    return (t->key & SOFT_KEY_FLAT) && seg != HV_SEG_FS && seg != HV_SEG_GS &&
           !(write && seg == HV_SEG_CS);
}

struct soft_address soft_emit_address(struct soft_translator *t, unsigned bytes, bool write)
{
    const struct soft_insn *insn = &t->insn[t->at];
    int64_t disp;
    struct soft_address address = written_address(t, insn, &disp);
    struct soft_uop *uop;

    if (soft_mode_64(t) && insn->address_bytes == 8) {
        if (disp == address.disp) {
            if (address.segment != SOFT_PLACE_ZERO && address.segment != SOFT_PLACE_SS) {
                address.form = SOFT_FORM_F;
            }
            return address;
        }
        uop = soft_emit(t, soft_uop_address_far());
        uop->imm = (uint64_t)disp;
    } else if (is_unchecked(t, insn, write)) {
        uop = soft_emit(t, soft_uop_address_cut());
        uop->imm = address_mask(insn);
    } else {
        uop = soft_emit(t, soft_uop_address_checked());
        uop->imm = address_mask(insn);
        uop->dst = (uint8_t)bytes;
        uop->src = (uint8_t)((bytes >> 8) | (write ? SOFT_ADDRESS_WRITE : 0));
    }
    soft_uop_set_address(uop, &address);
    return made_address(t, insn);
}

struct soft_address soft_emit_offset(struct soft_translator *t)
{
    const struct soft_insn *insn = &t->insn[t->at];
    int64_t disp;
    struct soft_address address = written_address(t, insn, &disp);
    struct soft_uop *uop;

    address.segment = SOFT_PLACE_ZERO;
    if (disp == address.disp && insn->address_bytes == (soft_mode_64(t) ? 8 : 4)) {
        return address;
    }
    if (disp != address.disp && insn->address_bytes == 8) {
        uop = soft_emit(t, soft_uop_address_far());
        uop->imm = (uint64_t)disp;
    } else {
        uop = soft_emit(t, soft_uop_address_cut());
        uop->imm = address_mask(insn);
    }
    soft_uop_set_address(uop, &address);
    return made_address(t, insn);
}

void soft_uop_set_address(struct soft_uop *uop, const struct soft_address *address)
{
    uop->base = address->base;
    uop->index = address->index;
    uop->segment = address->segment;
    uop->scale = address->scale;
    uop->disp = address->disp;
}

void soft_set_target(struct soft_translator *t, int64_t target)
{
    t->links.target = target;
}

const struct soft_operand *soft_memory_operand(const struct soft_insn *insn)
{
    for (unsigned i = 0; i < insn->operands; i++) {
        if (insn->operand[i].kind == SOFT_OPERAND_MEM) {
            return &insn->operand[i];
        }
    }
    return NULL;
}

static void emit_function(struct soft_translator *t, const struct soft_insn *insn,
                          soft_call_fn *run)
{
    const struct soft_operand *memory = soft_memory_operand(insn);
    struct soft_address address = SOFT_ADDRESS_NONE;
    struct soft_uop *uop;

    if (memory && !soft_function_addresses(run)) {
        bool write = memory->access & SOFT_ACCESS_WRITE;

        address = soft_emit_address(t, memory->bytes ? memory->bytes : 1, write);
    }
    uop = soft_emit(t, soft_uop_function());
    soft_uop_set_address(uop, &address);
    uop->imm = t->calls;
    t->call[t->calls++] = (struct soft_call){.run = run, .insn = *insn};
}

void soft_emit_general(struct soft_translator *t, const struct soft_insn *insn)
{
    soft_call_fn *run = soft_function_of(insn);

    if (!run && soft_emit_thunk(t, insn)) {
        return;
    }
    /* What moves extended state, or nothing there is: it knows. */
    emit_function(t, insn, run ? run : soft_insn_xstate);
}
