/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Emitters: arithmetic, logic, shifts, multiplication, bit tests, carry flag; and their fusion with
 * the branch behind them. */
#include "engine/soft/translate-private.h"

/* Of the present instruction: somebody may see its flags. */
static unsigned wants_flags(const struct soft_translator *t)
{
    return !t->flags_dead[t->at];
}

static int position(unsigned op)
{
    switch (op) {
    case SOFT_OP_ADD:
        return SOFT_ALU_ADD;
    case SOFT_OP_OR:
        return SOFT_ALU_OR;
    case SOFT_OP_AND:
        return SOFT_ALU_AND;
    case SOFT_OP_SUB:
        return SOFT_ALU_SUB;
    default:
        return SOFT_ALU_XOR;
    }
}

static struct soft_uop *emit_addressed(struct soft_translator *t, int number,
                                       const struct soft_address *address)
{
    struct soft_uop *uop = soft_emit(t, number);

    soft_uop_set_address(uop, address);
    return uop;
}

static bool emit_alu(struct soft_translator *t, const struct soft_insn *insn)
{
    const struct soft_operand *dst = &insn->operand[0], *src = &insn->operand[1];
    unsigned op = (unsigned)position(insn->op), bytes = dst->bytes, flags = wants_flags(t);
    struct soft_address address;
    struct soft_uop *uop;

    if (soft_is_gpr(dst) && soft_is_gpr(src)) {
        uop = soft_emit(t, soft_uop_alu_rr(op, bytes, flags));
        uop->src = soft_place_of(src);
    } else if (soft_is_gpr(dst) && soft_is_imm(src)) {
        uop = soft_emit(t, soft_uop_alu_ri(op, bytes, flags));
        uop->imm = insn->imm;
    } else if (soft_is_gpr(dst)) {
        address = soft_emit_address(t, bytes, false);
        uop = emit_addressed(t, soft_uop_alu_rm(op, bytes, flags, address.form), &address);
    } else if (soft_is_gpr(src)) {
        address = soft_emit_address(t, bytes, true);
        uop = emit_addressed(t, soft_uop_alu_mr(op, bytes), &address);
        uop->src = soft_place_of(src);
        return true;
    } else {
        address = soft_emit_address(t, bytes, true);
        uop = emit_addressed(t, soft_uop_alu_mi(op, bytes), &address);
        uop->imm = insn->imm;
        return true;
    }
    uop->dst = soft_place_of(dst);
    return true;
}

static bool emit_carry(struct soft_translator *t, const struct soft_insn *insn)
{
    const struct soft_operand *dst = &insn->operand[0], *src = &insn->operand[1];
    unsigned op = insn->op == SOFT_OP_ADC ? SOFT_CARRY_ADC : SOFT_CARRY_SBB;
    unsigned bytes = dst->bytes;
    struct soft_address address;
    struct soft_uop *uop;

    if (soft_is_gpr(dst) && soft_is_gpr(src)) {
        uop = soft_emit(t, soft_uop_carry_rr(op, bytes));
        uop->src = soft_place_of(src);
    } else if (soft_is_gpr(dst) && soft_is_imm(src)) {
        uop = soft_emit(t, soft_uop_carry_ri(op, bytes));
        uop->imm = insn->imm;
    } else if (soft_is_gpr(dst)) {
        address = soft_emit_address(t, bytes, false);
        uop = emit_addressed(t, soft_uop_carry_rm(op, bytes), &address);
    } else if (soft_is_gpr(src)) {
        address = soft_emit_address(t, bytes, true);
        uop = emit_addressed(t, soft_uop_carry_mr(op, bytes), &address);
        uop->src = soft_place_of(src);
        return true;
    } else {
        address = soft_emit_address(t, bytes, true);
        uop = emit_addressed(t, soft_uop_carry_mi(op, bytes), &address);
        uop->imm = insn->imm;
        return true;
    }
    uop->dst = soft_place_of(dst);
    return true;
}

/* Forms with base and displacement, and the general one. */
static unsigned narrow(const struct soft_address *address)
{
    return address->form == SOFT_FORM_D ? SOFT_FORM_D : SOFT_FORM_F;
}

