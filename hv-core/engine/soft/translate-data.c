/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Emitters: moves, extensions, addresses, stack, exchanges, conditional moves and sets. */
#include "engine/soft/translate-private.h"

static void set_operands(struct soft_uop *uop, const struct soft_operand *dst,
                         const struct soft_operand *src)
{
    uop->dst = soft_place_of(dst);
    uop->src = soft_place_of(src);
}

/* The family's handler for the address's form, or the general form where it has no such. */
static int with_form(int number, int full)
{
    return number >= 0 ? number : full;
}

static bool emit_mov(struct soft_translator *t, const struct soft_insn *insn)
{
    const struct soft_operand *dst = &insn->operand[0], *src = &insn->operand[1];
    unsigned bytes = dst->bytes;
    struct soft_address address;
    struct soft_uop *uop;

    if (soft_is_gpr(dst) && soft_is_gpr(src)) {
        set_operands(soft_emit(t, soft_uop_mov_rr(bytes)), dst, src);
    } else if (soft_is_gpr(dst) && soft_is_imm(src)) {
        uop = soft_emit(t, soft_uop_mov_ri(bytes == 4 ? 8 : bytes));
        uop->dst = soft_place_of(dst);
        uop->imm = insn->imm & hv_bytes_mask(bytes);
    } else if (soft_is_gpr(dst) && soft_is_mem(src)) {
        address = soft_emit_address(t, bytes, false);
        uop = soft_emit(t, soft_uop_load(bytes, address.form));
        soft_uop_set_address(uop, &address);
        uop->dst = soft_place_of(dst);
    } else if (soft_is_mem(dst) && soft_is_gpr(src)) {
        address = soft_emit_address(t, bytes, true);
        uop = soft_emit(t, soft_uop_store(bytes, address.form));
        soft_uop_set_address(uop, &address);
        uop->src = soft_place_of(src);
    } else if (soft_is_mem(dst) && soft_is_imm(src)) {
        address = soft_emit_address(t, bytes, true);
        uop = soft_emit(t, with_form(soft_uop_store_imm(bytes, address.form),
                                     soft_uop_store_imm(bytes, SOFT_FORM_F)));
        soft_uop_set_address(uop, &address);
        uop->imm = insn->imm;
    } else {
        return false;
    }
    return true;
}

/* -1 where the widths are plain moves or none we have. */
static int extension(bool sign, unsigned from, unsigned to)
{
    if (!sign) {
        if (from == 1) {
            return to == 2 ? SOFT_EXTEND_ZB2 : SOFT_EXTEND_ZB;
        }
        return to >= 4 ? SOFT_EXTEND_ZW : -1;
    }
    if (from == 1) {
        return to == 2 ? SOFT_EXTEND_SB2 : to == 4 ? SOFT_EXTEND_SB4 : SOFT_EXTEND_SB8;
    }
    if (from == 2) {
        return to == 4 ? SOFT_EXTEND_SW4 : to == 8 ? SOFT_EXTEND_SW8 : -1;
    }
    return to == 8 ? SOFT_EXTEND_SL8 : -1;
}

static bool emit_extension(struct soft_translator *t, const struct soft_insn *insn, bool sign)
{
    const struct soft_operand *dst = &insn->operand[0], *src = &insn->operand[1];
    int kind = extension(sign, src->bytes, dst->bytes);
    struct soft_address address;
    struct soft_uop *uop;

    if (src->bytes == dst->bytes) {
        return emit_mov(t, insn);
    }
    if (kind < 0) {
        return false;
    }
    if (soft_is_gpr(src)) {
        set_operands(soft_emit(t, soft_uop_extend((unsigned)kind)), dst, src);
        return true;
    }
    address = soft_emit_address(t, src->bytes, false);
    uop = soft_emit(t, soft_uop_load_extend((unsigned)kind, address.form));
    soft_uop_set_address(uop, &address);
    uop->dst = soft_place_of(dst);
    return true;
}

static bool emit_movzx(struct soft_translator *t, const struct soft_insn *insn)
{
    return emit_extension(t, insn, false);
}

static bool emit_movsx(struct soft_translator *t, const struct soft_insn *insn)
{
    return emit_extension(t, insn, true);
}

/* CBW, CWDE, CDQE: the accumulator's lower half into the whole. */
static bool emit_cbw(struct soft_translator *t, const struct soft_insn *insn)
{
    unsigned bytes = insn->operand_bytes;
    struct soft_uop *uop =
        soft_emit(t, soft_uop_extend((unsigned)extension(true, bytes / 2, bytes)));

    uop->dst = SOFT_PLACE(HV_REG_RAX);
    uop->src = SOFT_PLACE(HV_REG_RAX);
    return true;
}

static bool emit_cwd(struct soft_translator *t, const struct soft_insn *insn)
{
    (void)soft_emit(t, soft_uop_sign_to_dx(insn->operand_bytes));
    return true;
}

/* An offset, not an address: no segment takes part and nothing is checked. */
static bool emit_lea(struct soft_translator *t, const struct soft_insn *insn)
{
    const struct soft_operand *dst = &insn->operand[0];
    struct soft_address address = soft_emit_offset(t);
    struct soft_uop *uop = soft_emit(t, soft_uop_lea(dst->bytes, address.form));

    soft_uop_set_address(uop, &address);
    uop->dst = soft_place_of(dst);
    return true;
}

