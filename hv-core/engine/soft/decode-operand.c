/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Operands: effective addresses (SDM 2, tables 2-1 to 2-3), immediates, registers by ModRM, VEX or
 * opcode, and how wide each is.
 */
#include "base/bits.h"
#include "cpu/state.h"
#include "engine/soft/decode-private.h"

/* ModRM.rm and SIB values that do not name a register. */
#define SOFT_RM_DISP32   5u
#define SOFT_RM16_DISP16 6u
#define SOFT_SIB_NONE    4u

/* Bytes by operand size 2, 4, 8. X, H, F, G are those of 16-byte vectors. */
static const uint16_t soft_type_table[SOFT_TYPE_COUNT][3] = {
    [SOFT_TYPE_B] = {1, 1, 1},        [SOFT_TYPE_W] = {2, 2, 2},
    [SOFT_TYPE_D] = {4, 4, 4},        [SOFT_TYPE_Q] = {8, 8, 8},
    [SOFT_TYPE_V] = {2, 4, 8},        [SOFT_TYPE_Z] = {2, 4, 4},
    [SOFT_TYPE_Y] = {4, 4, 8},        [SOFT_TYPE_DQ] = {16, 16, 16},
    [SOFT_TYPE_QQ] = {32, 32, 32},    [SOFT_TYPE_X] = {16, 16, 16},
    [SOFT_TYPE_H] = {8, 8, 8},        [SOFT_TYPE_F] = {4, 4, 4},
    [SOFT_TYPE_G] = {2, 2, 2},        [SOFT_TYPE_P] = {4, 6, 10},
    [SOFT_TYPE_A] = {4, 8, 16},       [SOFT_TYPE_S] = {6, 6, 10},
    [SOFT_TYPE_T] = {10, 10, 10},     [SOFT_TYPE_BS] = {2, 4, 8},
    [SOFT_TYPE_ENV] = {14, 28, 28},   [SOFT_TYPE_STATE] = {94, 108, 108},
    [SOFT_TYPE_FX] = {512, 512, 512},
};

static unsigned soft_type_bytes(const struct soft_insn *insn, unsigned type)
{
    unsigned bytes = soft_type_table[type][insn->operand_bytes >> 2];

    if (type >= SOFT_TYPE_X && type <= SOFT_TYPE_G && insn->vex_bytes == 32) {
        bytes *= 2;
    }
    return bytes;
}

/* SDM 2, table 2-1. */
static bool soft_decode_mem16(struct soft_reader *reader, struct soft_insn *insn)
{
    static const struct {
        uint8_t base, index;
    } forms[8] = {
        {HV_REG_RBX, HV_REG_RSI},    {HV_REG_RBX, HV_REG_RDI},    {HV_REG_RBP, HV_REG_RSI},
        {HV_REG_RBP, HV_REG_RDI},    {HV_REG_RSI, SOFT_REG_NONE}, {HV_REG_RDI, SOFT_REG_NONE},
        {HV_REG_RBP, SOFT_REG_NONE}, {HV_REG_RBX, SOFT_REG_NONE},
    };
    unsigned mod = insn->modrm >> 6, rm = insn->modrm & 7;
    unsigned disp_bytes = mod;
    uint64_t disp = 0;

    insn->mem.base = forms[rm].base;
    insn->mem.index = forms[rm].index;
    if (mod == 0 && rm == SOFT_RM16_DISP16) {
        insn->mem.base = SOFT_REG_NONE;
        disp_bytes = 2;
    }
    if (insn->mem.base == HV_REG_RBP) {
        insn->mem.segment = HV_SEG_SS;
    }
    if (disp_bytes && !soft_reader_take(reader, disp_bytes, &disp)) {
        return false;
    }
    if (disp_bytes) {
        insn->mem.disp = (int64_t)soft_sign_extend(disp, disp_bytes);
    }
    return true;
}