static bool emit_compare(struct soft_translator *t, const struct soft_insn *insn)
{
    const struct soft_operand *a = &insn->operand[0], *b = &insn->operand[1];
    unsigned op = insn->op == SOFT_OP_CMP ? SOFT_COMPARE_CMP : SOFT_COMPARE_TEST;
    unsigned bytes = a->bytes;
    struct soft_address address;
    struct soft_uop *uop;

    if (soft_is_gpr(a) && soft_is_gpr(b)) {
        uop = soft_emit(t, soft_uop_compare_rr(op, bytes));
        uop->dst = soft_place_of(a);
        uop->src = soft_place_of(b);
    } else if (soft_is_gpr(a) && soft_is_imm(b)) {
        uop = soft_emit(t, soft_uop_compare_ri(op, bytes));
        uop->dst = soft_place_of(a);
        uop->imm = insn->imm;
    } else if (soft_is_gpr(a)) {
        address = soft_emit_address(t, bytes, false);
        uop = emit_addressed(t, soft_uop_compare_rm(bytes, narrow(&address)), &address);
        uop->dst = soft_place_of(a);
    } else if (soft_is_gpr(b)) {
        address = soft_emit_address(t, bytes, false);
        uop = emit_addressed(t, soft_uop_compare_mr(op, bytes, narrow(&address)), &address);
        uop->src = soft_place_of(b);
    } else {
        address = soft_emit_address(t, bytes, false);
        uop = emit_addressed(t, soft_uop_compare_mi(op, bytes, narrow(&address)), &address);
        uop->imm = insn->imm;
    }
    return true;
}

static unsigned unary(unsigned op)
{
    switch (op) {
    case SOFT_OP_INC:
        return SOFT_UNARY_INC;
    case SOFT_OP_DEC:
        return SOFT_UNARY_DEC;
    case SOFT_OP_NEG:
        return SOFT_UNARY_NEG;
    default:
        return SOFT_UNARY_NOT;
    }
}

static bool emit_unary(struct soft_translator *t, const struct soft_insn *insn)
{
    const struct soft_operand *dst = &insn->operand[0];
    unsigned op = unary(insn->op);
    struct soft_address address;

    if (soft_is_gpr(dst)) {
        soft_emit(t, soft_uop_unary_r(op, dst->bytes, wants_flags(t)))->dst = soft_place_of(dst);
        return true;
    }
    address = soft_emit_address(t, dst->bytes, true);
    (void)emit_addressed(t, soft_uop_unary_m(op, dst->bytes), &address);
    return true;
}

static unsigned shift(unsigned op)
{
    switch (op) {
    case SOFT_OP_ROL:
        return SOFT_SHIFT_ROL;
    case SOFT_OP_ROR:
        return SOFT_SHIFT_ROR;
    case SOFT_OP_SHL:
        return SOFT_SHIFT_SHL;
    case SOFT_OP_SHR:
        return SOFT_SHIFT_SHR;
    default:
        return SOFT_SHIFT_SAR;
    }
}

static bool emit_shift(struct soft_translator *t, const struct soft_insn *insn)
{
    const struct soft_operand *dst = &insn->operand[0], *count = &insn->operand[1];
    unsigned op = shift(insn->op), bytes = dst->bytes;
    struct soft_uop *uop;

    if (!soft_is_gpr(dst)) {
        return false;
    }
    if (!soft_is_imm(count)) {
        uop = soft_emit(t, soft_uop_shift_rc(op, bytes, wants_flags(t)));
    } else if (soft_shift_count(insn) == 0) {
        /* No flags, but the upper half of a 4-byte register is cleared. */
        uop = soft_emit(t, soft_uop_mov_rr(bytes));
        uop->src = soft_place_of(dst);
    } else {
        uop = soft_emit(t, soft_uop_shift_ri(op, bytes, wants_flags(t)));
        uop->imm = soft_shift_count(insn);
    }
    uop->dst = soft_place_of(dst);
    return true;
}

