/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Making trials case by case, and comparing how they end. */
#include "engine/isa-trial.h"

#include "base/bits.h"
#include "cpu/state.h"
#include "engine/soft/isa-ops.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* MOV r64, imm64. */
#define LOAD_BYTES 10u
#define LOADS_MAX  6u
/* A case is tried so often before its shape is left. */
#define TRIES      8u
/* Free bytes that the target of a branch wants: loads and an instruction. */
#define ROOM       (LOADS_MAX * LOAD_BYTES + SOFT_INSN_MAX + 1)

/* A trial in the making. */
struct making {
    const struct isa_maker *maker;
    struct isa_trial *trial;
    struct isa_random random;
    struct isa_state state;
    uint64_t code, sandbox; /* addresses */
    bool used[ISA_CODE_BYTES];
};

/* ---- Code ------------------------------------------------------------------------------------- */

static bool is_free(const struct making *making, uint64_t address, unsigned bytes)
{
    uint64_t offset = isa_unalias(address) - making->code;

    if (offset > ISA_CODE_BYTES || bytes > ISA_CODE_BYTES - offset) {
        return false;
    }
    return memchr(&making->used[offset], true, bytes) == NULL;
}

static void put_code(struct making *making, uint64_t address, const uint8_t *bytes, unsigned count)
{
    uint64_t offset = isa_unalias(address) - making->code;

    memcpy(&making->trial->code[offset], bytes, count);
    memset(&making->used[offset], true, count);
}

/* The registers in which @to differs from what there is; returns how many. */
static unsigned find_loads(const struct making *making, const struct isa_state *to,
                           unsigned registers[16])
{
    unsigned count = 0;

    for (unsigned i = 0; i < 16; i++) {
        if (making->state.gpr[i] != to->gpr[i]) {
            registers[count++] = i;
        }
    }
    return count;
}

static void put_loads(struct making *making, const struct isa_state *to)
{
    unsigned registers[16];
    unsigned count = find_loads(making, to, registers);

    for (unsigned i = 0; i < count; i++) {
        unsigned reg = registers[i];
        uint8_t bytes[LOAD_BYTES] = {(uint8_t)(0x48 | reg >> 3), (uint8_t)(0xb8 | (reg & 7))};

        hv_store_le(&bytes[2], to->gpr[reg], 8);
        put_code(making, making->state.rip + (uint64_t)LOAD_BYTES * i, bytes, LOAD_BYTES);
    }
}

/* ---- Cases ------------------------------------------------------------------------------------ */

/* Where a near branch may go beside the next instruction. */
static bool branch_target(const struct isa_case *test, const struct isa_state *state,
                          uint64_t *target_out)
{
    const struct soft_operand *operand = &test->insn.operand[0];

    if (!(soft_isa_row(test->row)->flags & SOFT_ISA_BRANCH)) {
        return false;
    }
    *target_out = test->poke_value;
    if (operand->kind == SOFT_OPERAND_REL) {
        *target_out = state->rip + test->insn.length + test->insn.imm;
    } else if (operand->kind == SOFT_OPERAND_GPR) {
        *target_out = state->gpr[operand->reg];
    }
    return true;
}

/* May the case stand here? What only a trial's beginning can set up goes nowhere else. */
static bool may_follow(const struct making *making, const struct isa_case *test,
                       const struct isa_state *state)
{
    const struct soft_isa_row *isa = soft_isa_row(test->row);
    uint64_t target;

    if (making->trial->steps > 0 &&
        (test->poke_bytes || memcmp(making->state.ymm, state->ymm, sizeof(state->ymm)) != 0 ||
         (isa->flags_read & making->trial->flags_undefined))) {
        return false;
    }
    if (!is_free(making, making->state.rip,
                 (unsigned)(state->rip - making->state.rip) + test->insn.length + 1)) {
        return false;
    }
    return !branch_target(test, state, &target) || is_free(making, target, ROOM);
}

/*
 * A case for the present state, behind the loads it needs: how many decides where it stands, which
 * its displacements depend on, so it is made until both agree.
 */
static bool make_case(struct making *making, const struct isa_shape_of_row *shape,
                      struct isa_case *test, struct isa_state *state)
{
    const struct isa_maker *maker = making->maker;
    const struct isa_random random = making->random;
    unsigned registers[16], loads = 0;

