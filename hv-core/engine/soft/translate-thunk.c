/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Micro-operations for what runs as a host instruction: a call of its thunk through
 * soft_thunk_run(), which checks everything; or, in a block whose key says that SSE may run, the
 * thunk's code directly, and for moves no code at all. The direct forms keep the thunk: what is not
 * plain RAM, or comes under unmasked exceptions, goes through soft_thunk_run() all the same.
 */
#include "engine/soft/translate-private.h"

#include <errno.h>

#include "engine/soft/vector.h"

/* A handler and its two small operands, whose meaning is the handler's. */
struct choice {
    int number;
    uint8_t dst;
    uint8_t src;
};

static uint8_t vector_place(const struct soft_operand *operand)
{
    return (uint8_t)(operand->reg * SOFT_XMM_BYTES);
}

static bool is_vector(const struct soft_operand *operand)
{
    return operand->kind == SOFT_OPERAND_XMM;
}

/* Moves between vector registers, memory and general registers that replace their whole
 * destination: all but MOVSS and MOVSD from register to register. */
static bool is_move(unsigned op)
{
    switch (op) {
    case SOFT_OP_MOVUPS:
    case SOFT_OP_MOVUPD:
    case SOFT_OP_MOVAPS:
    case SOFT_OP_MOVAPD:
    case SOFT_OP_MOVDQA:
    case SOFT_OP_MOVDQU:
    case SOFT_OP_LDDQU:
    case SOFT_OP_MOVSS:
    case SOFT_OP_MOVSD:
    case SOFT_OP_MOVQ:
    case SOFT_OP_MOVD:
        return true;
    default:
        return false;
    }
}

static bool choose_move(const struct soft_insn *insn, const struct soft_thunk *thunk,
                        struct choice *choice)
{
    const struct soft_operand *dst = &insn->operand[0], *src = &insn->operand[1];

    if (!is_move(insn->op)) {
        return false;
    }
    if (is_vector(dst) && soft_is_mem(src)) {
        *choice =
            (struct choice){soft_uop_sse_load(src->bytes), vector_place(dst), thunk->slow_mask};
    } else if (soft_is_mem(dst) && is_vector(src)) {
        *choice =
            (struct choice){soft_uop_sse_store(dst->bytes), thunk->slow_mask, vector_place(src)};
    } else if (is_vector(dst) && soft_is_gpr(src)) {
        *choice = (struct choice){soft_uop_sse_from_gpr(src->bytes), vector_place(dst),
                                  soft_place_of(src)};
    } else if (soft_is_gpr(dst) && is_vector(src)) {
        *choice =
            (struct choice){soft_uop_sse_to_gpr(dst->bytes), soft_place_of(dst), vector_place(src)};
    } else if (is_vector(dst) && is_vector(src) && src->bytes == SOFT_XMM_BYTES) {
        *choice = (struct choice){soft_uop_sse_move(), vector_place(dst), vector_place(src)};
    } else {
        return false;
    }
    return choice->number >= 0;
}

/* Exclusive or of a register with itself. */
static bool clears_register(const struct soft_insn *insn)
{
    return (insn->op == SOFT_OP_XORPS || insn->op == SOFT_OP_XORPD || insn->op == SOFT_OP_PXOR) &&
           is_vector(&insn->operand[1]) && insn->operand[0].reg == insn->operand[1].reg;
}

static struct choice choose(const struct soft_translator *t, const struct soft_insn *insn,
                            const struct soft_thunk *thunk)
{
    const unsigned direct = SOFT_THUNK_FP_SSE | SOFT_THUNK_FP_ARITH;
    struct choice choice;

    if (thunk->fp & SOFT_THUNK_FP_X87) {
        return (struct choice){.number = soft_uop_thunk_x87()};
    }
    if ((thunk->fp & ~direct) || thunk->special || thunk->locked ||
        ((thunk->fp & SOFT_THUNK_FP_SSE) && !(t->key & SOFT_KEY_SSE))) {
        return (struct choice){.number = soft_uop_thunk()};
    }
    if ((thunk->fp & SOFT_THUNK_FP_SSE) && choose_move(insn, thunk, &choice)) {
        return choice;
    }
    if (clears_register(insn)) {
        return (struct choice){soft_uop_sse_zero(), vector_place(&insn->operand[0]), 0};
    }
    if (thunk->memory_bytes == 0) {
        return (struct choice){.number = soft_uop_thunk_r()};
    }
    if (thunk->memory_access == SOFT_ACCESS_READ) {
        return (struct choice){soft_uop_thunk_m(), thunk->slow_mask, thunk->memory_bytes};
    }
    return (struct choice){.number = soft_uop_thunk()};
}

bool soft_emit_thunk(struct soft_translator *t, const struct soft_insn *insn)
{
    const struct soft_operand *memory = soft_memory_operand(insn);
    const uint8_t *bytes = &t->bytes[t->offset[t->at] - t->offset[0]];
    struct soft_address address = SOFT_ADDRESS_NONE;
    const struct soft_thunk *thunk;
    struct choice choice;
    struct soft_uop *uop;
    int rc;

    rc = soft_thunk_get(t->vcpu->domain->thunks, insn, bytes, &thunk);
    if (rc) {
        if (rc != -ENOTSUP) {
            t->failed = rc;
        }
        return false;
    }
    /* Gathers and MASKMOV find their addresses themselves. */
    if (memory && thunk->memory_bytes) {
        address = soft_emit_address(t, memory->bytes, memory->access & SOFT_ACCESS_WRITE);
    }
    choice = choose(t, insn, thunk);
    uop = soft_emit(t, choice.number);
    soft_uop_set_address(uop, &address);
    uop->dst = choice.dst;
    uop->src = choice.src;
    uop->thunk = thunk;
    return true;
}
