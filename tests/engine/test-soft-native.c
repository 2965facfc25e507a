/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The software engine against the host: random instructions of every integer row, one at a time and
 * in sequences, run in a guest's CPL 3 and natively, from the same registers, flags and memory. All
 * registers, flags (undefined ones too, where the silicon decides them) and memory must agree, and
 * so must exceptions, their addresses, and that nothing was committed when one came.
 *
 * Vector and x87 rows are compared by test-thunk-random; here they only appear as what must be #UD
 * when the policy hides them. What depends on the environment stands in `excluded`.
 */
#include "engine/isa-encode.h"
#include "engine/soft-machine.h"
#include "engine/soft/soft.h"
#include "unit/engine/native.h"

#include "cpu/segment.h"

#include "isa-ops.h"
#include "lib/tap.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define WINDOW       0x30000000u /* two pages, the same address in guest and host; none around */
#define WINDOW_BYTES 0x2000u
#define WINDOW_TABLE 0x6000u     /* guest page table of the 2 MiB around it */
#define CODE         0x30100000u /* another user page of the guest */
#define ARITH        (uint64_t) HV_RFLAGS_ARITH

/* Depends on the kernel around, on time, or would leave the sandbox. */
static const uint16_t excluded[] = {
    SOFT_OP_SYSCALL,  SOFT_OP_SYSENTER, SOFT_OP_SYSRET,   SOFT_OP_SYSEXIT,  SOFT_OP_CPUID,
    SOFT_OP_RDTSC,    SOFT_OP_RDTSCP,   SOFT_OP_RDPID,    SOFT_OP_RDRAND,   SOFT_OP_RDSEED,
    SOFT_OP_RDFSBASE, SOFT_OP_RDGSBASE, SOFT_OP_WRFSBASE, SOFT_OP_WRGSBASE, SOFT_OP_MOV_SEG,
    SOFT_OP_LSS,      SOFT_OP_LFS,      SOFT_OP_LGS,      SOFT_OP_LAR,      SOFT_OP_LSL,
    SOFT_OP_VERR,     SOFT_OP_VERW,     SOFT_OP_SLDT,     SOFT_OP_STR,      SOFT_OP_SGDT,
    SOFT_OP_SIDT,     SOFT_OP_SMSW,     SOFT_OP_POPF,     SOFT_OP_VMCALL,   SOFT_OP_VMMCALL,
    SOFT_OP_RDPMC,    SOFT_OP_XGETBV,   SOFT_OP_PAUSE,    SOFT_OP_GETSEC,
};

struct trial {
    uint8_t code[128];
    unsigned bytes;
    unsigned insns;
    uint16_t flags_undefined; /* by an instruction that C code runs, and not set again since */
    struct native before;
    uint8_t memory[WINDOW_BYTES];
};

static struct isa_encoder *encoder;
static struct isa_random chance = {1};
static struct soft_machine *machine;
static struct hv_cpu fresh_cpu;
static struct trial trial;
static struct native after;

/* ---- The guest -------------------------------------------------------------------------------- */