    for (unsigned i = 0; i < 3; i++) {
        struct isa_layout layout = {making->state.rip + (uint64_t)LOAD_BYTES * loads,
                                    making->sandbox};
        unsigned wanted;

        making->random = random;
        *state = making->state;
        if (!isa_case_make(maker->encoder, &layout, shape->row, shape->operand_bytes,
                           (enum isa_kind)shape->kind, &making->random, state, test)) {
            return false;
        }
        wanted = making->trial->steps ? find_loads(making, state, registers) : 0;
        if (wanted == loads) {
            return loads <= LOADS_MAX && may_follow(making, test, state);
        }
        loads = wanted;
    }
    return false;
}

static void poke(const struct making *making, const struct isa_case *test)
{
    uint64_t offset = isa_unalias(test->poke_address) - making->sandbox;

    if (!test->poke_bytes || hv_range_outside(offset, 8, ISA_SANDBOX_BYTES)) {
        return;
    }
    hv_store_le(&making->trial->memory_before[offset], test->poke_value, 8);
    hv_store_le(isa_host_sandbox(making->maker->host) + offset, test->poke_value, 8);
}

/* What the table calls undefined, and what was so before and is passed on. */
static uint64_t undefined_after(const struct soft_isa_row *isa, uint64_t before)
{
    uint64_t replaced = isa->flags_written & ~(uint64_t)isa->flags_read;

    return (before & ~replaced) | isa->flags_undefined;
}

static bool is_hidden(const struct making *making, uint16_t row)
{
    const struct soft_isa_row *isa = soft_isa_row(row);
    uint64_t features = HV_BIT(isa->feature);

    /* Theirs in 64-bit mode only, so it is not in the table. */
    if (isa->op == SOFT_OP_LAHF || isa->op == SOFT_OP_SAHF) {
        features = HV_BIT(HV_FEATURE_LAHF64);
    }
    return !(making->maker->policy->features & features);
}

static void run_case(struct making *making, const struct isa_case *test)
{
    struct isa_trial *trial = making->trial;

    if (is_hidden(making, test->row)) {
        trial->outcome = (struct isa_outcome){.vector = HV_VECTOR_UD};
        return;
    }
    trial->outcome =
        isa_host_run(making->maker->host, test->bytes, test->insn.length, &making->state);
    if (trial->outcome.vector == ISA_VECTOR_NONE) {
        trial->flags_undefined = undefined_after(soft_isa_row(test->row), trial->flags_undefined);
    }
}

static bool add_case(struct making *making, const struct isa_shape_of_row *shape)
{
    struct isa_trial *trial = making->trial;
    struct isa_state state;
    struct isa_case test;
    bool made = false;

    for (unsigned i = 0; i < TRIES && !made; i++) {
        made = make_case(making, shape, &test, &state);
    }
    if (!made) {
        return false;
    }
    if (trial->steps == 0) {
        trial->before = state;
        poke(making, &test);
    } else {
        put_loads(making, &state);
    }
    put_code(making, state.rip, test.bytes, test.insn.length);
    trial->step[trial->steps++] =
        (struct isa_step){shape, (unsigned)(isa_unalias(state.rip) - making->code), test.insn};
    making->state = state;
    run_case(making, &test);
    return true;
}

/* ---- Trials ----------------------------------------------------------------------------------- */

static void fill_memory(struct making *making)
{
    isa_memory_fill(&making->random, making->trial->memory_before);
    memcpy(isa_host_sandbox(making->maker->host), making->trial->memory_before, ISA_SANDBOX_BYTES);
}

/* What the translator may join with a conditional branch behind it. */
static bool takes_a_branch(const struct isa_trial *trial)
{
    switch (trial->steps ? trial->step[trial->steps - 1].insn.op : SOFT_OP_COUNT) {
    case SOFT_OP_CMP:
    case SOFT_OP_TEST:
    case SOFT_OP_SUB:
    case SOFT_OP_ADD:
    case SOFT_OP_AND:
    case SOFT_OP_DEC:
        return true;
    default:
        return false;
    }
}

/* A move of registers, which the translator may join with what is behind it. */
static bool is_move(const struct isa_trial *trial)
{
    const struct isa_step *last = trial->steps > 0 ? &trial->step[trial->steps - 1] : NULL;

    return last && last->insn.op == SOFT_OP_MOV && last->shape->kind == ISA_KIND_REGISTER;
}