bool soft_decode_mem(enum soft_mode mode, bool vsib, struct soft_reader *reader,
                     struct soft_insn *insn)
{
    unsigned mod = insn->modrm >> 6, rm = insn->modrm & 7;
    unsigned disp_bytes = mod == 2 ? 4 : mod;
    unsigned rex_b = (insn->rex & 1u) << 3, rex_x = (insn->rex & 2u) << 2;
    struct soft_mem *mem = &insn->mem;
    uint64_t sib, disp = 0;

    if (insn->address_bytes == 2) {
        return soft_decode_mem16(reader, insn);
    }
    if (rm == SOFT_RM_SIB) {
        if (!soft_reader_take(reader, 1, &sib)) {
            return false;
        }
        mem->scale = (uint8_t)(sib >> 6);
        mem->index = (uint8_t)((sib >> 3 & 7) | rex_x);
        if (mem->index == SOFT_SIB_NONE && !vsib) {
            mem->index = SOFT_REG_NONE;
            mem->scale = 0;
        }
        rm = sib & 7;
    }
    mem->base = (uint8_t)(rm | rex_b);
    if (mod == 0 && rm == SOFT_RM_DISP32) {
        disp_bytes = 4;
        mem->base = SOFT_REG_NONE;
        if (mode == SOFT_MODE_64 && (insn->modrm & 7) == SOFT_RM_DISP32) {
            mem->base = SOFT_REG_RIP;
        }
    }
    if (mem->base == HV_REG_RSP || mem->base == HV_REG_RBP) {
        mem->segment = HV_SEG_SS;
    }
    if (disp_bytes && !soft_reader_take(reader, disp_bytes, &disp)) {
        return false;
    }
    if (disp_bytes) {
        mem->disp = (int64_t)soft_sign_extend(disp, disp_bytes);
    }
    return true;
}

/* Bytes that stand for an immediate of @type: never more than 4 but in MOV Zv,Iv. */
static unsigned soft_immediate_bytes(const struct soft_insn *insn, unsigned type)
{
    return type == SOFT_TYPE_BS ? 1 : soft_type_bytes(insn, type);
}

static bool soft_read_far(struct soft_reader *reader, struct soft_insn *insn)
{
    return soft_reader_take(reader, insn->operand_bytes, &insn->imm) &&
           soft_reader_take(reader, 2, &insn->imm2);
}

/* A1 and its kin: an offset as wide as an address (SDM 2, 2.2.1.4). */
static bool soft_read_offset(struct soft_reader *reader, struct soft_insn *insn)
{
    uint64_t offset;

    if (!soft_reader_take(reader, insn->address_bytes, &offset)) {
        return false;
    }
    insn->mem.disp = (int64_t)offset;
    return true;
}

/* Immediates, branch and memory offsets stand after ModRM in the order of the operands. */
static bool soft_read_immediates(struct soft_reader *reader, const struct soft_encoding *encoding,
                                 struct soft_insn *insn)
{
    uint64_t *place = &insn->imm;

    for (unsigned i = 0; i < encoding->forms; i++) {
        const struct soft_form *form = &encoding->form[i];
        unsigned bytes;
        uint64_t value;

        if (form->kind == SOFT_OPERAND_FAR) {
            return soft_read_far(reader, insn);
        }
        if (form->kind == SOFT_OPERAND_MEM && !(insn->flags & SOFT_INSN_MODRM)) {
            return soft_read_offset(reader, insn);
        }
        if (form->kind == SOFT_OPERAND_CONST) {
            insn->imm = form->number;
        }
        if (form->kind != SOFT_OPERAND_IMM && form->kind != SOFT_OPERAND_REL) {
            continue;
        }
        bytes = soft_immediate_bytes(insn, form->type);
        if (!soft_reader_take(reader, bytes, &value)) {
            return false;
        }
        if (form->kind == SOFT_OPERAND_REL) {
            value = soft_sign_extend(value, bytes);
        } else if (form->type != SOFT_TYPE_B && form->type != SOFT_TYPE_W) {
            value = soft_sign_extend(value, bytes) & hv_bytes_mask(insn->operand_bytes);
        }
        *place = value;
        place = &insn->imm2;
    }
    /* A register in an immediate's high half; the low half may be an immediate as well. */
    if ((encoding->rules & SOFT_RULE_IS4) && place == &insn->imm) {
        return soft_reader_take(reader, 1, &insn->imm);
    }
    return true;
}

