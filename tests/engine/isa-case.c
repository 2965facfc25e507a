/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rows to cases: an encoding, and the solving of its addresses. */
#include "engine/isa-case.h"

#include "base/bits.h"
#include "cpu/state.h"
#include "engine/soft/isa-ops.h"

#include <string.h>

/* Bit strings and repeated strings reach this far from their address. */
#define ISA_REACH 128u

static bool uses(const struct soft_insn *insn, unsigned reg)
{
    return insn->mem.base == reg || insn->mem.index == reg;
}

static bool is_stack(uint16_t op)
{
    return op == SOFT_OP_PUSH || op == SOFT_OP_POP || op == SOFT_OP_PUSHF || op == SOFT_OP_ENTER ||
           op == SOFT_OP_LEAVE || op == SOFT_OP_CALL || op == SOFT_OP_RET;
}

static bool is_bit_string(const struct soft_insn *insn)
{
    return (insn->op == SOFT_OP_BT || insn->op == SOFT_OP_BTS || insn->op == SOFT_OP_BTR ||
            insn->op == SOFT_OP_BTC) &&
           insn->operand[0].kind == SOFT_OPERAND_MEM && insn->operand[1].kind == SOFT_OPERAND_GPR;
}

/*
 * Atomic accesses are kept inside a cache line: a host may slow down the whole machine for others, or
 * kill the process (split_lock_detect).
 */
static bool is_atomic(const struct soft_insn *insn)
{
    return (insn->flags & SOFT_INSN_LOCK) || insn->op == SOFT_OP_XCHG;
}

/* Memory by ModRM, or at an offset: what isa_effective_address() is about. */
static const struct soft_operand *memory_operand(const struct soft_insn *insn)
{
    for (unsigned i = 0; i < insn->operands; i++) {
        if (insn->operand[i].kind == SOFT_OPERAND_MEM)
            return &insn->operand[i];
    }
    return NULL;
}

static uint64_t segment_base(const struct soft_insn *insn)
{
    return insn->mem.segment == HV_SEG_GS ? ISA_GS_BASE : 0;
}

uint64_t isa_effective_address(const struct soft_insn *insn, const struct isa_state *state)
{
    const struct soft_mem *mem = &insn->mem;
    uint64_t address = (uint64_t)mem->disp;

    if (mem->base == SOFT_REG_RIP)
        address += state->rip + insn->length;
    else if (mem->base != SOFT_REG_NONE)
        address += state->gpr[mem->base];
    if (mem->index != SOFT_REG_NONE)
        address += state->gpr[mem->index] << mem->scale;
    return (address & hv_bytes_mask(insn->address_bytes)) + segment_base(insn);
}

/* An address of @bytes for @kind; @reach bytes on both sides are in the sandbox too. */
static uint64_t choose_target(const struct isa_layout *layout, enum isa_kind kind, unsigned bytes,
                              unsigned reach, bool aligned, struct isa_random *random)
{
    uint64_t middle = layout->sandbox + HV_PAGE_SIZE, end = layout->sandbox + ISA_SANDBOX_BYTES;
    uint64_t target;

    if (bytes == 0)
        bytes = 1;
    if (kind == ISA_KIND_CROSSING)
        return middle - 1 - isa_random_below(random, bytes - 1);
    if (kind == ISA_KIND_FAULTING)
        return isa_random(random) & 1 ? end - isa_random_below(random, bytes)
                                      : layout->sandbox - 1 - isa_random_below(random, bytes);
    target = layout->sandbox + reach +
             isa_random_below(random, (unsigned)(HV_PAGE_SIZE - bytes - 2 * reach));
    if (isa_random(random) & 1)
        target += HV_PAGE_SIZE;
    if (aligned)
        target &= ~(uint64_t)(bytes - 1);
    return target;
}

/*
 * One of the two places of @target: any where a whole register or a full offset says which; else the
 * one that 32 bits reach.
 */
static uint64_t choose_alias(bool wide, uint64_t segment, uint64_t target,
                             struct isa_random *random)
{
    if (wide)
        return isa_random(random) & 1 ? target ^ ISA_ALIAS : target;
    return segment ? target | ISA_ALIAS : target;
}

