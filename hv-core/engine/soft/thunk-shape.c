/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * From a decoded instruction to the shape of its thunk: register fields with their high bits, sizes
 * settled for a host in 64-bit mode, vector registers to load and store, the memory operand reduced
 * to size and direction.
 */
#include "engine/soft/thunk-private.h"

#include <errno.h>

/* Bytes of ModRM, SIB and displacement (SDM 2A tables 2-1 to 2-3). */
static size_t address_length(const struct soft_insn *insn, const uint8_t *modrm)
{
    unsigned mod = modrm[0] >> 6, rm = modrm[0] & 7;

    if (mod == 3) {
        return 1;
    }
    if (insn->address_bytes == 2) {
        return mod == 1 ? 2u : mod == 2 || rm == 6 ? 3u : 1u;
    }
    if (rm == 4) {
        unsigned base = modrm[1] & 7;

        return mod == 1 ? 3u : mod == 2 || base == 5 ? 6u : 2u;
    }
    return mod == 1 ? 2u : mod == 2 || rm == 5 ? 5u : 1u;
}

static int take_immediate(struct soft_shape *shape, const struct soft_insn *insn,
                          const uint8_t *bytes)
{
    size_t at = (size_t)insn->opcode_offset + 1;

    if (insn->flags & SOFT_INSN_MODRM) {
        at += address_length(insn, &bytes[at]);
    }
    if (at > insn->length || insn->length - at > sizeof(shape->imm)) {
        return -ENOTSUP;
    }
    shape->imm_bytes = (uint8_t)(insn->length - at);
    memcpy(shape->imm, &bytes[at], shape->imm_bytes);
    if (shape->flags & SOFT_FORM_IS4) {
        /* Bit 7 does not count outside 64-bit mode; the decoder knows the register. */
        shape->imm[0] = (uint8_t)((shape->imm[0] & 0x0fu) | ((unsigned)insn->operand[3].reg << 4));
    }
    return 0;
}

/* Note a vector register; one named twice is loaded once, at the larger size. */
static int add_vector(struct soft_shape *shape, uint8_t reg, uint8_t bytes, uint8_t access)
{
    struct soft_vector *vector = shape->vector;

    for (unsigned i = 0; i < shape->vectors; i++, vector++) {
        if (vector->reg == reg) {
            vector->bytes = vector->bytes > bytes ? vector->bytes : bytes;
            vector->access |= access;
            return 0;
        }
    }
    if (shape->vectors == SOFT_VECTOR_MAX) {
        return -ENOTSUP;
    }
    *vector = (struct soft_vector){.reg = reg, .bytes = bytes, .access = access};
    shape->vectors++;
    return 0;
}

/* Vector registers and memory, from the decoder's list. */
static int take_operands(struct soft_shape *shape, const struct soft_insn *insn)
{
    int rc = 0;

    for (unsigned i = 0; i < insn->operands && rc == 0; i++) {
        const struct soft_operand *operand = &insn->operand[i];

        if (operand->kind == SOFT_OPERAND_XMM) {
            rc = add_vector(shape, operand->reg, 16, operand->access);
        } else if (operand->kind == SOFT_OPERAND_YMM) {
            rc = add_vector(shape, operand->reg, 32, operand->access);
        } else if (operand->kind == SOFT_OPERAND_MEM) {
            if (operand->bytes > SOFT_THUNK_MEMORY_MAX) {
                return -ENOTSUP;
            }
            shape->memory_bytes = (uint8_t)operand->bytes;
            shape->memory_access = operand->access;
        }
    }
    if (rc == 0 && (shape->flags & SOFT_FORM_XMM0_READ)) {
        rc = add_vector(shape, 0, 16, SOFT_ACCESS_READ);
    }
    if (rc == 0 && (shape->flags & SOFT_FORM_XMM0_WRITTEN)) {
        rc = add_vector(shape, 0, 16, SOFT_ACCESS_WRITE);
    }
    return rc;
}

/*
 * Does the operand size of 16 bits, which is the guest's but never the host's default, reach the
 * instruction? Of those that name no operand (CBW, CWD) always. MOVNTI's is 32 bits all the same, and
 * with the prefix 66h the host has no such instruction.
 */
static bool has_size16(const struct soft_insn *insn)
{
    bool named = false;

    for (unsigned i = 0; i < insn->operands; i++) {
        named |= insn->operand[i].bytes == 2;
    }
    return insn->operand_bytes == 2 && (named || insn->operands == 0);
}

/*
 * Operand size. REX.W of a general register has no meaning outside 64-bit mode where VEX.W may stand
 * all the same: the decoder's sizes say what was meant.
 */
static void take_size(struct soft_shape *shape, const struct soft_insn *insn)
{
    const struct soft_operand *sized = NULL;

    if (shape->flags & SOFT_FORM_INTEGER) {
        shape->w = insn->operand_bytes == 8;
        shape->size16 = has_size16(insn);
        return;
    }
    if (!(shape->flags & (SOFT_FORM_GPR_REG | SOFT_FORM_GPR_RM))) {
        shape->w = shape->map != 0 && (insn->flags & SOFT_INSN_W);
        return;
    }
    for (unsigned i = 0; i < insn->operands; i++) {
        const struct soft_operand *operand = &insn->operand[i];

        if (operand->kind == SOFT_OPERAND_GPR ||
            (operand->kind == SOFT_OPERAND_MEM && !(shape->flags & SOFT_FORM_GPR_REG))) {
            sized = operand;
            break;
        }
    }
    shape->w = sized && sized->bytes == 8;
}

