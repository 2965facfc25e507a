/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the emitters of the instruction families share. */
#pragma once

#include "engine/soft/block.h"
#include "engine/soft/thunk.h"
#include "engine/soft/translate.h"

#include "cpu/policy.h"

#include "engine/soft/isa-ops.h"
#include "engine/soft/soft-uops.h"

/* An address, and up to two micro-operations of one instruction; then the branch. */
#define SOFT_PLAN_UOPS     (SOFT_BLOCK_INSNS * 3 + 2)
#define SOFT_SCRATCH_BYTES 1024u

struct soft_translator {
    /* Set at creation. */
    const void *const *label;
    /* Of the block in the making. */
    struct hv_engine_vcpu *vcpu;
    uint32_t key;
    unsigned insns;
    struct soft_insn insn[SOFT_BLOCK_INSNS];
    uint16_t offset[SOFT_BLOCK_INSNS]; /* in the page */
    bool flags_dead[SOFT_BLOCK_INSNS]; /* nobody can see the flags this one leaves */
    bool ended;                        /* its last instruction was a branch or the like */
    bool closed;                       /* its last micro-operation is a branch */
    unsigned at;                       /* instruction whose micro-operations are being emitted */
    int failed;                        /* a thunk could not be had: the errno */
    unsigned uops;
    unsigned calls;
    struct soft_uop uop[SOFT_PLAN_UOPS];
    int16_t number[SOFT_PLAN_UOPS]; /* handler numbers of the above */
    struct soft_call call[SOFT_BLOCK_INSNS];
    struct soft_links links;
    uint8_t bytes[SOFT_BLOCK_BYTES + SOFT_INSN_MAX + 1];
    /* A block that is run once, where code may not be cached. */
    uint8_t scratch[SOFT_SCRATCH_BYTES] HV_ALIGNED(64);
};

/* Where a memory operand is, after micro-operations that had to come first. */
struct soft_address {
    enum soft_form form; /* the least that computes it */
    uint8_t base, index, segment, scale;
    int32_t disp;
};

/* Of an instruction without a memory operand. */
#define SOFT_ADDRESS_NONE   \
    ((struct soft_address){ \
        .base = SOFT_PLACE_ZERO, .index = SOFT_PLACE_ZERO, .segment = SOFT_PLACE_ZERO})

/* Pseudo-instructions beyond the decoder's: bytes that raise. */
enum soft_bad {
    SOFT_BAD_UNDEFINED = SOFT_OP_COUNT, /* #UD */
    SOFT_BAD_TOO_LONG,                  /* #GP(0) */
    SOFT_BAD_PRIVILEGE,                 /* #GP(0) */
};

static inline bool soft_mode_64(const struct soft_translator *t)
{
    return (t->key & SOFT_KEY_MODE) == SOFT_MODE_64;
}

/** Bytes of a stack slot the hot handlers can work with: 8, 4; 0 when functions must do it. */
static inline unsigned soft_stack_bytes(const struct soft_translator *t)
{
    return !(t->key & SOFT_KEY_FLAT) ? 0 : soft_mode_64(t) ? 8 : 4;
}

static inline uint8_t soft_place_of(const struct soft_operand *operand)
{
    return (uint8_t)(operand->reg * 8 + (operand->kind == SOFT_OPERAND_GPR_HIGH ? 1 : 0));
}

static inline bool soft_is_gpr(const struct soft_operand *operand)
{
    return operand->kind == SOFT_OPERAND_GPR || operand->kind == SOFT_OPERAND_GPR_HIGH;
}

static inline bool soft_is_imm(const struct soft_operand *operand)
{
    return operand->kind == SOFT_OPERAND_IMM || operand->kind == SOFT_OPERAND_CONST;
}

static inline bool soft_is_mem(const struct soft_operand *operand)
{
    return operand->kind == SOFT_OPERAND_MEM;
}

/** Append a micro-operation of the present instruction. @number from soft-uops.h, not -1. */
struct soft_uop *soft_emit(struct soft_translator *t, int number);

/** The address of the present instruction's memory operand; may append micro-operations. */
struct soft_address soft_emit_address(struct soft_translator *t, unsigned bytes, bool write);

/** As soft_emit_address(), but the offset inside the segment, unchecked. */
struct soft_address soft_emit_offset(struct soft_translator *t);

void soft_uop_set_address(struct soft_uop *uop, const struct soft_address *address);

/** Its operand in memory (of size 0 where only the address counts), or NULL. */
const struct soft_operand *soft_memory_operand(const struct soft_insn *insn);

/*
 * Emitters: true when the instruction was emitted, false (nothing appended) when a form is not
 * theirs and the general ways must do it.
 */
typedef bool soft_emitter(struct soft_translator *t, const struct soft_insn *insn);

soft_emitter *soft_emitter_data(unsigned op);
soft_emitter *soft_emitter_alu(unsigned op);
soft_emitter *soft_emitter_branch(unsigned op);

/** False, with nothing appended, when there is no thunk for it (t->failed then says whether there
 * could be one). */
bool soft_emit_thunk(struct soft_translator *t, const struct soft_insn *insn);

/** Thunk, C function or #UD. Never refuses. */
void soft_emit_general(struct soft_translator *t, const struct soft_insn *insn);

/** Compare (or combine) and the JCC behind it in one. True: both are emitted, `at` moved on. */
bool soft_emit_fused(struct soft_translator *t, const struct soft_insn *insn);

/** Join the micro-operation at @first, the last one, with a register move before it. */
void soft_emit_join_move(struct soft_translator *t, unsigned first);

/** What follows the last instruction when it was no branch. */
void soft_emit_fall(struct soft_translator *t);

/** Set the links' target for a branch to @target, counted from offset 0 of the page. */
void soft_set_target(struct soft_translator *t, int64_t target);

/** The count of a shift or rotate by a constant, masked as the CPU does (SDM 2, SAL and RCL). */
static inline unsigned soft_shift_count(const struct soft_insn *insn)
{
    return (unsigned)insn->imm & (insn->operand[0].bytes == 8 ? 63 : 31);
}

/** Does the instruction end its block? */
bool soft_insn_ends(const struct soft_insn *insn);
/** Can it neither fault nor show the flags to anybody, flags_read apart? */
bool soft_insn_is_quiet(const struct soft_insn *insn);

/** The C function of @insn, NULL when there is none. */
soft_call_fn *soft_function_of(const struct soft_insn *insn);
/** True when it works out the address of its memory operand by itself. */
bool soft_function_addresses(soft_call_fn *run);
