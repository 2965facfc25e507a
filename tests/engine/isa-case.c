/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rows to cases: which rows, which states, and the solving of addresses. */
#include "engine/isa-case.h"

#include "base/bits.h"
#include "cpu/policy.h"
#include "cpu/state.h"
#include "engine/soft/decode-private.h"
#include "engine/soft/isa-ops.h"

#include <string.h>

/* Bit strings and repeated strings reach this far from their address. */
#define ISA_REACH 128u

const char *isa_excluded(uint16_t row)
{
    static const struct {
        uint16_t op;
        const char *why;
    } rows[] = {
        {SOFT_OP_SYSCALL, "leaves the process"},
        {SOFT_OP_SYSENTER, "leaves the process"},
        {SOFT_OP_INT, "leaves the process"},
        {SOFT_OP_INT1, "is the harness' trap"},
        {SOFT_OP_INT3, "is the harness' trap"},
        {SOFT_OP_IRET, "loads CS and SS"},
        {SOFT_OP_RETF, "loads CS"},
        {SOFT_OP_CALLF, "loads CS"},
        {SOFT_OP_JMPF, "loads CS"},
        {SOFT_OP_RSM, "is for system management mode"},
        {SOFT_OP_POPF, "loads TF and AC"},
        {SOFT_OP_MOV_SEG, "loads segments, or reads the host's"},
        {SOFT_OP_LSS, "loads segments"},
        {SOFT_OP_LFS, "loads segments"},
        {SOFT_OP_LGS, "loads segments"},
        {SOFT_OP_RDFSBASE, "reads the host's FS base"},
        {SOFT_OP_RDGSBASE, "reads the host's GS base"},
        {SOFT_OP_WRFSBASE, "takes FS from the harness"},
        {SOFT_OP_WRGSBASE, "changes a segment base"},
        {SOFT_OP_CPUID, "differs by policy"},
        {SOFT_OP_RDTSC, "never gives the same twice"},
        {SOFT_OP_RDTSCP, "never gives the same twice"},
        {SOFT_OP_RDPMC, "never gives the same twice"},
        {SOFT_OP_RDPID, "reads the host's"},
        {SOFT_OP_RDRAND, "never gives the same twice"},
        {SOFT_OP_RDSEED, "never gives the same twice"},
        {SOFT_OP_XGETBV, "reads the host's XCR0"},
        {SOFT_OP_SGDT, "reads the host's"},
        {SOFT_OP_SIDT, "reads the host's"},
        {SOFT_OP_SLDT, "reads the host's"},
        {SOFT_OP_STR, "reads the host's"},
        {SOFT_OP_SMSW, "reads the host's"},
        {SOFT_OP_LAR, "reads the host's descriptors"},
        {SOFT_OP_LSL, "reads the host's descriptors"},
        {SOFT_OP_VERR, "reads the host's descriptors"},
        {SOFT_OP_VERW, "reads the host's descriptors"},
        {SOFT_OP_VMCALL, "calls the hypervisor beneath"},
        {SOFT_OP_VMMCALL, "calls the hypervisor beneath"},
        {SOFT_OP_FXSAVE, "is about state as a whole"},
        {SOFT_OP_FXRSTOR, "is about state as a whole"},
        {SOFT_OP_XSAVE, "is about state as a whole"},
        {SOFT_OP_XSAVEC, "is about state as a whole"},
        {SOFT_OP_XSAVEOPT, "is about state as a whole"},
        {SOFT_OP_XRSTOR, "is about state as a whole"},
        {SOFT_OP_FLDENV, "may unmask exceptions"},
        {SOFT_OP_FRSTOR, "may unmask exceptions"},
        {SOFT_OP_FLDCW, "may unmask exceptions"},
        {SOFT_OP_FNSTENV, "stores the last instruction's address"},
        {SOFT_OP_FNSAVE, "stores the last instruction's address"},
        {SOFT_OP_LDMXCSR, "may unmask exceptions"},
        {SOFT_OP_VLDMXCSR, "may unmask exceptions"},
        {SOFT_OP_CLI, "is the I/O privilege level's"},
        {SOFT_OP_STI, "is the I/O privilege level's"},
    };
    const struct soft_encoding *encoding = &soft_encodings[row];
    const struct soft_isa_row *isa = soft_isa_row(row);

    if (isa->flags & SOFT_ISA_PRIVILEGED)
        return "is for CPL 0";
    if (isa->flags & SOFT_ISA_IO)
        return "reaches ports";
    if (isa->feature == HV_FEATURE_NEVER || isa->feature == HV_FEATURE_VMX ||
        isa->feature == HV_FEATURE_SMX || isa->feature == HV_FEATURE_3DNOW)
        return "is hidden";
    if ((encoding->mask & SOFT_KEY_MODE64) && !(encoding->value & SOFT_KEY_MODE64))
        return "is not in 64-bit mode";
    if (isa->op == SOFT_OP_POP && (isa->flags & SOFT_ISA_SYSTEM))
        return "loads segments";
    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        if (isa->op == rows[i].op)
            return rows[i].why;
    }
    return NULL;
}