/* A shape that makes company for the last case, or NULL. */
static const struct isa_shape_of_row *choose_company(struct making *making)
{
    const struct isa_coverage *coverage = making->maker->coverage;
    unsigned chance = isa_random_below(&making->random, 8);

    if (is_move(making->trial) && chance < 6) {
        return isa_coverage_quiet(coverage, &making->random);
    }
    if (takes_a_branch(making->trial) && chance < 4) {
        return isa_coverage_branch(coverage, &making->random);
    }
    switch (chance) {
    case 4:
        return isa_coverage_move(coverage, &making->random);
    case 5:
        return isa_coverage_quiet(coverage, &making->random);
    case 6:
    case 7:
        return isa_coverage_hot(coverage, &making->random);
    default:
        return NULL;
    }
}

static void begin(struct making *making, const struct isa_maker *maker, uint64_t seed,
                  struct isa_trial *trial)
{
    *making = (struct making){
        .maker = maker,
        .trial = trial,
        .random = {seed | 1},
        .code = isa_host_code(maker->host),
        .sandbox = (uintptr_t)isa_host_sandbox(maker->host),
    };
    trial->outcome = (struct isa_outcome){.vector = ISA_VECTOR_NONE};
    trial->flags_undefined = 0;
    trial->sandbox = making->sandbox;
    trial->steps = 0;
    memset(trial->code, ISA_TRAP, sizeof(trial->code));
    isa_host_clear(maker->host);
    fill_memory(making);
    isa_state_randomize(&making->random, &making->state);
    making->state.rip = (isa_random(&making->random) & ISA_ALIAS) + making->code + 256 +
                        isa_random_below(&making->random, ISA_CODE_BYTES - 2048);
}

void isa_trial_make(const struct isa_maker *maker, uint64_t seed, size_t *turn, unsigned most,
                    struct isa_trial *trial)
{
    struct making making;
    unsigned wanted;

    begin(&making, maker, seed, trial);
    wanted = 1 + isa_random_below(&making.random, ISA_TRIAL_CASES);
    wanted = wanted < most ? wanted : most;
    while (trial->steps < wanted && trial->outcome.vector == ISA_VECTOR_NONE) {
        const struct isa_shape_of_row *company = choose_company(&making);

        if (company && add_case(&making, company)) {
            continue;
        }
        if (add_case(&making, isa_coverage_at(maker->coverage, *turn))) {
            ++*turn;
        } else if (trial->steps > 0) {
            break; /* the next trial begins with it */
        } else {
            ++*turn;
            break;
        }
    }
    trial->after = making.state;
    memcpy(trial->memory_after, isa_host_sandbox(maker->host), ISA_SANDBOX_BYTES);
}

/* ---- Comparison ------------------------------------------------------------------------------- */

struct report {
    char *text;
    size_t bytes;
    bool same;
};

static void differs(struct report *report, uint64_t got, uint64_t want, const char *format, ...)
    HV_PRINTF(4, 5);

/* The first difference is told. */
static void differs(struct report *report, uint64_t got, uint64_t want, const char *format, ...)
{
    char name[32];
    va_list arguments;

    if (got == want || !report->same) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(name, sizeof(name), format, arguments);
    va_end(arguments);
    report->same = false;
    snprintf(report->text, report->bytes, "%s: got %#llx, want %#llx", name,
             (unsigned long long)got, (unsigned long long)want);
}

static void compare_bytes(struct report *report, const char *name, const uint8_t *got,
                          const uint8_t *want, size_t bytes)
{
    if (memcmp(got, want, bytes) == 0) {
        return;
    }
    for (size_t i = 0; i < bytes; i += 8) {
        size_t count = bytes - i < 8 ? bytes - i : 8;

        differs(report, hv_load_le(got + i, (unsigned)count), hv_load_le(want + i, (unsigned)count),
                "%s+%zu", name, i);
    }
}

static void compare_states(struct report *report, const struct isa_state *got,
                           const struct isa_state *want, uint64_t flags_undefined)
{
    differs(report, got->rip, want->rip, "rip");
    for (unsigned i = 0; i < 16; i++) {
        differs(report, got->gpr[i], want->gpr[i], "r%u", i);
    }
    differs(report, got->rflags & ~flags_undefined, want->rflags & ~flags_undefined, "flags");
    differs(report, got->mxcsr, want->mxcsr, "mxcsr");
    differs(report, got->fcw, want->fcw, "fcw");
    differs(report, got->fsw, want->fsw, "fsw");
    differs(report, got->ftw, want->ftw, "ftw");
    compare_bytes(report, "st", &got->st[0][0], &want->st[0][0], sizeof(got->st));
    compare_bytes(report, "ymm", &got->ymm[0][0], &want->ymm[0][0], sizeof(got->ymm));
}