/* The register an operand names, or what else stands in its place. */
static unsigned soft_register_number(enum soft_mode mode, const struct soft_form *form,
                                     const struct soft_insn *insn)
{
    unsigned rex_r = (insn->rex & 4u) << 1, rex_b = (insn->rex & 1u) << 3;

    switch ((enum soft_source)form->source) {
    case SOFT_SOURCE_REG:
        return (insn->modrm >> 3 & 7u) | rex_r;
    case SOFT_SOURCE_RM:
    case SOFT_SOURCE_RM_OR_MEM:
        return (insn->modrm & 7u) | rex_b;
    case SOFT_SOURCE_VVVV:
        return insn->vex_vvvv;
    case SOFT_SOURCE_OPCODE:
        return (insn->opcode & 7u) | rex_b;
    case SOFT_SOURCE_IS4:
        return (unsigned)(insn->imm >> 4) & (mode == SOFT_MODE_64 ? 15u : 7u);
    case SOFT_SOURCE_FIXED:
        return form->number;
    case SOFT_SOURCE_MEM:
    case SOFT_SOURCE_NONE:
        break;
    }
    return 0;
}

static void soft_set_register(enum soft_mode mode, const struct soft_form *form,
                              const struct soft_insn *insn, struct soft_operand *operand)
{
    unsigned reg = soft_register_number(mode, form, insn);

    if (form->kind == SOFT_OPERAND_GPR) {
        /* SDM 2, 3.1.1.1: without REX, 4 to 7 are the second bytes of 0 to 3. */
        if (operand->bytes == 1 && reg >= 4 && !(insn->flags & SOFT_INSN_REX)) {
            operand->kind = SOFT_OPERAND_GPR_HIGH;
            reg -= 4;
        }
    } else if (form->kind == SOFT_OPERAND_XMM) {
        if (operand->bytes > 16) {
            operand->kind = SOFT_OPERAND_YMM;
        }
    } else if (form->kind != SOFT_OPERAND_CR && form->kind != SOFT_OPERAND_DR) {
        /* Segments, MMX and x87 registers are eight: REX does not reach them. */
        reg &= 7;
    }
    operand->reg = (uint8_t)reg;
}

bool soft_decode_operands(enum soft_mode mode, struct soft_reader *reader,
                          const struct soft_encoding *encoding, struct soft_insn *insn)
{
    if (!soft_read_immediates(reader, encoding, insn)) {
        return false;
    }
    for (unsigned i = 0; i < encoding->forms; i++) {
        const struct soft_form *form = &encoding->form[i];
        struct soft_operand *operand = &insn->operand[i];
        bool memory = form->source == SOFT_SOURCE_MEM ||
                      (form->source == SOFT_SOURCE_RM_OR_MEM && insn->modrm < 0xc0);

        operand->access = form->access;
        if (memory) {
            operand->kind = SOFT_OPERAND_MEM;
            if (form->access) {
                operand->bytes = (uint16_t)soft_type_bytes(insn, form->memory_type);
            }
            continue;
        }
        operand->kind = form->kind;
        operand->bytes = (uint16_t)soft_type_bytes(insn, form->type);
        if (form->kind == SOFT_OPERAND_IMM && form->type != SOFT_TYPE_B &&
            form->type != SOFT_TYPE_W) {
            operand->bytes = insn->operand_bytes;
        }
        if (form->source != SOFT_SOURCE_NONE) {
            soft_set_register(mode, form, insn, operand);
        }
    }
    insn->operands = encoding->forms;
    if (encoding->rules & SOFT_RULE_STRING) {
        insn->operand_bytes = (uint8_t)soft_type_bytes(insn, encoding->string_type);
    }
    if (encoding->rules & (SOFT_RULE_STRING | SOFT_RULE_IMPLIED)) {
        insn->flags |= SOFT_INSN_STRING_IMPLIED;
    }
    return true;
}
