/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * cpu/isa.def against the silicon beneath: what the table says an instruction reads and writes is
 * what it reads and writes.
 *
 * Every case runs twice from states that differ only in what the row does not read: flags it does
 * not list, and destinations it only writes. Checked are the length, the flags that may change, the
 * registers and the memory that may change, and that both runs agree in all that is defined.
 */
#include "engine/isa-case.h"
#include "lib/tap.h"

#include "base/bits.h"
#include "cpu/policy.h"
#include "cpu/state.h"
#include "engine/soft/isa-ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Cases of a row, an operand size and a kind; with LODGE_TEST_LONG so many times more. */
#define HITS        2u
#define LONG_FACTOR 50u
#define REPORTS     12u

/* One of the two runs. */
struct run {
    struct isa_state before, after;
    struct isa_outcome outcome;
    uint8_t memory[ISA_SANDBOX_BYTES];
};

struct fixture {
    struct isa_host *host;
    struct isa_encoder *encoder;
    struct isa_random random;
    struct isa_layout layout;
    uint64_t runs, faults, unsupported;
    unsigned failures;
    uint8_t memory[ISA_SANDBOX_BYTES]; /* the sandbox before both runs */
    struct run runs_of_case[2];
};

/* General registers an instruction writes without naming them. */
static uint32_t implied_writes(const struct soft_insn *insn)
{
    static const struct {
        uint16_t op;
        uint32_t registers;
    } ops[] = {
        {SOFT_OP_MUL, 1u << HV_REG_RAX | 1u << HV_REG_RDX},
        {SOFT_OP_DIV, 1u << HV_REG_RAX | 1u << HV_REG_RDX},
        {SOFT_OP_IDIV, 1u << HV_REG_RAX | 1u << HV_REG_RDX},
        {SOFT_OP_CBW, 1u << HV_REG_RAX},
        {SOFT_OP_CWD, 1u << HV_REG_RDX},
        {SOFT_OP_LAHF, 1u << HV_REG_RAX},
        {SOFT_OP_XLAT, 1u << HV_REG_RAX},
        {SOFT_OP_CMPXCHG, 1u << HV_REG_RAX},
        {SOFT_OP_CMPXCHG8B, 1u << HV_REG_RAX | 1u << HV_REG_RDX},
        {SOFT_OP_CMPXCHG16B, 1u << HV_REG_RAX | 1u << HV_REG_RDX},
        {SOFT_OP_LOOP, 1u << HV_REG_RCX},
        {SOFT_OP_LOOPE, 1u << HV_REG_RCX},
        {SOFT_OP_LOOPNE, 1u << HV_REG_RCX},
        {SOFT_OP_PUSH, 1u << HV_REG_RSP},
        {SOFT_OP_POP, 1u << HV_REG_RSP},
        {SOFT_OP_PUSHF, 1u << HV_REG_RSP},
        {SOFT_OP_CALL, 1u << HV_REG_RSP},
        {SOFT_OP_RET, 1u << HV_REG_RSP},
        {SOFT_OP_ENTER, 1u << HV_REG_RSP | 1u << HV_REG_RBP},
        {SOFT_OP_LEAVE, 1u << HV_REG_RSP | 1u << HV_REG_RBP},
        {SOFT_OP_PCMPESTRI, 1u << HV_REG_RCX},
        {SOFT_OP_PCMPISTRI, 1u << HV_REG_RCX},
        {SOFT_OP_VPCMPESTRI, 1u << HV_REG_RCX},
        {SOFT_OP_VPCMPISTRI, 1u << HV_REG_RCX},
        {SOFT_OP_LODS, 1u << HV_REG_RAX | 1u << HV_REG_RSI | 1u << HV_REG_RCX},
        {SOFT_OP_MOVS, 1u << HV_REG_RDI | 1u << HV_REG_RSI | 1u << HV_REG_RCX},
        {SOFT_OP_CMPS, 1u << HV_REG_RDI | 1u << HV_REG_RSI | 1u << HV_REG_RCX},
        {SOFT_OP_STOS, 1u << HV_REG_RDI | 1u << HV_REG_RCX},
        {SOFT_OP_SCAS, 1u << HV_REG_RDI | 1u << HV_REG_RCX},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(ops); i++) {
        if (insn->op == ops[i].op)
            return ops[i].registers;
    }
    if (insn->op == SOFT_OP_IMUL && insn->operands == 1)
        return 1u << HV_REG_RAX | 1u << HV_REG_RDX;
    return 0;
}