bool isa_case_hot(uint16_t row)
{
    const unsigned others = SOFT_ISA_PRIVILEGED | SOFT_ISA_STRING | SOFT_ISA_SYSTEM | SOFT_ISA_IO |
                            SOFT_ISA_X87 | SOFT_ISA_MMX | SOFT_ISA_SSE | SOFT_ISA_AVX;
    const struct soft_isa_row *isa = soft_isa_row(row);

    switch (isa->op) {
    case SOFT_OP_DIV:
    case SOFT_OP_IDIV:
    case SOFT_OP_UD0:
    case SOFT_OP_UD1:
    case SOFT_OP_UD2:
        return false;
    default:
        return isa->feature == HV_FEATURE_BASE && !(isa->flags & others) && !isa_excluded(row);
    }
}

unsigned isa_fault_freedom(const struct soft_insn *insn)
{
    unsigned mmx = soft_isa_row(insn->row)->flags & SOFT_ISA_MMX ? ISA_FREEDOM_X87 : 0;

    switch (insn->op) {
    case SOFT_OP_MASKMOVQ:
    case SOFT_OP_MASKMOVDQU:
    case SOFT_OP_VMASKMOVDQU:
        return ISA_FREEDOM_ADDRESS | ISA_FREEDOM_FAULT | mmx;
    case SOFT_OP_VMASKMOVPS:
    case SOFT_OP_VMASKMOVPD:
    case SOFT_OP_VPMASKMOVD:
    case SOFT_OP_VPMASKMOVQ:
        return ISA_FREEDOM_ADDRESS | mmx;
    case SOFT_OP_VCVTPS2PH:
        return ISA_FREEDOM_MXCSR;
    case SOFT_OP_FSTP: /* of 80 bits: two stores */
    case SOFT_OP_FBSTP:
        return ISA_FREEDOM_MEMORY;
    default:
        return mmx;
    }
}

static uint64_t edge_value(struct isa_random *random)
{
    uint64_t noise = isa_random(random);

    switch (isa_random_below(random, 6)) {
    case 0:
        return noise & 0xff;
    case 1:
        return HV_BIT(noise & 63);
    case 2:
        return HV_BIT(noise & 63) - 1;
    case 3:
        return noise & 1 ? UINT64_MAX : 0;
    case 4:
        return (uint64_t)(int64_t)(int32_t)noise;
    default:
        return noise;
    }
}

/* Integers, floats near one and of all sizes, special values. */
static uint64_t vector_value(struct isa_random *random)
{
    static const uint64_t special[] = {0,
                                       0x8000000000000000,
                                       0x7ff0000000000000,
                                       0xfff8000000000000,
                                       0x3ff0000000000000,
                                       0x7f8000003f800000,
                                       0x0000000180000000,
                                       0x4023800043e00000};
    uint64_t noise = isa_random(random);

    switch (isa_random_below(random, 4)) {
    case 0:
        return special[noise % HV_ARRAY_LEN(special)];
    case 1: /* a double between 2^-15 and 2^16, or two floats of such sizes */
        return (noise & 0x801fffffffffffff) |
               (0x3f00000000000000 + (noise >> 8 & 0xf0000000000000));
    case 2:
        return (noise & 0x807fffff807fffff) | 0x3f0000003f000000;
    default:
        return noise;
    }
}

void isa_memory_fill(struct isa_random *random, uint8_t *sandbox)
{
    /* Made once, from a seed of its own; a sandbox is a piece of it. */
    static uint64_t pool[8 * ISA_SANDBOX_BYTES / 8];
    const unsigned pieces = HV_ARRAY_LEN(pool) - ISA_SANDBOX_BYTES / 8;
    struct isa_random own = {1};

    if (pool[0] == 0) {
        for (size_t i = 0; i < HV_ARRAY_LEN(pool); i++)
            pool[i] = isa_random(&own) & 1 ? vector_value(&own) : edge_value(&own);
        pool[0] |= 1;
    }
    memcpy(sandbox, &pool[isa_random_below(random, pieces)], ISA_SANDBOX_BYTES);
}