static void make_guest(void)
{
    void *window = mmap((void *)(uintptr_t)WINDOW, WINDOW_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    if (window != (void *)(uintptr_t)WINDOW) {
        abort();
    }
    machine = soft_machine_create(HV_GIB);
    chance.state = tap_rng() | 1;
}

/* CPL 3 with the window and the code as its only pages; made once, then put back. */
static void set_cpl_3(void)
{
    struct hv_cpu *cpu = &machine->cpu;
    struct hv_segment segment;

    if (fresh_cpu.policy) {
        *cpu = fresh_cpu;
        return;
    }

    soft_machine_set_64(machine);
    for (unsigned i = 0; i < 512; i++) {
        uint64_t page = (WINDOW & ~UINT64_C(0x1fffff)) + i * HV_PAGE_SIZE;
        bool inside = (page >= WINDOW && page < WINDOW + WINDOW_BYTES) || page == CODE;

        soft_machine_poke(machine, WINDOW_TABLE + 8 * i, 8, inside ? page | 7 : 0);
    }
    for (uint64_t i = 0; i < 512; i++) {
        soft_machine_poke(machine, 0x3000 + 8 * i, 8, i << 21 | 0x83);
    }
    soft_machine_poke(machine, 0x3000 + 8 * (WINDOW >> 21), 8, WINDOW_TABLE | 7);
    soft_machine_poke(machine, 0x4866, 2, 0x68); /* no I/O permission bitmap */
    for (unsigned s = 0; s < HV_SEG_COUNT; s++) {
        segment = cpu->seg[s];
        segment.selector = s == HV_SEG_CS ? 0x3b : s >= HV_SEG_FS ? 0 : 0x33;
        segment.attr |= 3u << HV_SEG_ATTR_DPL_SHIFT;
        hv_segment_set(cpu, (enum hv_seg)s, &segment);
    }
    cpu->cpl = 3;
    fresh_cpu = *cpu;
    hv_engine_soft.state_changed(machine->vcpu);
}

/* What the guest stands at: the exception's vector, and its frame put back into `out`. */
static int run_guest(struct native *out, uint64_t *address_out, uint64_t *rip_out)
{
    struct hv_cpu *cpu = &machine->cpu;
    static const uint8_t stop[] = {0xcc};
    struct hv_exit exit;
    uint64_t frame;
    int vector;

    set_cpl_3();
    memcpy(cpu->slot, trial.before.gpr, sizeof(trial.before.gpr));
    hv_cpu_set_rflags(cpu, trial.before.rflags | HV_RFLAGS_IF);
    soft_machine_write(machine, WINDOW, trial.memory, WINDOW_BYTES);
    soft_machine_write(machine, CODE, trial.code, trial.bytes);
    soft_machine_write(machine, CODE + trial.bytes, stop, sizeof(stop));
    cpu->rip = CODE;
    exit = soft_machine_run(machine, 100000);
    vector = exit.kind == HV_EXIT_HLT ? soft_machine_exception(machine) : -1 - (int)exit.kind;
    memcpy(out->gpr, cpu->slot, sizeof(out->gpr));
    if (vector < 0) {
        return vector;
    }
    frame = cpu->slot[HV_REG_RSP];
    if ((vector >= 10 && vector <= 14) || vector == 8 || vector == 17) {
        frame += 8;
    }
    *rip_out = soft_machine_peek(machine, frame, 8);
    out->rflags = soft_machine_peek(machine, frame + 16, 8);
    out->gpr[HV_REG_RSP] = soft_machine_peek(machine, frame + 24, 8);
    *address_out = vector == HV_VECTOR_PF ? cpu->cr2 : 0;
    return vector;
}

/* ---- The host --------------------------------------------------------------------------------- */

static int run_host(struct native *out, uint64_t *address_out)
{
    memcpy((void *)(uintptr_t)WINDOW, trial.memory, WINDOW_BYTES);
    *out = trial.before;
    native_run(out, trial.code, trial.bytes);
    *address_out = out->address;
    switch (out->signal) {
    case 0:
        return HV_VECTOR_BP;
    case SIGILL:
        return HV_VECTOR_UD;
    case SIGFPE:
        return HV_VECTOR_DE;
    case SIGBUS:
        return HV_VECTOR_SS;
    default:
        return out->address ? HV_VECTOR_PF : HV_VECTOR_GP;
    }
}

/* ---- Trials ----------------------------------------------------------------------------------- */

static bool is_excluded(const struct soft_isa_row *row)
{
    const unsigned vector = SOFT_ISA_X87 | SOFT_ISA_MMX | SOFT_ISA_SSE | SOFT_ISA_AVX;

    for (size_t i = 0; i < HV_ARRAY_LEN(excluded); i++) {
        if (row->op == excluded[i]) {
            return true;
        }
    }
    return (row->flags & (vector | SOFT_ISA_BRANCH)) ||
           (row->op >= SOFT_OP_XRSTOR && row->op <= SOFT_OP_XSETBV);
}

static uint64_t number(void)
{
    switch (isa_random_below(&chance, 5)) {
    case 0:
        return isa_random(&chance);
    case 1:
        return isa_random(&chance) & 0xff;
    case 2:
        return (uint64_t)((int64_t)isa_random(&chance) >> isa_random_below(&chance, 64));
    case 3:
        return UINT64_C(1) << isa_random_below(&chance, 64);
    default:
        return (uint64_t)0 - isa_random_below(&chance, 4);
    }
}

static uint64_t window_address(void)
{
    return WINDOW + 64 + isa_random_below(&chance, WINDOW_BYTES - 128);
}

static void random_state(void)
{
    uint32_t *memory = (uint32_t *)(void *)trial.memory;

    memset(&trial.before, 0, sizeof(trial.before));
    for (unsigned i = 0; i < 16; i++) {
        trial.before.gpr[i] = number();
    }
    trial.before.gpr[HV_REG_RSP] = window_address() & ~UINT64_C(7);
    trial.before.rflags = isa_random(&chance) & ARITH;
    for (unsigned i = 0; i < WINDOW_BYTES / 4; i++) {
        memory[i] = (uint32_t)number();
    }
    /* What native.c loads besides. */
    trial.before.x[0] = 0x7f;
    trial.before.x[1] = 3;
    trial.before.x[24] = 0x80;
    trial.before.x[25] = 0x1f;
}

/* Let the memory operand lie in the window: choose its base (or index) register. */
static bool aim(const struct soft_insn *insn)
{
    const struct soft_mem *mem = &insn->mem;
    uint64_t *gpr = trial.before.gpr;
    uint64_t target = window_address();
    uint64_t offset = (uint64_t)mem->disp;

    if ((insn->flags & SOFT_INSN_LOCK) || insn->op == SOFT_OP_XCHG) {
        /* Hosts may throttle locked accesses across a cache line without end. */
        target &= ~UINT64_C(15);
    }
    if (mem->base == SOFT_REG_RIP || mem->base == SOFT_REG_NONE) {
        return false;
    }
    if (mem->index != SOFT_REG_NONE) {
        gpr[mem->index] = isa_random_below(&chance, 16);
        offset += gpr[mem->index] << mem->scale;
        if (mem->index == mem->base) {
            return false;
        }
    }
    if (insn->address_bytes == 8 || target - offset < UINT32_MAX) {
        gpr[mem->base] = target - offset;
    } else {
        gpr[mem->base] = (uint32_t)(target - offset);
    }
    return true;
}

/* Operands that instructions have without saying so. */
static void aim_implied(const struct soft_insn *insn)
{
    uint64_t *gpr = trial.before.gpr;

    if (insn->flags & SOFT_INSN_STRING_IMPLIED) {
        gpr[HV_REG_RSI] = window_address();
        gpr[HV_REG_RDI] = window_address();
        gpr[HV_REG_RCX] = isa_random_below(&chance, 40) - (isa_random_below(&chance, 8) ? 0 : 1);
        if (gpr[HV_REG_RCX] > 1000) {
            gpr[HV_REG_RCX] = 1000;
        }
    }
    if (insn->op == SOFT_OP_XLAT) {
        gpr[HV_REG_RBX] = window_address() - 256;
    }
    if (insn->op == SOFT_OP_LEAVE || insn->op == SOFT_OP_ENTER) {
        gpr[HV_REG_RBP] = window_address() & ~UINT64_C(7);
    }
    if ((insn->op == SOFT_OP_DIV || insn->op == SOFT_OP_IDIV) && insn->mem.base != HV_REG_RDX &&
        insn->mem.index != HV_REG_RDX) {
        /* Mostly quotients that fit. */
        gpr[HV_REG_RDX] =
            isa_random_below(&chance, 4) ? isa_random_below(&chance, 3) - 1u : number();
    }
    /* A bit string reaches far from its base. */
    if (insn->op >= SOFT_OP_BT && insn->op <= SOFT_OP_BTS && insn->operands > 1 &&
        insn->operand[0].kind == SOFT_OPERAND_MEM && insn->operand[1].kind == SOFT_OPERAND_GPR &&
        insn->operand[1].reg != insn->mem.base && insn->operand[1].reg != insn->mem.index) {
        gpr[insn->operand[1].reg] = isa_random_below(&chance, 4000) - 2000u;
    }
}

/* Shifts by a constant run as shifts by CL: silicon has two minds about the undefined OF. */
static bool shifts_by_constant(const struct soft_insn *insn)
{
    switch (insn->op) {
    case SOFT_OP_ROL:
    case SOFT_OP_ROR:
    case SOFT_OP_SHL:
    case SOFT_OP_SHR:
    case SOFT_OP_SAR:
        return insn->operand[1].kind == SOFT_OPERAND_IMM;
    default:
        return false;
    }
}

/* Undefined flags of what C code runs: the silicon's are not ours. */
static uint16_t undefined_flags(const struct soft_insn *insn)
{
    if (shifts_by_constant(insn)) {
        return soft_isa_row(insn->row)->flags_undefined;
    }
    switch (insn->op) {
    case SOFT_OP_DIV:
    case SOFT_OP_IDIV:
    case SOFT_OP_BT:
    case SOFT_OP_BTS:
    case SOFT_OP_BTR:
    case SOFT_OP_BTC:
        return soft_isa_row(insn->row)->flags_undefined;
    default:
        return 0;
    }
}

static const char *hex(void)
{
    static char text[3 * sizeof(trial.code) + 1];

    for (unsigned i = 0; i < trial.bytes; i++) {
        snprintf(&text[3 * i], 4, "%02x ", trial.code[i]);
    }
    return text;
}

static void complain(const char *name, const char *what, uint64_t got, uint64_t want)
{
    tap_fail(__FILE__, __LINE__, "%s [%s]: %s: got %#llx, want %#llx", name, hex(), what,
             (unsigned long long)got, (unsigned long long)want);
}

static bool compare(const char *name, bool repeated)
{
    static uint8_t guest_memory[WINDOW_BYTES];
    uint64_t guest_address = 0, host_address = 0, rip = 0, mask = ARITH & ~trial.flags_undefined;
    struct native host;
    int want = run_host(&host, &host_address);
    int got = run_guest(&after, &guest_address, &rip);

    if (got != want) {
        complain(name, "vector", (uint64_t)(int64_t)got, (uint64_t)want);
        return false;
    }
    if (got == HV_VECTOR_BP && rip != CODE + trial.bytes + 1) {
        complain(name, "rip", rip, CODE + trial.bytes + 1);
        return false;
    }
    if (got != HV_VECTOR_BP && !repeated) {
        memcpy(host.gpr, trial.before.gpr, sizeof(host.gpr));
        host.rflags = trial.before.rflags;
        mask = ARITH;
    }
    if (guest_address != host_address) {
        complain(name, "address", guest_address, host_address);
        return false;
    }
    for (unsigned i = 0; i < 16 && !(got != HV_VECTOR_BP && repeated); i++) {
        if (after.gpr[i] != host.gpr[i]) {
            static const char *const names[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp",
                                                "rsi", "rdi", "r8",  "r9",  "r10", "r11",
                                                "r12", "r13", "r14", "r15"};

            complain(name, names[i], after.gpr[i], host.gpr[i]);
            return false;
        }
    }
    if ((after.rflags ^ host.rflags) & mask && !(got != HV_VECTOR_BP && repeated)) {
        complain(name, "flags", after.rflags & mask, host.rflags & mask);
        return false;
    }
    soft_machine_read(machine, WINDOW, guest_memory, WINDOW_BYTES);
    for (unsigned i = 0; i < WINDOW_BYTES; i++) {
        const uint8_t *host_memory = (const uint8_t *)(uintptr_t)WINDOW;

        if (guest_memory[i] != host_memory[i]) {
            complain(name, "memory", guest_memory[i], host_memory[i]);
            return false;
        }
    }
    return true;
}

/* ---- One at a time ---------------------------------------------------------------------------- */

static unsigned encode(uint16_t row, const struct isa_shape *shape, struct soft_insn *insn)
{
    trial.bytes = isa_encode(encoder, row, shape, &chance, trial.code, insn);
    return trial.bytes;
}

static bool try_row(uint16_t row, const struct isa_shape *shape, unsigned *hits)
{
    const struct soft_isa_row *description = soft_isa_row(row);
    struct soft_insn insn;

    /* POP FS would take the test's own thread-local storage away. */
    if (!encode(row, shape, &insn) ||
        (insn.op == SOFT_OP_POP && insn.operand[0].kind == SOFT_OPERAND_SEG)) {
        return true;
    }
    random_state();
    if (shape->memory && !aim(&insn)) {
        return true;
    }
    aim_implied(&insn);
    trial.flags_undefined = undefined_flags(&insn);
    if (!(machine->policy.features & HV_BIT(description->feature))) {
        uint64_t address, rip;

        if (run_guest(&after, &address, &rip) != HV_VECTOR_UD) {
            complain(description->mnemonic, "hidden feature", 0, HV_VECTOR_UD);
            return false;
        }
        return true;
    }
    (*hits)++;
    return compare(description->mnemonic, insn.flags & (SOFT_INSN_REP | SOFT_INSN_REPNE));
}

static void test_rows(void)
{
    static const uint8_t sizes[] = {2, 4, 8};
    unsigned missing = 0, tried = 0;

    for (uint16_t row = 0; row < soft_isa_rows(); row++) {
        const struct soft_isa_row *description = soft_isa_row(row);
        unsigned hits = 0;

        if (is_excluded(description)) {
            continue;
        }
        for (unsigned i = 0; i < 36; i++) {
            struct isa_shape shape = {
                .mode = SOFT_MODE_64,
                .operand_bytes = sizes[i % 3],
                .memory = i & 1,
                .repeat = (description->flags & SOFT_ISA_STRING) && i % 4 >= 2,
                .lock = (description->flags & SOFT_ISA_LOCKABLE) && (i & 1) && i % 4 == 3,
            };

            if (!try_row(row, &shape, &hits)) {
                return;
            }
        }
        tried++;
        missing += hits == 0;
    }
    tap_note("%u rows compared, %u of them never", tried, missing);
}

/* ---- Sequences -------------------------------------------------------------------------------- */

/* Rows whose register forms neither fault nor look at the environment. */
static bool is_harmless(const struct soft_insn *insn)
{
    for (unsigned i = 0; i < insn->operands; i++) {
        if (insn->operand[i].kind == SOFT_OPERAND_MEM ||
            ((insn->operand[i].kind == SOFT_OPERAND_GPR) && insn->operand[i].reg == HV_REG_RSP)) {
            return false;
        }
    }
    if (shifts_by_constant(insn)) {
        return false;
    }
    switch (insn->op) {
    case SOFT_OP_DIV:
    case SOFT_OP_IDIV:
    case SOFT_OP_PUSH:
    case SOFT_OP_POP:
    case SOFT_OP_XLAT:
    case SOFT_OP_LEAVE:
    case SOFT_OP_ENTER:
    case SOFT_OP_PUSHF:
    case SOFT_OP_STD:
    case SOFT_OP_UD0:
    case SOFT_OP_UD1:
    case SOFT_OP_UD2:
        return false;
    default:
        return !(soft_isa_row(insn->row)->flags &
                 (SOFT_ISA_PRIVILEGED | SOFT_ISA_SYSTEM | SOFT_ISA_STRING | SOFT_ISA_IO));
    }
}

static bool append(unsigned most)
{
    static const uint8_t sizes[] = {2, 4, 8, 4, 8};
    uint8_t bytes[SOFT_INSN_MAX];
    struct soft_insn insn;
    unsigned length;
    uint16_t row;

    do {
        struct isa_shape shape = {.mode = SOFT_MODE_64,
                                  .operand_bytes = sizes[isa_random_below(&chance, sizeof(sizes))]};

        row = (uint16_t)isa_random_below(&chance, (unsigned)soft_isa_rows());
        length = is_excluded(soft_isa_row(row))
                     ? 0
                     : isa_encode(encoder, row, &shape, &chance, bytes, &insn);
    } while (!length || !is_harmless(&insn) ||
             !(machine->policy.features & HV_BIT(soft_isa_row(row)->feature)));
    if (trial.bytes + length > most) {
        return false;
    }
    memcpy(&trial.code[trial.bytes], bytes, length);
    trial.bytes += length;
    return true;
}

/* A conditional jump over the instruction behind it. */
static void append_branch(void)
{
    unsigned at = trial.bytes;

    trial.code[at] = (uint8_t)(0x70 | isa_random_below(&chance, 16));
    trial.bytes += 2;
    (void)append(sizeof(trial.code) - 8);
    trial.code[at + 1] = (uint8_t)(trial.bytes - at - 2);
}

/* Compare or count, then branch: what the translator fuses. */
static void append_pair(void)
{
    static const uint16_t ops[] = {SOFT_OP_CMP, SOFT_OP_TEST, SOFT_OP_SUB,
                                   SOFT_OP_ADD, SOFT_OP_AND,  SOFT_OP_DEC};
    uint16_t op = ops[isa_random_below(&chance, HV_ARRAY_LEN(ops))];
    uint8_t bytes[SOFT_INSN_MAX];
    struct soft_insn insn;
    unsigned length = 0;

    while (!length || !is_harmless(&insn)) {
        struct isa_shape shape = {.mode = SOFT_MODE_64};
        uint16_t row = (uint16_t)isa_random_below(&chance, (unsigned)soft_isa_rows());

        length = soft_isa_row(row)->op == op
                     ? isa_encode(encoder, row, &shape, &chance, bytes, &insn)
                     : 0;
    }
    memcpy(&trial.code[trial.bytes], bytes, length);
    trial.bytes += length;
    append_branch();
}

static void test_sequences(void)
{
    for (unsigned i = 0; i < 3000; i++) {
        unsigned insns = 2 + isa_random_below(&chance, 7);

        random_state();
        trial.bytes = 0;
        trial.flags_undefined = 0;
        for (unsigned k = 0; k < insns && trial.bytes < 60; k++) {
            if (isa_random_below(&chance, 4) == 0) {
                append_pair();
            } else {
                (void)append(80);
            }
        }
        if (!compare("sequence", false)) {
            return;
        }
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"soft-native.rows", test_rows},
        {"soft-native.sequences", test_sequences},
    };
    int status;

    if (!native_available()) {
        puts("1..0 # SKIP the host has no AVX state to load");
        return 0;
    }
    encoder = isa_encoder_create();
    make_guest();
    status = tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
    soft_machine_destroy(machine);
    isa_encoder_destroy(encoder);
    return status;
}