static bool emit_imul(struct soft_translator *t, const struct soft_insn *insn)
{
    const struct soft_operand *dst = &insn->operand[0], *src = &insn->operand[1];
    unsigned bytes = dst->bytes;
    struct soft_address address;
    struct soft_uop *uop;

    if (insn->operands < 2) {
        return false;
    }
    if (insn->operands == 3 && soft_is_gpr(src)) {
        uop = soft_emit(t, soft_uop_multiply_rri(bytes, wants_flags(t)));
        uop->src = soft_place_of(src);
        uop->imm = insn->imm;
    } else if (insn->operands == 2 && soft_is_gpr(src)) {
        uop = soft_emit(t, soft_uop_multiply_rr(bytes, wants_flags(t)));
        uop->src = soft_place_of(src);
    } else if (insn->operands == 2 && bytes >= 4) {
        address = soft_emit_address(t, bytes, false);
        uop = emit_addressed(t, soft_uop_multiply_rm(bytes), &address);
    } else {
        return false;
    }
    uop->dst = soft_place_of(dst);
    return true;
}

static bool emit_mul(struct soft_translator *t, const struct soft_insn *insn)
{
    const struct soft_operand *src = &insn->operand[0];
    struct soft_address address;
    struct soft_uop *uop;

    if (src->bytes < 4) {
        return false;
    }
    if (soft_is_gpr(src)) {
        soft_emit(t, soft_uop_mul_r(src->bytes))->src = soft_place_of(src);
        return true;
    }
    address = soft_emit_address(t, src->bytes, false);
    uop = emit_addressed(t, soft_uop_load(src->bytes, address.form), &address);
    uop->dst = SOFT_PLACE(SOFT_SLOT_TEMP);
    soft_emit(t, soft_uop_mul_r(src->bytes))->src = SOFT_PLACE(SOFT_SLOT_TEMP);
    return true;
}

static unsigned bit(unsigned op)
{
    switch (op) {
    case SOFT_OP_BT:
        return SOFT_BIT_BT;
    case SOFT_OP_BTS:
        return SOFT_BIT_BTS;
    case SOFT_OP_BTR:
        return SOFT_BIT_BTR;
    default:
        return SOFT_BIT_BTC;
    }
}

static bool emit_bit(struct soft_translator *t, const struct soft_insn *insn)
{
    const struct soft_operand *dst = &insn->operand[0], *src = &insn->operand[1];
    struct soft_uop *uop;

    if (!soft_is_gpr(dst) || dst->bytes < 4) {
        return false;
    }
    if (soft_is_gpr(src)) {
        uop = soft_emit(t, soft_uop_bit_rr(bit(insn->op), dst->bytes));
        uop->src = soft_place_of(src);
    } else {
        uop = soft_emit(t, soft_uop_bit_ri(bit(insn->op), dst->bytes));
        uop->imm = insn->imm & (dst->bytes * 8u - 1);
    }
    uop->dst = soft_place_of(dst);
    return true;
}

/* CF stands at bit 8 of cpu->arith. */
static bool emit_carry_flag(struct soft_translator *t, const struct soft_insn *insn)
{
    const uint64_t carry = (uint64_t)HV_RFLAGS_CF << 8;
    struct soft_uop *uop = soft_emit(t, soft_uop_carry_flag());

    uop->imm = insn->op == SOFT_OP_CMC ? UINT64_MAX : ~carry;
    uop->disp = insn->op == SOFT_OP_CLC ? 0 : (int32_t)carry;
    return true;
}

/* ---- Fusion ----------------------------------------------------------------------------------- */

/* Number of the fused handler, or -1; @address is asked for only where there is one. */
static int fused_compare(const struct soft_insn *insn, unsigned cond)
{
    const struct soft_operand *a = &insn->operand[0], *b = &insn->operand[1];
    unsigned op = insn->op == SOFT_OP_CMP ? SOFT_COMPARE_CMP : SOFT_COMPARE_TEST;

    if (soft_is_gpr(a) && soft_is_gpr(b)) {
        return soft_uop_compare_rr_jcc(op, a->bytes, cond);
    }
    if (soft_is_gpr(a) && soft_is_imm(b)) {
        return soft_uop_compare_ri_jcc(op, a->bytes, cond);
    }
    if (soft_is_mem(a) && soft_is_imm(b)) {
        return soft_uop_compare_mi_jcc(op, a->bytes, cond);
    }
    if (op != SOFT_COMPARE_CMP) {
        return -1;
    }
    return soft_is_mem(a) ? soft_uop_compare_mr_jcc(a->bytes, cond)
                          : soft_uop_compare_rm_jcc(a->bytes, cond);
}