/* Forget what the faulting instruction may have left in either way. */
static void free_both(const struct isa_trial *trial, struct isa_state *got, struct isa_state *want,
                      uint8_t *memory)
{
    unsigned freedom = isa_fault_freedom(&trial->step[trial->steps - 1].insn);

    if (trial->outcome.vector == ISA_VECTOR_NONE) {
        return;
    }
    if (freedom & ISA_FREEDOM_X87) {
        got->fsw = want->fsw;
        got->ftw = want->ftw;
        memcpy(got->st, want->st, sizeof(got->st));
    }
    if (freedom & ISA_FREEDOM_MXCSR) {
        got->mxcsr = want->mxcsr;
    }
    if (freedom & ISA_FREEDOM_MEMORY) {
        memcpy(memory, trial->memory_after, ISA_SANDBOX_BYTES);
    }
}

/* Did a MASKMOV fault for bytes that its mask leaves out? (SDM 2B, MASKMOVDQU: it may.) */
static bool faulted_beside_mask(const struct isa_trial *trial)
{
    const struct soft_insn *insn = &trial->step[trial->steps - 1].insn;
    const struct isa_state *state = &trial->after;
    unsigned reg = insn->operand[1].reg, bytes = insn->operand[1].bytes;
    const uint8_t *mask = bytes == 8 ? state->st[(reg - (state->fsw >> 11)) & 7] : state->ymm[reg];
    uint64_t address = state->gpr[HV_REG_RDI] & hv_bytes_mask(insn->address_bytes);

    address += insn->mem.segment == HV_SEG_GS ? ISA_GS_BASE : 0;

    if (trial->outcome.vector != HV_VECTOR_PF || !(isa_fault_freedom(insn) & ISA_FREEDOM_FAULT)) {
        return false;
    }
    for (unsigned i = 0; i < bytes; i++) {
        if ((mask[i] & 0x80) && isa_unalias(address + i) - trial->sandbox >= ISA_SANDBOX_BYTES) {
            return false;
        }
    }
    return true;
}

bool isa_trial_check(const struct isa_trial *trial, struct isa_guest *guest, char *text,
                     size_t text_bytes)
{
    static uint8_t memory[ISA_SANDBOX_BYTES];
    struct report report = {text, text_bytes, true};
    struct isa_state state = trial->before, want = trial->after;
    struct isa_outcome outcome;
    uint64_t address_mask = UINT64_MAX;

    if (faulted_beside_mask(trial)) {
        return true;
    }
    memcpy(memory, trial->memory_before, sizeof(memory));
    outcome = isa_guest_run(guest, trial->code, memory, &state);
    differs(&report, outcome.vector, trial->outcome.vector, "vector");
    differs(&report, outcome.error, trial->outcome.error, "error code");
    free_both(trial, &state, &want, memory);
    if (isa_fault_freedom(&trial->step[trial->steps - 1].insn) & ISA_FREEDOM_ADDRESS) {
        address_mask = HV_PAGE_MASK;
    }
    differs(&report, outcome.address & address_mask, trial->outcome.address & address_mask,
            "address");
    compare_states(&report, &state, &want, trial->flags_undefined);
    compare_bytes(&report, "memory", memory, trial->memory_after, sizeof(memory));
    return report.same;
}

void isa_trial_print(const struct isa_trial *trial, char *text, size_t text_bytes)
{
    size_t at = 0;

    for (unsigned i = 0; i < trial->steps && at < text_bytes; i++) {
        const struct isa_step *step = &trial->step[i];

        at += (size_t)snprintf(text + at, text_bytes - at, "%s%s", i ? "; " : "",
                               soft_isa_row(step->shape->row)->mnemonic);
        for (unsigned k = 0; k < step->insn.length && at < text_bytes; k++) {
            at += (size_t)snprintf(text + at, text_bytes - at, " %02x",
                                   trial->code[step->offset + k]);
        }
    }
}