/* General registers that @insn may read or use in an address, as far as its operands say. */
static uint32_t named_reads(const struct soft_insn *insn)
{
    uint32_t registers = 0;

    for (unsigned i = 0; i < insn->operands; i++) {
        const struct soft_operand *operand = &insn->operand[i];

        if ((operand->kind == SOFT_OPERAND_GPR || operand->kind == SOFT_OPERAND_GPR_HIGH) &&
            operand->access != SOFT_ACCESS_WRITE)
            registers |= 1u << operand->reg;
    }
    if (insn->mem.base < 16)
        registers |= 1u << insn->mem.base;
    if (insn->mem.index < 16)
        registers |= 1u << insn->mem.index;
    return insn->op == SOFT_OP_MULX ? registers | 1u << HV_REG_RDX : registers;
}

static bool is_vector(const struct soft_operand *operand)
{
    return operand->kind == SOFT_OPERAND_XMM || operand->kind == SOFT_OPERAND_YMM;
}

static uint32_t vector_reads(const struct soft_insn *insn)
{
    uint32_t registers = 0;

    for (unsigned i = 0; i < insn->operands; i++) {
        if (is_vector(&insn->operand[i]) && insn->operand[i].access != SOFT_ACCESS_WRITE)
            registers |= 1u << insn->operand[i].reg;
    }
    /* A gather's index. */
    return insn->mem.index < 16 ? registers | 1u << insn->mem.index : registers;
}

/* Bytes of an only written vector register that its old value has no part in. */
static unsigned vector_written(const struct soft_insn *insn)
{
    return insn->flags & SOFT_INSN_VEX ? 32 : 16;
}

/* Change all that the row does not read. */
static void perturb(const struct isa_case *test, struct isa_state *state, uint8_t *sandbox,
                    uint64_t layout_sandbox)
{
    const struct soft_insn *insn = &test->insn;
    const struct soft_isa_row *isa = soft_isa_row(insn->row);
    uint32_t reads = named_reads(insn), vectors = vector_reads(insn);

    state->rflags ^= HV_RFLAGS_ARITH & ~(uint64_t)isa->flags_read;
    for (unsigned i = 0; i < insn->operands; i++) {
        const struct soft_operand *operand = &insn->operand[i];

        if (operand->access != SOFT_ACCESS_WRITE)
            continue;
        if ((operand->kind == SOFT_OPERAND_GPR || operand->kind == SOFT_OPERAND_GPR_HIGH) &&
            !(reads >> operand->reg & 1) && !implied_writes(insn)) {
            uint64_t mask = operand->bytes >= 4 ? UINT64_MAX : hv_bytes_mask(operand->bytes);

            state->gpr[operand->reg] ^= operand->kind == SOFT_OPERAND_GPR ? mask : 0xff00;
        }
        if (is_vector(operand) && !(vectors >> operand->reg & 1)) {
            for (unsigned k = 0; k < vector_written(insn); k++)
                state->ymm[operand->reg][k] ^= 0xff;
        }
        if (operand->kind == SOFT_OPERAND_MEM) {
            for (uint64_t at = isa_unalias(test->target) - layout_sandbox, k = 0;
                 k < operand->bytes; k++) {
                if (at + k < ISA_SANDBOX_BYTES)
                    sandbox[at + k] ^= 0xff;
            }
        }
    }
}

/* Returns NULL or what is wrong with one run by itself. */
static const char *check_run(const struct fixture *fixture, const struct isa_case *test,
                             const struct run *run)
{
    const struct soft_insn *insn = &test->insn;
    const struct soft_isa_row *isa = soft_isa_row(insn->row);
    bool fault = run->outcome.vector != ISA_VECTOR_NONE;
    uint32_t may_write = implied_writes(insn), may_write_vector = 0;
    uint64_t changed = (run->before.rflags ^ run->after.rflags) & ~(uint64_t)isa->flags_written;

    for (unsigned i = 0; i < insn->operands; i++) {
        const struct soft_operand *operand = &insn->operand[i];

        if (!(operand->access & SOFT_ACCESS_WRITE))
            continue;
        if (operand->kind == SOFT_OPERAND_GPR || operand->kind == SOFT_OPERAND_GPR_HIGH)
            may_write |= 1u << operand->reg;
        if (is_vector(operand))
            may_write_vector |= 1u << operand->reg;
    }
    if (insn->op == SOFT_OP_VZEROALL || insn->op == SOFT_OP_VZEROUPPER)
        may_write_vector = 0xffff;
    if (insn->op == SOFT_OP_PCMPESTRM || insn->op == SOFT_OP_PCMPISTRM ||
        insn->op == SOFT_OP_VPCMPESTRM || insn->op == SOFT_OP_VPCMPISTRM)
        may_write_vector |= 1;
    if (!fault && !(isa->flags & SOFT_ISA_BRANCH) &&
        run->after.rip != fixture->layout.code + insn->length)
        return "length";
    if (changed)
        return "a flag that it does not write";
    for (unsigned i = 0; i < 16; i++) {
        if (run->before.gpr[i] != run->after.gpr[i] && !(may_write >> i & 1))
            return "a general register that it does not write";
        if (memcmp(run->before.ymm[i], run->after.ymm[i], 32) != 0 && !(may_write_vector >> i & 1))
            return "a vector register that it does not write";
    }
    if (!(isa->flags & (SOFT_ISA_X87 | SOFT_ISA_MMX)) &&
        (run->before.fsw != run->after.fsw || run->before.ftw != run->after.ftw ||
         memcmp(run->before.st, run->after.st, sizeof(run->before.st)) != 0))
        return "x87 state";
    if (!(isa->flags & (SOFT_ISA_SSE | SOFT_ISA_AVX)) && run->before.mxcsr != run->after.mxcsr)
        return "MXCSR";
    return NULL;
}