static void take_fields(struct soft_shape *shape, const struct soft_insn *insn)
{
    bool x87 = insn->map == 0 && (insn->opcode & 0xf8) == 0xd8;
    unsigned r = insn->rex & 4 ? 8 : 0, b = insn->rex & 1 ? 8 : 0;

    shape->has_modrm = insn->flags & SOFT_INSN_MODRM;
    shape->memory = shape->has_modrm && (insn->modrm >> 6) != 3;
    shape->modrm = shape->memory ? insn->modrm & 0x38 : insn->modrm;
    shape->reg = (uint8_t)((insn->modrm >> 3 & 7) + r);
    shape->rm = shape->memory ? 0 : (uint8_t)((insn->modrm & 7) + b);
    shape->vvvv = insn->flags & SOFT_INSN_VEX ? insn->vex_vvvv : 0;
    if (x87 || (shape->flags & SOFT_FORM_MOD_RM_EXT)) {
        shape->reg &= 7;
    }
    if (x87) {
        shape->rm &= 7;
    }
    if (shape->flags & SOFT_FORM_GPR_OPCODE) {
        shape->rm = (uint8_t)((insn->opcode & 7) + b);
    }
    if (!shape->has_modrm) {
        shape->modrm = 0;
        shape->reg = 0;
    }
}

/* The state it touches: memory forms name no register of it. */
static void take_fp(struct soft_shape *shape, unsigned row_flags)
{
    if (shape->vex_bytes) {
        shape->fp |= SOFT_THUNK_FP_VEX;
    }
    if (row_flags & SOFT_ISA_X87) {
        shape->fp |= SOFT_THUNK_FP_X87;
    }
    /* CVTPI2PS and CVTPI2PD with memory neither wait for x87 nor enter MMX state (measured on
     * Intel's Sapphire Rapids; SDM 2A says so of the latter). */
    if ((row_flags & SOFT_ISA_MMX) && !(shape->opcode == 0x2a && shape->memory)) {
        shape->fp |= SOFT_THUNK_FP_MMX;
    }
    if (row_flags & SOFT_ISA_SSE) {
        shape->fp |= SOFT_THUNK_FP_SSE;
    }
    if (row_flags & SOFT_ISA_AVX) {
        shape->fp |= SOFT_THUNK_FP_AVX;
    }
    if (shape->flags & SOFT_FORM_ARITH) {
        shape->fp |= SOFT_THUNK_FP_ARITH;
    }
}

/* Forms that compute their own addresses need to know how. */
static int take_special(struct soft_shape *shape, const struct soft_insn *insn)
{
    if (shape->flags & SOFT_FORM_MASKED) {
        shape->memory_bytes = shape->vex_bytes;
        return 0;
    }
    if (!(shape->flags & (SOFT_FORM_GATHER | SOFT_FORM_MASKED_BYTES))) {
        return 0;
    }
    if (shape->flags & SOFT_FORM_GATHER) {
        /* Destination, index and mask must be three registers: else #UD (SDM 2C VGATHER). */
        if (shape->reg == shape->vvvv || shape->reg == insn->mem.index ||
            shape->vvvv == insn->mem.index || insn->mem.index > 15) {
            return -ENOTSUP;
        }
    }
    shape->memory_bytes = 0;
    shape->memory_access = 0;
    shape->address_bytes = insn->address_bytes;
    /* Member by member: padding is part of the key. */
    shape->mem.base = insn->mem.base;
    shape->mem.index = insn->mem.index;
    shape->mem.scale = insn->mem.scale;
    shape->mem.segment = insn->mem.segment;
    shape->mem.disp = insn->mem.disp;
    return 0;
}

int soft_shape_init(struct soft_shape *shape, const struct soft_insn *insn, const uint8_t *bytes)
{
    const struct soft_thunk_form *form = soft_thunk_form_find(insn);
    const struct soft_isa_row *row;
    int rc;

    memset(shape, 0, sizeof(*shape));
    if (!form) {
        return -ENOTSUP;
    }
    row = soft_isa_row(insn->row);
    shape->flags = form->flags;
    shape->map = insn->map;
    shape->opcode = insn->opcode;
    shape->mandatory = insn->mandatory;
    shape->vex_bytes = insn->flags & SOFT_INSN_VEX ? insn->vex_bytes : 0;
    shape->rex =
        (insn->flags & SOFT_INSN_REX) && (shape->flags & (SOFT_FORM_BYTE_REG | SOFT_FORM_BYTE_RM));
    shape->lock = insn->flags & SOFT_INSN_LOCK;
    shape->arith = (row->flags_read | row->flags_written) & HV_RFLAGS_ARITH;
    take_fields(shape, insn);
    take_size(shape, insn);
    rc = take_operands(shape, insn);
    if (rc == 0) {
        rc = take_immediate(shape, insn, bytes);
    }
    if (rc == 0 && shape->memory && shape->memory_bytes == 0 &&
        !(shape->flags & SOFT_FORM_GATHER)) {
        rc = -ENOTSUP;
    }
    if (rc == 0) {
        rc = take_special(shape, insn);
    }
    take_fp(shape, row->flags);
    shape->aligned = shape->memory_bytes && (row->flags & SOFT_ISA_ALIGNED);
    return rc;
}