static bool emit_push(struct soft_translator *t, const struct soft_insn *insn)
{
    const struct soft_operand *src = &insn->operand[0];
    unsigned bytes = soft_stack_bytes(t);
    struct soft_address address;
    struct soft_uop *uop;

    if (bytes == 0 || insn->operand_bytes != bytes) {
        return false;
    }
    if (soft_is_gpr(src)) {
        uop = soft_emit(t, soft_uop_push_r(bytes));
        uop->src = soft_place_of(src);
    } else if (soft_is_imm(src)) {
        uop = soft_emit(t, soft_uop_push_i(bytes));
        uop->imm = insn->imm;
    } else if (soft_is_mem(src)) {
        address = soft_emit_address(t, bytes, false);
        uop = soft_emit(t, soft_uop_push_m(bytes));
        soft_uop_set_address(uop, &address);
        /* The form adds the segment's base: it cannot say "stack" for the second access. */
        return true;
    } else {
        return false;
    }
    uop->segment = SOFT_PLACE_SS;
    return true;
}

static bool emit_pop(struct soft_translator *t, const struct soft_insn *insn)
{
    const struct soft_operand *dst = &insn->operand[0];
    unsigned bytes = soft_stack_bytes(t);
    struct soft_uop *uop;

    if (bytes == 0 || insn->operand_bytes != bytes || !soft_is_gpr(dst)) {
        return false;
    }
    uop = soft_emit(t, soft_uop_pop_r(bytes));
    uop->dst = soft_place_of(dst);
    uop->segment = SOFT_PLACE_SS;
    return true;
}

static bool emit_leave(struct soft_translator *t, const struct soft_insn *insn)
{
    unsigned bytes = soft_stack_bytes(t);

    if (bytes == 0 || insn->operand_bytes != bytes) {
        return false;
    }
    soft_emit(t, soft_uop_leave(bytes))->segment = SOFT_PLACE_SS;
    return true;
}

static bool emit_xchg(struct soft_translator *t, const struct soft_insn *insn)
{
    const struct soft_operand *a = &insn->operand[0], *b = &insn->operand[1];

    if (!soft_is_gpr(a) || !soft_is_gpr(b)) {
        return false;
    }
    set_operands(soft_emit(t, soft_uop_exchange(a->bytes)), a, b);
    return true;
}

/* The 2-byte form is undefined; silicon's answer comes from a thunk. */
static bool emit_bswap(struct soft_translator *t, const struct soft_insn *insn)
{
    const struct soft_operand *dst = &insn->operand[0];

    if (dst->bytes < 4) {
        return false;
    }
    soft_emit(t, soft_uop_bswap(dst->bytes))->dst = soft_place_of(dst);
    return true;
}

static bool emit_setcc(struct soft_translator *t, const struct soft_insn *insn)
{
    const struct soft_operand *dst = &insn->operand[0];

    if (!soft_is_gpr(dst)) {
        return false;
    }
    soft_emit(t, soft_uop_setcc(insn->opcode & 15))->dst = soft_place_of(dst);
    return true;
}

static bool emit_cmovcc(struct soft_translator *t, const struct soft_insn *insn)
{
    const struct soft_operand *dst = &insn->operand[0], *src = &insn->operand[1];
    unsigned cond = insn->opcode & 15;
    struct soft_address address;
    struct soft_uop *uop;

    if (soft_is_gpr(src)) {
        set_operands(soft_emit(t, soft_uop_cmov_rr(dst->bytes, cond)), dst, src);
        return true;
    }
    if (dst->bytes < 4) {
        return false;
    }
    address = soft_emit_address(t, dst->bytes, false);
    uop = soft_emit(t, soft_uop_cmov_rm(dst->bytes, cond));
    soft_uop_set_address(uop, &address);
    uop->dst = soft_place_of(dst);
    return true;
}

/* A block's first instruction needs a micro-operation of its own: its offset is the block's. */
static bool emit_nop(struct soft_translator *t, const struct soft_insn *insn)
{
    (void)insn;
    if (t->at == 0) {
        (void)soft_emit(t, soft_uop_nop());
    }
    return true;
}

soft_emitter *soft_emitter_data(unsigned op)
{
    static soft_emitter *const emitters[SOFT_OP_COUNT] = {
        [SOFT_OP_MOV] = emit_mov,         [SOFT_OP_MOVZX] = emit_movzx,
        [SOFT_OP_MOVSX] = emit_movsx,     [SOFT_OP_MOVSXD] = emit_movsx,
        [SOFT_OP_CBW] = emit_cbw,         [SOFT_OP_CWD] = emit_cwd,
        [SOFT_OP_LEA] = emit_lea,         [SOFT_OP_PUSH] = emit_push,
        [SOFT_OP_POP] = emit_pop,         [SOFT_OP_LEAVE] = emit_leave,
        [SOFT_OP_XCHG] = emit_xchg,       [SOFT_OP_BSWAP] = emit_bswap,
        [SOFT_OP_SETCC] = emit_setcc,     [SOFT_OP_CMOVCC] = emit_cmovcc,
        [SOFT_OP_NOP] = emit_nop,         [SOFT_OP_PREFETCHW] = emit_nop,
        [SOFT_OP_PREFETCHWT1] = emit_nop, [SOFT_OP_PREFETCHNTA] = emit_nop,
        [SOFT_OP_PREFETCHT0] = emit_nop,  [SOFT_OP_PREFETCHT1] = emit_nop,
        [SOFT_OP_PREFETCHT2] = emit_nop,  [SOFT_OP_LFENCE] = emit_nop,
    };

    return op < SOFT_OP_COUNT ? emitters[op] : NULL;
}