/* Of what ModRM or an offset names; RIP-relative it is where the code is, or what GS reaches. */
static uint64_t choose_named_alias(const struct isa_layout *layout, const struct soft_insn *insn,
                                   uint64_t target, struct isa_random *random)
{
    uint64_t segment = segment_base(insn);
    bool absolute = insn->mem.base == SOFT_REG_NONE && (insn->flags & SOFT_INSN_MODRM);

    if (insn->mem.base == SOFT_REG_RIP)
        return target | (segment ? ISA_ALIAS : layout->code & ISA_ALIAS);
    return choose_alias(insn->address_bytes == 8 && !absolute, segment, target, random);
}

/* The displacement's place in the bytes. */
static void write_displacement(struct isa_case *test, uint64_t disp)
{
    struct soft_insn *insn = &test->insn;
    unsigned at = insn->opcode_offset + 1u, bytes = 4;

    if (insn->flags & SOFT_INSN_MODRM)
        at += (insn->modrm & 7) == 4 ? 2 : 1;
    else
        bytes = insn->address_bytes;
    hv_store_le(test->bytes + at, disp, bytes);
    insn->mem.disp = bytes == 4 ? (int64_t)(int32_t)disp : (int64_t)disp;
}

/* x with x * @factor = @value (mod 2^64), for an odd factor, by Newton's iteration. */
static uint64_t divide_odd(uint64_t value, uint64_t factor)
{
    uint64_t inverse = factor;

    for (unsigned i = 0; i < 6; i++)
        inverse *= 2 - factor * inverse;
    return value * inverse;
}

/* Registers or displacement so that the operand is at @target. False: no solution. */
static bool solve_address(const struct isa_layout *layout, struct isa_case *test, uint64_t target,
                          struct isa_random *random, struct isa_state *state)
{
    const struct soft_mem *mem = &test->insn.mem;
    uint64_t offset = target - segment_base(&test->insn);
    uint64_t rest = offset - (uint64_t)mem->disp;
    uint64_t noise = isa_random(random) << 32;
    uint64_t index = 0;

    if (mem->base == SOFT_REG_RIP) {
        write_displacement(test, offset - layout->code - test->insn.length);
        return true;
    }
    if (mem->base != SOFT_REG_NONE && mem->base == mem->index) {
        uint64_t factor = 1 + HV_BIT(mem->scale);

        if (factor == 2 && (rest & 1))
            return false;
        state->gpr[mem->base] = factor == 2 ? rest / 2 : divide_odd(rest, factor);
        return true;
    }
    if (mem->index != SOFT_REG_NONE) {
        if (mem->base == SOFT_REG_NONE)
            state->gpr[mem->index] = isa_random(random) & 0xff;
        index = state->gpr[mem->index] << mem->scale;
    }
    if (mem->base == SOFT_REG_NONE) {
        write_displacement(test, offset - index);
        return true;
    }
    state->gpr[mem->base] = rest - index;
    /* What address size 32 does not see is noise. */
    if (test->insn.address_bytes == 4)
        state->gpr[mem->base] = (state->gpr[mem->base] & UINT32_MAX) | noise;
    return true;
}

/* A gather's index is a vector of small numbers, so that base + disp is its address. */
static void solve_gather(struct isa_case *test, uint64_t target, struct isa_random *random,
                         struct isa_state *state)
{
    const struct soft_mem *mem = &test->insn.mem;
    bool wide_index = test->insn.opcode & 1;
    uint64_t offset = target - segment_base(&test->insn);

    for (unsigned i = 0; i < 8; i++)
        hv_store_le(state->ymm[mem->index] + (size_t)4 * i,
                    wide_index && (i & 1) ? 0 : isa_random(random) & 7, 4);
    if (mem->base == SOFT_REG_NONE)
        write_displacement(test, offset);
    else
        state->gpr[mem->base] = offset - (uint64_t)mem->disp;
}

static bool is_gather(const struct soft_insn *insn)
{
    return (insn->flags & SOFT_INSN_VEX) && insn->map == 2 && insn->opcode >= 0x90 &&
           insn->opcode <= 0x93;
}

