/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The decoder's invariants, for the fuzzer and for random tests. */
#include "engine/decode-invariants.h"

#include "base/bits.h"
#include "cpu/state.h"
#include "engine/soft/isa-ops.h"

#include <string.h>

static unsigned register_limit(enum soft_mode mode, uint8_t kind)
{
    switch ((enum soft_operand_kind)kind) {
    case SOFT_OPERAND_GPR_HIGH:
        return 4;
    case SOFT_OPERAND_SEG:
        return HV_SEG_COUNT;
    case SOFT_OPERAND_ST:
    case SOFT_OPERAND_MMX:
    case SOFT_OPERAND_DR:
        return 8;
    case SOFT_OPERAND_CR:
        return mode == SOFT_MODE_64 ? 9 : 5;
    case SOFT_OPERAND_GPR:
    case SOFT_OPERAND_XMM:
    case SOFT_OPERAND_YMM:
        return mode == SOFT_MODE_64 ? 16 : 8;
    case SOFT_OPERAND_NONE:
    case SOFT_OPERAND_MEM:
    case SOFT_OPERAND_IMM:
    case SOFT_OPERAND_REL:
    case SOFT_OPERAND_FAR:
    case SOFT_OPERAND_CONST:
        break;
    }
    return 1;
}

static const char *check_operands(enum soft_mode mode, const struct soft_insn *insn)
{
    const uint64_t *immediate = &insn->imm;

    if (insn->operands > SOFT_OPERAND_MAX)
        return "more operands than there are";
    for (unsigned i = 0; i < insn->operands; i++) {
        const struct soft_operand *operand = &insn->operand[i];

        if (operand->kind == SOFT_OPERAND_NONE || operand->kind > SOFT_OPERAND_CONST)
            return "an operand of no kind";
        if (operand->reg >= register_limit(mode, operand->kind))
            return "a register that does not exist";
        if (operand->kind == SOFT_OPERAND_IMM) {
            if (*immediate & ~hv_bytes_mask(operand->bytes))
                return "an immediate wider than its operand";
            immediate = &insn->imm2;
        }
        if (operand->kind == SOFT_OPERAND_GPR && operand->bytes != 1 && operand->bytes != 2 &&
            operand->bytes != 4 && operand->bytes != 8)
            return "a general register of odd width";
    }
    return NULL;
}

static const char *check_memory(enum soft_mode mode, const struct soft_insn *insn)
{
    unsigned limit = mode == SOFT_MODE_64 ? 16 : 8, memories = 0;
    const struct soft_mem *mem = &insn->mem;

    for (unsigned i = 0; i < insn->operands; i++)
        memories += insn->operand[i].kind == SOFT_OPERAND_MEM;
    if (memories > 1)
        return "two memory operands";
    if (memories == 0 && (mem->base != SOFT_REG_NONE || mem->index != SOFT_REG_NONE || mem->disp))
        return "an address without a memory operand";
    if (mem->base >= limit && mem->base != SOFT_REG_NONE &&
        (mem->base != SOFT_REG_RIP || mode != SOFT_MODE_64))
        return "a base that does not exist";
    if ((mem->index >= limit && mem->index != SOFT_REG_NONE) || mem->scale > 3)
        return "an index that does not exist";
    if (mem->segment >= HV_SEG_COUNT)
        return "a segment that does not exist";
    return NULL;
}

static const char *check_insn(enum soft_mode mode, const uint8_t *bytes,
                              const struct soft_insn *insn)
{
    const char *text = check_operands(mode, insn);
    enum soft_decode_result result;
    struct soft_insn again;
    uint8_t padded[SOFT_INSN_MAX];

    if (!text)
        text = check_memory(mode, insn);
    if (text)
        return text;
    if (insn->row >= soft_isa_rows() || insn->op >= SOFT_OP_COUNT ||
        soft_isa_row(insn->row)->op != insn->op)
        return "no such row";
    if (insn->opcode_offset >= insn->length || bytes[insn->opcode_offset] != insn->opcode)
        return "the opcode stands elsewhere";
    if ((insn->flags & SOFT_INSN_LOCK) && insn->operand[0].kind != SOFT_OPERAND_MEM)
        return "LOCK without a memory destination";

    memset(padded, 0xff, sizeof(padded));
    memcpy(padded, bytes, insn->length);
    result = soft_decode(mode, padded, sizeof(padded), &again);
    if (result != SOFT_DECODE_OK || memcmp(&again, insn, sizeof(again)) != 0)
        return "what follows changes the instruction";
    for (size_t cut = 0; cut < insn->length; cut++) {
        if (soft_decode(mode, bytes, cut, &again) != SOFT_DECODE_SHORT)
            return "a beginning of an instruction is not SHORT";
    }
    return NULL;
}

const char *decode_invariants(enum soft_mode mode, const uint8_t *bytes, size_t available)
{
    uint8_t padded[2 * SOFT_INSN_MAX];
    struct soft_insn insn;

    switch (soft_decode(mode, bytes, available, &insn)) {
    case SOFT_DECODE_OK:
        if (insn.length == 0 || insn.length > SOFT_INSN_MAX || insn.length > available)
            return "a length out of bounds";
        return check_insn(mode, bytes, &insn);
    case SOFT_DECODE_UD:
        memset(padded, 0, sizeof(padded));
        memcpy(padded, bytes, available < SOFT_INSN_MAX ? available : SOFT_INSN_MAX);
        return soft_decode(mode, padded, sizeof(padded), &insn) == SOFT_DECODE_UD
                   ? NULL
                   : "#UD no more when more bytes are there";
    case SOFT_DECODE_TOO_LONG:
        return available >= SOFT_INSN_MAX ? NULL : "too long, but it is not";
    case SOFT_DECODE_SHORT:
        return available < SOFT_INSN_MAX ? NULL : "short of bytes, but there are fifteen";
    }
    return "no such result";
}