/* Memory outside the operand must not change; strings and the stack are not looked at. */
static const char *check_memory(const struct fixture *fixture, const struct isa_case *test,
                                const struct run *run)
{
    const struct soft_insn *insn = &test->insn;
    uint64_t start = isa_unalias(test->target) - fixture->layout.sandbox, bytes = 0;

    if (implied_writes(insn) & (1u << HV_REG_RSP | 1u << HV_REG_RDI))
        return NULL;
    if (insn->op == SOFT_OP_MASKMOVQ || insn->op == SOFT_OP_MASKMOVDQU ||
        insn->op == SOFT_OP_VMASKMOVDQU)
        return NULL;
    for (unsigned i = 0; i < insn->operands; i++) {
        if (insn->operand[i].kind == SOFT_OPERAND_MEM &&
            (insn->operand[i].access & SOFT_ACCESS_WRITE))
            bytes = insn->operand[i].bytes;
    }
    if (insn->op == SOFT_OP_BTS || insn->op == SOFT_OP_BTR || insn->op == SOFT_OP_BTC) {
        start -= 64;
        bytes += 128;
    }
    for (uint64_t i = 0; i < ISA_SANDBOX_BYTES; i++) {
        if (run->memory[i] != fixture->memory[i] && i - start >= bytes)
            return "memory outside its operand";
    }
    return NULL;
}

/* Both runs must agree where the row says that they do. */
static const char *check_agreement(const struct isa_case *test, const struct run runs[2])
{
    const struct soft_isa_row *isa = soft_isa_row(test->insn.row);
    uint64_t differ = runs[0].after.rflags ^ runs[1].after.rflags;
    uint64_t defined = isa->flags_written & ~(uint64_t)isa->flags_undefined;
    bool fault = runs[0].outcome.vector != ISA_VECTOR_NONE;
    /* What may keep its value is listed as read. */
    uint64_t undefined_read = isa->flags_undefined & isa->flags_read;

    if (runs[0].outcome.vector != runs[1].outcome.vector)
        return "the exception depends on what it does not read";
    if (fault)
        return NULL;
    if (runs[0].after.rip != runs[1].after.rip)
        return "the next instruction depends on what it does not read";
    if (differ & defined & ~undefined_read)
        return "a flag depends on what it does not read";
    for (unsigned i = 0; i < 16; i++) {
        if (runs[0].before.gpr[i] == runs[1].before.gpr[i] &&
            runs[0].after.gpr[i] != runs[1].after.gpr[i])
            return "a general register depends on what it does not read";
        if (memcmp(runs[0].before.ymm[i], runs[1].before.ymm[i], 32) == 0 &&
            memcmp(runs[0].after.ymm[i], runs[1].after.ymm[i], 32) != 0)
            return "a vector register depends on what it does not read";
    }
    for (unsigned i = 0; i < test->insn.operands; i++) {
        const struct soft_operand *operand = &test->insn.operand[i];

        if (operand->access != SOFT_ACCESS_WRITE)
            continue;
        if (operand->kind == SOFT_OPERAND_GPR &&
            runs[0].after.gpr[operand->reg] != runs[1].after.gpr[operand->reg])
            return "its destination's old value shows";
        if (is_vector(operand) &&
            memcmp(runs[0].after.ymm[operand->reg], runs[1].after.ymm[operand->reg], 32) != 0)
            return "its vector destination's old value shows";
    }
    if (memcmp(runs[0].memory, runs[1].memory, ISA_SANDBOX_BYTES) != 0)
        return "memory depends on what it does not read";
    return NULL;
}

static void fail(struct fixture *fixture, const struct isa_case *test, const char *text)
{
    char hex[SOFT_INSN_MAX * 3 + 1] = "";

    for (unsigned i = 0; i < test->insn.length; i++)
        snprintf(hex + (size_t)3 * i, 4, " %02x", test->bytes[i]);
    if (++fixture->failures <= REPORTS)
        tap_fail(__FILE__, __LINE__, "%s:%s: %s", soft_isa_row(test->row)->mnemonic, hex, text);
}