/* String instructions, XLAT, MASKMOV: memory by registers nobody names. */
static void place_implied(const struct isa_layout *layout, const struct isa_case *test,
                          struct isa_random *random, struct isa_state *state)
{
    const struct soft_insn *insn = &test->insn;
    bool string = soft_isa_row(insn->row)->flags & SOFT_ISA_STRING;
    unsigned bytes = string ? insn->operand_bytes : 16;
    uint64_t target = choose_target(layout, test->kind, bytes, ISA_REACH, false, random);
    uint64_t other = choose_target(layout, ISA_KIND_MEMORY, bytes, ISA_REACH, false, random);
    uint64_t base = segment_base(insn);
    bool wide = insn->address_bytes == 8;

    if (insn->op == SOFT_OP_XLAT) {
        target = choose_alias(wide, base, target, random);
        state->gpr[HV_REG_RBX] = target - base - (state->gpr[HV_REG_RAX] & 0xff);
        return;
    }
    if (!string) { /* MASKMOV */
        state->gpr[HV_REG_RDI] = choose_alias(wide, base, target, random) - base;
        return;
    }
    if (isa_random(random) & 1) {
        uint64_t swapped = target;

        target = other;
        other = swapped;
    }
    /* A prefix replaces DS, which is rSI's. */
    state->gpr[HV_REG_RDI] = choose_alias(wide, 0, target, random);
    state->gpr[HV_REG_RSI] = choose_alias(wide, base, other, random) - base;
    state->gpr[HV_REG_RCX] = isa_random_below(random, 9);
}

/* A near branch goes to a breakpoint near the instruction, and never back into its own bytes. */
static bool place_branch(const struct isa_layout *layout, struct isa_case *test,
                         struct isa_random *random, struct isa_state *state)
{
    struct soft_insn *insn = &test->insn;
    const struct soft_operand *operand = &insn->operand[0];
    uint64_t to = layout->code + 64 + isa_random_below(random, 1024);

    if (operand->kind != SOFT_OPERAND_REL && (isa_random(random) & 1))
        to ^= ISA_ALIAS;
    test->poke_value = to;
    test->poke_bytes = 8;
    if (insn->op == SOFT_OP_RET) {
        test->poke_address = state->gpr[HV_REG_RSP];
        return true;
    }
    test->poke_address = test->target;
    if (operand->kind == SOFT_OPERAND_MEM)
        return true;
    test->poke_bytes = 0;
    if (operand->kind == SOFT_OPERAND_GPR) {
        state->gpr[operand->reg] = to;
        return operand->reg != HV_REG_RSP;
    }
    if (operand->bytes == 1)
        insn->imm = isa_random(random) & 1 ? isa_random_below(random, 128)
                                           : ~(uint64_t)31 - isa_random_below(random, 96);
    else
        insn->imm = to - layout->code - insn->length;
    hv_store_le(test->bytes + insn->length - operand->bytes, insn->imm, operand->bytes);
    return true;
}

static void place_stack(const struct isa_layout *layout, const struct isa_case *test,
                        enum isa_kind kind, struct isa_random *random, struct isa_state *state)
{
    unsigned bytes = test->insn.operand_bytes;
    uint64_t target = choose_target(layout, kind, bytes, 2 * ISA_REACH, false, random);
    uint16_t op = test->insn.op;

    bool push =
        op == SOFT_OP_PUSH || op == SOFT_OP_PUSHF || op == SOFT_OP_CALL || op == SOFT_OP_ENTER;

    /* Its address size is that of 64-bit mode whatever prefixes there are. */
    if (isa_random(random) & 1)
        target ^= ISA_ALIAS;
    state->gpr[HV_REG_RSP] = push ? target + bytes : target;
    if (op == SOFT_OP_LEAVE || op == SOFT_OP_ENTER)
        state->gpr[HV_REG_RBP] = target;
}

/* The operand that ModRM or an offset names. */
static bool place_memory(const struct isa_layout *layout, struct isa_case *test,
                         const struct soft_operand *operand, struct isa_random *random,
                         struct isa_state *state)
{
    const struct soft_insn *insn = &test->insn;
    bool aligned =
        (soft_isa_row(insn->row)->flags & SOFT_ISA_ALIGNED) && isa_random_below(random, 8) != 0;
    bool bits = is_bit_string(insn), gather = is_gather(insn);