void isa_state_randomize(struct isa_random *random, struct isa_state *state)
{
    for (unsigned i = 0; i < 16; i++) {
        state->gpr[i] = edge_value(random);
        for (unsigned k = 0; k < 4; k++)
            hv_store_le(state->ymm[i] + (size_t)8 * k, vector_value(random), 8);
    }
    state->rflags = isa_random(random) & (HV_RFLAGS_ARITH | HV_RFLAGS_DF);
    /* All exceptions masked, any rounding; the sticky flags and those of the last compare free. */
    state->mxcsr = (uint32_t)(0x1f80 | (isa_random(random) & 0x603f));
    state->fcw =
        (uint16_t)(0x7f | (isa_random(random) & 0xc00) | (isa_random(random) & 1 ? 0x300 : 0x200));
    state->fsw = (uint16_t)(isa_random(random) & 0x7f00 & ~0x8080u);
    state->ftw = (uint8_t)isa_random(random);
    for (unsigned i = 0; i < 8; i++) {
        uint64_t exponent = 0x3ff0 + isa_random_below(random, 32);

        memset(state->st[i], 0, sizeof(state->st[i]));
        hv_store_le(state->st[i], isa_random(random) | HV_BIT(63), 8);
        hv_store_le(state->st[i] + 8, exponent | (isa_random(random) & 0x8000), 2);
    }
}

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
    return address & hv_bytes_mask(insn->address_bytes);
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
    uint64_t rest = target - (uint64_t)mem->disp;
    uint64_t noise = isa_random(random) << 32;
    uint64_t index = 0;

    if (mem->base == SOFT_REG_RIP) {
        write_displacement(test, target - layout->code - test->insn.length);
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
        write_displacement(test, target - index);
        return true;
    }
    state->gpr[mem->base] = rest - index;
    /* What address size 32 does not see is noise. */
    if (test->insn.address_bytes == 4)
        state->gpr[mem->base] = (state->gpr[mem->base] & UINT32_MAX) | noise;
    return true;
}

/* A gather's index is a vector of small numbers, so that base + disp is its address. */
static bool solve_gather(struct isa_case *test, uint64_t target, struct isa_random *random,
                         struct isa_state *state)
{
    const struct soft_mem *mem = &test->insn.mem;
    bool wide_index = test->insn.opcode & 1;

    for (unsigned i = 0; i < 8; i++)
        hv_store_le(state->ymm[mem->index] + (size_t)4 * i,
                    wide_index && (i & 1) ? 0 : isa_random(random) & 7, 4);
    if (mem->base == SOFT_REG_NONE)
        write_displacement(test, target);
    else
        state->gpr[mem->base] = target - (uint64_t)mem->disp;
    return true;
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

    state->gpr[HV_REG_RDI] = target;
    state->gpr[HV_REG_RSI] =
        choose_target(layout, ISA_KIND_MEMORY, bytes, ISA_REACH, false, random);
    if (isa_random(random) & 1) {
        state->gpr[HV_REG_RDI] = state->gpr[HV_REG_RSI];
        state->gpr[HV_REG_RSI] = target;
    }
    if (string)
        state->gpr[HV_REG_RCX] = isa_random_below(random, 9);
    if (insn->op == SOFT_OP_XLAT)
        state->gpr[HV_REG_RBX] = target - (state->gpr[HV_REG_RAX] & 0xff);
}

/* A near branch goes to a breakpoint near the instruction, and never back into its own bytes. */
static bool place_branch(const struct isa_layout *layout, struct isa_case *test,
                         struct isa_random *random, struct isa_state *state)
{
    struct soft_insn *insn = &test->insn;
    const struct soft_operand *operand = &insn->operand[0];
    uint64_t to = layout->code + 64 + isa_random_below(random, 1024);

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
    if (bits) {
        if (uses(insn, insn->operand[1].reg))
            return false;
        state->gpr[insn->operand[1].reg] =
            test->kind == ISA_KIND_MEMORY ? isa_random_below(random, 512) - UINT64_C(256) : 0;
    }
    if (gather)
        return solve_gather(test, test->target, random, state);
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
    if (operand && is_stack(insn->op) && test->target - state->gpr[HV_REG_RSP] + 32 < 64)
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
        shape.memory = kind != ISA_KIND_REGISTER;
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