static void run_case(struct fixture *fixture, const struct isa_case *test,
                     const struct isa_state *state)
{
    uint8_t *sandbox = isa_host_sandbox(fixture->host);
    uint64_t poke_offset = isa_unalias(test->poke_address) - fixture->layout.sandbox;
    struct run *runs = fixture->runs_of_case;
    const char *text = NULL;

    isa_memory_fill(&fixture->random, fixture->memory);
    for (unsigned i = 0; i < 2; i++) {
        memcpy(sandbox, fixture->memory, ISA_SANDBOX_BYTES);
        runs[i].before = *state;
        if (i == 1)
            perturb(test, &runs[i].before, sandbox, fixture->layout.sandbox);
        if (test->poke_bytes && !hv_range_outside(poke_offset, 8, ISA_SANDBOX_BYTES))
            hv_store_le(sandbox + poke_offset, test->poke_value, 8);
        runs[i].after = runs[i].before;
        isa_host_clear(fixture->host);
        runs[i].outcome =
            isa_host_run(fixture->host, test->bytes, test->insn.length, &runs[i].after);
        memcpy(runs[i].memory, sandbox, ISA_SANDBOX_BYTES);
        fixture->runs++;
    }
    if (runs[0].outcome.vector == 6) {
        /* Hidden by this host; what is in every processor must not be. */
        uint16_t op = test->insn.op;

        fixture->unsupported++;
        if (soft_isa_row(test->row)->feature == HV_FEATURE_BASE && op != SOFT_OP_UD0 &&
            op != SOFT_OP_UD1 && op != SOFT_OP_UD2)
            fail(fixture, test, "#UD");
        return;
    }
    fixture->faults += runs[0].outcome.vector != ISA_VECTOR_NONE;
    if (test->kind == ISA_KIND_REGISTER || test->kind == ISA_KIND_MEMORY)
        text = check_run(fixture, test, &runs[0]);
    if (!text && !test->poke_bytes)
        text = check_memory(fixture, test, &runs[0]);
    if (!text)
        text = check_agreement(test, runs);
    if (text)
        fail(fixture, test, text);
}

static void run_row(struct fixture *fixture, uint16_t row, enum isa_kind kind)
{
    static const unsigned sizes[] = {2, 4, 8};
    unsigned hits = getenv("LODGE_TEST_LONG") ? HITS * LONG_FACTOR : HITS;

    for (unsigned i = 0; i < HV_ARRAY_LEN(sizes) * hits; i++) {
        struct isa_state state;
        struct isa_case test;

        isa_state_randomize(&fixture->random, &state);
        if (isa_case_make(fixture->encoder, &fixture->layout, row, sizes[i / hits], kind,
                          &fixture->random, &state, &test))
            run_case(fixture, &test, &state);
    }
}

static bool fixture_init(struct fixture *fixture)
{
    *fixture = (struct fixture){.host = isa_host_create(), .random = {tap_rng()}};
    if (!fixture->host) {
        tap_skip("The host has no AVX.");
        return false;
    }
    fixture->encoder = isa_encoder_create();
    fixture->layout = (struct isa_layout){isa_host_code(fixture->host) + ISA_CODE_BYTES / 4,
                                          (uintptr_t)isa_host_sandbox(fixture->host)};
    return true;
}

static void fixture_finish(struct fixture *fixture)
{
    tap_note("%" PRIu64 " runs, %" PRIu64 " faults, %" PRIu64 " not on this host, %u failures",
             fixture->runs, fixture->faults, fixture->unsupported, fixture->failures);
    isa_encoder_destroy(fixture->encoder);
    isa_host_destroy(fixture->host);
}

static void run_kind(enum isa_kind kind)
{
    static struct fixture fixture;

    if (!fixture_init(&fixture))
        return;
    for (size_t row = 0; row < soft_isa_rows(); row++)
        run_row(&fixture, (uint16_t)row, kind);
    fixture_finish(&fixture);
}

static void test_registers(void)
{
    run_kind(ISA_KIND_REGISTER);
}

static void test_memory(void)
{
    run_kind(ISA_KIND_MEMORY);
}

static void test_crossing(void)
{
    run_kind(ISA_KIND_CROSSING);
}

static void test_faulting(void)
{
    run_kind(ISA_KIND_FAULTING);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.isa-silicon.registers", test_registers},
        {"engine.isa-silicon.memory", test_memory},
        {"engine.isa-silicon.crossing", test_crossing},
        {"engine.isa-silicon.faulting", test_faulting},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