    test->target =
        choose_target(layout, test->kind, operand->bytes, bits || gather ? ISA_REACH : 16,
                      aligned || is_atomic(insn), random);
    test->target = choose_named_alias(layout, insn, test->target, random);
    if (bits) {
        if (uses(insn, insn->operand[1].reg))
            return false;
        state->gpr[insn->operand[1].reg] =
            test->kind == ISA_KIND_MEMORY ? isa_random_below(random, 512) - UINT64_C(256) : 0;
    }
    if (gather) {
        solve_gather(test, test->target, random, state);
        return true;
    }
    if (is_stack(insn->op) && uses(insn, HV_REG_RSP))
        return false;
    return solve_address(layout, test, test->target, random, state) &&
           isa_effective_address(insn, state) == test->target;
}

/* What the row's encoding says of the kinds it can have. */
static bool has_kind(const struct soft_insn *insn, enum isa_kind kind)
{
    const struct soft_operand *operand = memory_operand(insn);
    bool implied = insn->flags & SOFT_INSN_STRING_IMPLIED;
    unsigned bytes = operand ? operand->bytes : insn->operand_bytes;

    if (kind == ISA_KIND_REGISTER)
        return !operand && !implied && !is_stack(insn->op);
    if (!operand && !implied && !is_stack(insn->op))
        return false;
    if (operand && is_atomic(insn))
        return kind == ISA_KIND_MEMORY;
    return kind != ISA_KIND_CROSSING || bytes > 1;
}

static bool place(const struct isa_layout *layout, struct isa_case *test, struct isa_random *random,
                  struct isa_state *state)
{
    const struct soft_insn *insn = &test->insn;
    const struct soft_operand *operand = memory_operand(insn);

    state->rip = layout->code;
    if (is_stack(insn->op))
        place_stack(layout, test, operand ? ISA_KIND_MEMORY : test->kind, random, state);
    if (insn->flags & SOFT_INSN_STRING_IMPLIED)
        place_implied(layout, test, random, state);
    if (operand && !place_memory(layout, test, operand, random, state))
        return false;
    /* PUSH and POP of memory that is the stack's own slot read what they write. */
    if (operand && is_stack(insn->op) &&
        isa_unalias(test->target) - isa_unalias(state->gpr[HV_REG_RSP]) + 32 < 64)
        return false;
    return !(soft_isa_row(insn->row)->flags & SOFT_ISA_BRANCH) ||
           place_branch(layout, test, random, state);
}

bool isa_case_make(const struct isa_encoder *encoder, const struct isa_layout *layout, uint16_t row,
                   unsigned operand_bytes, enum isa_kind kind, struct isa_random *random,
                   struct isa_state *state, struct isa_case *case_out)
{
    const struct soft_isa_row *isa = soft_isa_row(row);
    struct isa_shape shape = {.mode = SOFT_MODE_64, .operand_bytes = (uint8_t)operand_bytes};

    if (isa_excluded(row))
        return false;
    for (unsigned i = 0; i < 16; i++) {
        struct isa_state changed = *state;

        *case_out = (struct isa_case){.row = row, .kind = kind};
        /* PUSH, POP and CALL of a register are of memory, too. */
        shape.memory =
            kind != ISA_KIND_REGISTER && !(is_stack(isa->op) && (isa_random(random) & 1));
        shape.lock =
            kind == ISA_KIND_MEMORY && (isa->flags & SOFT_ISA_LOCKABLE) && (isa_random(random) & 1);
        shape.repeat = (isa->flags & SOFT_ISA_STRING) && (isa_random(random) & 1);
        if (!isa_encode(encoder, row, &shape, random, case_out->bytes, &case_out->insn)) {
            /* Strings, the stack, offsets: memory that no ModRM names. */
            shape.memory = shape.lock = false;
            if (kind == ISA_KIND_REGISTER ||
                !isa_encode(encoder, row, &shape, random, case_out->bytes, &case_out->insn))
                return false;
        }
        if (!has_kind(&case_out->insn, kind))
            return false;
        if (place(layout, case_out, random, &changed)) {
            *state = changed;
            return true;
        }
    }
    return false;
}