static int fused_combine(const struct soft_insn *insn, unsigned cond)
{
    const struct soft_operand *dst = &insn->operand[0];

    if (!soft_is_gpr(dst)) {
        return -1;
    }
    if (insn->op == SOFT_OP_DEC) {
        return soft_uop_combine_ri_jcc(SOFT_COMBINE_DEC, dst->bytes, cond);
    }
    if (!soft_is_imm(&insn->operand[1])) {
        return -1;
    }
    return soft_uop_combine_ri_jcc(insn->op == SOFT_OP_SUB   ? SOFT_COMBINE_SUB
                                   : insn->op == SOFT_OP_ADD ? SOFT_COMBINE_ADD
                                                             : SOFT_COMBINE_AND,
                                   dst->bytes, cond);
}

static int fused_number(const struct soft_insn *insn, unsigned cond)
{
    switch (insn->op) {
    case SOFT_OP_CMP:
    case SOFT_OP_TEST:
        return fused_compare(insn, cond);
    case SOFT_OP_SUB:
    case SOFT_OP_ADD:
    case SOFT_OP_AND:
    case SOFT_OP_DEC:
        return fused_combine(insn, cond);
    default:
        return -1;
    }
}

bool soft_emit_fused(struct soft_translator *t, const struct soft_insn *insn)
{
    const struct soft_insn *branch = insn + 1;
    struct soft_address address = {
        .base = SOFT_PLACE_ZERO, .index = SOFT_PLACE_ZERO, .segment = SOFT_PLACE_ZERO};
    const struct soft_operand *a = &insn->operand[0], *b = &insn->operand[1];
    struct soft_uop *uop;
    int number;

    if (t->at + 1 >= t->insns || branch->op != SOFT_OP_JCC || (insn->flags & SOFT_INSN_LOCK) ||
        soft_stack_bytes(t) != branch->operand_bytes) {
        return false;
    }
    number = fused_number(insn, branch->opcode & 15);
    if (number < 0) {
        return false;
    }
    if (soft_is_mem(a) || (insn->operands > 1 && soft_is_mem(b))) {
        address = soft_emit_address(t, a->bytes, false);
    }
    uop = soft_emit(t, number);
    t->closed = true;
    soft_uop_set_address(uop, &address);
    uop->dst = soft_is_gpr(a) ? soft_place_of(a) : 0;
    uop->src = insn->operands > 1 && soft_is_gpr(b) ? soft_place_of(b) : 0;
    uop->imm = insn->imm;
    t->at++;
    uop->next = (uint16_t)(t->offset[t->at] + branch->length);
    soft_set_target(t, (int64_t)uop->next + (int64_t)branch->imm);
    return true;
}

soft_emitter *soft_emitter_alu(unsigned op)
{
    static soft_emitter *const emitters[SOFT_OP_COUNT] = {
        [SOFT_OP_ADD] = emit_alu,        [SOFT_OP_OR] = emit_alu,
        [SOFT_OP_AND] = emit_alu,        [SOFT_OP_SUB] = emit_alu,
        [SOFT_OP_XOR] = emit_alu,        [SOFT_OP_ADC] = emit_carry,
        [SOFT_OP_SBB] = emit_carry,      [SOFT_OP_CMP] = emit_compare,
        [SOFT_OP_TEST] = emit_compare,   [SOFT_OP_INC] = emit_unary,
        [SOFT_OP_DEC] = emit_unary,      [SOFT_OP_NEG] = emit_unary,
        [SOFT_OP_NOT] = emit_unary,      [SOFT_OP_ROL] = emit_shift,
        [SOFT_OP_ROR] = emit_shift,      [SOFT_OP_SHL] = emit_shift,
        [SOFT_OP_SHR] = emit_shift,      [SOFT_OP_SAR] = emit_shift,
        [SOFT_OP_IMUL] = emit_imul,      [SOFT_OP_MUL] = emit_mul,
        [SOFT_OP_BT] = emit_bit,         [SOFT_OP_BTS] = emit_bit,
        [SOFT_OP_BTR] = emit_bit,        [SOFT_OP_BTC] = emit_bit,
        [SOFT_OP_CLC] = emit_carry_flag, [SOFT_OP_STC] = emit_carry_flag,
        [SOFT_OP_CMC] = emit_carry_flag,
    };

    return op < SOFT_OP_COUNT ? emitters[op] : NULL;
}
