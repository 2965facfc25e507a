/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Faults are precise: RIP, flags and registers of before, nothing stored, the right vector. */
#include "soft-case.h"

SNIPPET(push_rax);
SNIPPET(pop_rax);
SNIPPET(call_next);
SNIPPET(call_memory);
SNIPPET(push_memory);
SNIPPET(return_to_rax);
SNIPPET(store_8);
SNIPPET(add_8);
SNIPPET(load_rbp);
SNIPPET(rep_movs);
SNIPPET(rep_stos);
SNIPPET(repe_cmps);
SNIPPET(rep_movs_down);
SNIPPET(jump_rax);
SNIPPET(flags_then_fault);
SNIPPET(lock_mov);
SNIPPET(too_long);
SNIPPET(xchg_memory);

#define NOT_CANONICAL UINT64_C(0x8000000000000000)
/* A page that is not there, between two that are. */
#define HOLE          0x41000u

static void make_hole(struct soft_machine *machine)
{
    set_page(machine, HOLE, HOLE, PAGE_NONE);
    /* The handler needs a stack of its own: IST 1 in every gate. */
    soft_machine_poke(machine, 0x4800 + 0x24, 8, 0xf000);
    for (unsigned vector = 0; vector < 64; vector++) {
        soft_machine_poke(machine, 0x5000 + 16 * vector + 4, 1, 1);
    }
}

static void test_push(void)
{
    struct soft_machine *machine = MACHINE_64(push_rax);

    make_hole(machine);
    set_reg(machine, HV_REG_RSP, HOLE + 8);
    TAP_EQ(run_to_halt(machine), HV_VECTOR_PF);
    TAP_EQ(machine->cpu.cr2, HOLE);
    TAP_EQ(frame_rip(machine, true), MACHINE_CODE);
    TAP_EQ(frame_rsp(machine, true), HOLE + 8);
    TAP_EQ(soft_machine_peek(machine, reg(machine, HV_REG_RSP), 8), 2); /* a write, not present */
    soft_machine_destroy(machine);
}

/* A stack address that is not canonical is #SS, however it is named; others are #GP. */
static void test_not_canonical(void)
{
    static const struct {
        const uint8_t *start, *end;
        enum hv_reg address;
        int vector;
    } rows[] = {
        {snippet_push_rax, snippet_push_rax_end, HV_REG_RSP, HV_VECTOR_SS},
        {snippet_pop_rax, snippet_pop_rax_end, HV_REG_RSP, HV_VECTOR_SS},
        {snippet_call_next, snippet_call_next_end, HV_REG_RSP, HV_VECTOR_SS},
        {snippet_push_memory, snippet_push_memory_end, HV_REG_RSP, HV_VECTOR_SS},
        {snippet_load_rbp, snippet_load_rbp_end, HV_REG_RBP, HV_VECTOR_SS},
        {snippet_store_8, snippet_store_8_end, HV_REG_RSI, HV_VECTOR_GP},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        struct soft_machine *machine =
            case_machine(soft_machine_set_64, rows[i].start, rows[i].end);

        make_hole(machine);
        set_reg(machine, HV_REG_RSI, 0x30000);
        set_reg(machine, rows[i].address, NOT_CANONICAL);
        TAP_EQ(run_to_halt(machine), rows[i].vector);
        TAP_EQ(frame_rip(machine, true), MACHINE_CODE);
        TAP_EQ(frame_rsp(machine, true),
               rows[i].address == HV_REG_RSP ? NOT_CANONICAL : MACHINE_STACK);
        soft_machine_destroy(machine);
    }
}

/* Branches to what is not canonical fault on the branch, before it has done anything. */
static void test_branch_targets(void)
{
    struct soft_machine *machine = MACHINE_64(return_to_rax);

    set_reg(machine, HV_REG_RAX, NOT_CANONICAL);
    TAP_EQ(run_to_halt(machine), HV_VECTOR_GP);
    TAP_EQ(frame_rip(machine, true), MACHINE_CODE + 1);
    TAP_EQ(frame_rsp(machine, true), MACHINE_STACK - 8);
    soft_machine_destroy(machine);

    machine = MACHINE_64(jump_rax);
    set_reg(machine, HV_REG_RAX, NOT_CANONICAL);
    TAP_EQ(run_to_halt(machine), HV_VECTOR_GP);
    TAP_EQ(frame_rip(machine, true), MACHINE_CODE);
    soft_machine_destroy(machine);

    machine = MACHINE_64(call_memory);
    set_reg(machine, HV_REG_RSI, 0x30000);
    soft_machine_poke(machine, 0x30000, 8, NOT_CANONICAL);
    TAP_EQ(run_to_halt(machine), HV_VECTOR_GP);
    TAP_EQ(frame_rsp(machine, true), MACHINE_STACK);
    soft_machine_destroy(machine);

    /* A fetch where nothing is mapped faults at the target. */
    machine = MACHINE_64(jump_rax);
    make_hole(machine);
    set_reg(machine, HV_REG_RAX, HOLE + 5);
    TAP_EQ(run_to_halt(machine), HV_VECTOR_PF);
    TAP_EQ(machine->cpu.cr2, HOLE + 5);
    TAP_EQ(frame_rip(machine, true), HOLE + 5);
    soft_machine_destroy(machine);
}

/* An instruction whose second half is not there: the fault's address is the second page's. */
static void test_crossing_fetch(void)
{
    static const uint8_t code[] = {0xb8, 1, 2};
    struct soft_machine *machine = MACHINE_64(jump_rax);

    soft_machine_write(machine, HOLE - sizeof(code), code, sizeof(code));
    make_hole(machine);
    set_reg(machine, HV_REG_RAX, HOLE - sizeof(code));
    TAP_EQ(run_to_halt(machine), HV_VECTOR_PF);
    TAP_EQ(machine->cpu.cr2, HOLE);
    TAP_EQ(frame_rip(machine, true), HOLE - sizeof(code));
    soft_machine_destroy(machine);
}

#define BEFORE_HOLE UINT64_C(0x1111111111111111)

/* Accesses of 8 bytes by RSI cross from the last page into the hole. */
static void point_across(struct soft_machine *machine)
{
    make_hole(machine);
    soft_machine_poke(machine, HOLE - 8, 8, BEFORE_HOLE);
    set_reg(machine, HV_REG_RSI, HOLE - 3);
    set_reg(machine, HV_REG_RAX, UINT64_MAX);
}

/* A store across a page's end into a hole stores nothing; so does a read-modify-write. */
static void test_crossing_store(void)
{
    struct soft_machine *machine = MACHINE_64(store_8);

    point_across(machine);
    TAP_EQ(run_to_halt(machine), HV_VECTOR_PF);
    TAP_EQ(machine->cpu.cr2, HOLE);
    TAP_EQ(soft_machine_peek(machine, HOLE - 8, 8), BEFORE_HOLE);
    soft_machine_destroy(machine);

    machine = MACHINE_64(add_8);
    point_across(machine);
    TAP_EQ(run_to_halt(machine), HV_VECTOR_PF);
    TAP_EQ(soft_machine_peek(machine, HOLE - 8, 8), BEFORE_HOLE);
    TAP_OK(frame_rflags(machine, true) & HV_RFLAGS_CF);
    soft_machine_destroy(machine);

    machine = MACHINE_64(xchg_memory);
    point_across(machine);
    TAP_EQ(run_to_halt(machine), HV_VECTOR_PF);
    TAP_EQ(soft_machine_peek(machine, HOLE - 8, 8), BEFORE_HOLE);
    TAP_EQ(reg(machine, HV_REG_RAX), UINT64_MAX);
    soft_machine_destroy(machine);
}

/* Flags that a later instruction would have replaced are there when one in between faults. */
static void test_flags(void)
{
    struct soft_machine *machine = MACHINE_64(flags_then_fault);

    make_hole(machine);
    set_reg(machine, HV_REG_RSI, HOLE);
    TAP_EQ(run_to_halt(machine), HV_VECTOR_PF);
    TAP_EQ(frame_rip(machine, true), MACHINE_CODE + 2);
    TAP_EQ(frame_rflags(machine, true) & HV_RFLAGS_ARITH, HV_RFLAGS_ZF | HV_RFLAGS_PF);
    TAP_OK(frame_rflags(machine, true) & HV_RFLAGS_RF);
    soft_machine_destroy(machine);
}

/* Repeated instructions stop where the fault is, and go on from there. */
static void test_repeated(void)
{
    struct soft_machine *machine = MACHINE_64(rep_movs);

    make_hole(machine);
    set_reg(machine, HV_REG_RSI, 0x30000);
    set_reg(machine, HV_REG_RDI, HOLE - 100);
    set_reg(machine, HV_REG_RCX, 300);
    soft_machine_poke(machine, 0x30000 + 99, 1, 0x99);
    TAP_EQ(run_to_halt(machine), HV_VECTOR_PF);
    TAP_EQ(machine->cpu.cr2, HOLE);
    TAP_EQ(reg(machine, HV_REG_RCX), 200);
    TAP_EQ(reg(machine, HV_REG_RSI), 0x30000 + 100);
    TAP_EQ(reg(machine, HV_REG_RDI), HOLE);
    TAP_EQ(soft_machine_peek(machine, HOLE - 1, 1), 0x99);
    TAP_EQ(frame_rip(machine, true), MACHINE_CODE);
    soft_machine_destroy(machine);

    machine = MACHINE_64(rep_stos);
    make_hole(machine);
    set_reg(machine, HV_REG_RDI, HOLE - 10);
    set_reg(machine, HV_REG_RCX, 5);
    set_reg(machine, HV_REG_RAX, 0x01020304);
    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(reg(machine, HV_REG_RCX), 3);
    TAP_EQ(reg(machine, HV_REG_RDI), HOLE - 2);
    TAP_EQ(soft_machine_peek(machine, HOLE - 2, 2), 0);
    soft_machine_destroy(machine);

    machine = MACHINE_64(repe_cmps);
    make_hole(machine);
    set_reg(machine, HV_REG_RSI, 0x30000);
    set_reg(machine, HV_REG_RDI, HOLE - 4);
    set_reg(machine, HV_REG_RCX, 100);
    TAP_EQ(run_to_halt(machine), HV_VECTOR_PF);
    TAP_EQ(reg(machine, HV_REG_RCX), 96);
    /* As before the instruction, though what it has compared was equal (SDM 2, REP). */
    TAP_OK(!(frame_rflags(machine, true) & HV_RFLAGS_ZF));
    soft_machine_destroy(machine);
}

/* Downwards over several pages, with both operands overlapping. */
static void test_down(void)
{
    struct soft_machine *machine = MACHINE_64(rep_movs_down);
    const unsigned words = 5000, shift = 3;

    for (unsigned i = 0; i < words; i += 4) {
        soft_machine_poke(machine, 0x60000 + 2 * i, 8,
                          UINT64_C(0x0003000200010000) + i * UINT64_C(0x1000100010001));
    }
    set_reg(machine, HV_REG_RSI, 0x60000 + 2 * (words - 1));
    set_reg(machine, HV_REG_RDI, 0x60000 + 2 * (words - 1 + shift));
    set_reg(machine, HV_REG_RCX, words);
    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(reg(machine, HV_REG_RCX), 0);
    TAP_EQ(reg(machine, HV_REG_RSI), 0x60000 - 2);
    for (unsigned i = 0; i < words; i += 7) {
        TAP_EQ(soft_machine_peek(machine, 0x60000 + 2 * (i + shift), 2), i);
    }
    soft_machine_destroy(machine);
}

static void test_undefined(void)
{
    struct soft_machine *machine = MACHINE_64(lock_mov);

    TAP_EQ(run_to_halt(machine), HV_VECTOR_UD);
    soft_machine_destroy(machine);

    /* Fifteen bytes run, sixteen do not. */
    machine = MACHINE_64(too_long);
    TAP_EQ(run_to_halt(machine), HV_VECTOR_GP);
    TAP_EQ(frame_rip(machine, true), MACHINE_CODE + 15);
    soft_machine_destroy(machine);
}

/* Double and triple fault. */
static void test_double(void)
{
    struct soft_machine *machine = MACHINE_64(store_8);

    make_hole(machine);
    soft_machine_poke(machine, 0x5000 + 16 * HV_VECTOR_PF, 8, 0);
    set_reg(machine, HV_REG_RSI, HOLE);
    TAP_EQ(run_to_halt(machine), HV_VECTOR_DF);
    soft_machine_destroy(machine);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.fault.push", test_push},
        {"engine.fault.not_canonical", test_not_canonical},
        {"engine.fault.branch_targets", test_branch_targets},
        {"engine.fault.crossing_fetch", test_crossing_fetch},
        {"engine.fault.crossing_store", test_crossing_store},
        {"engine.fault.flags", test_flags},
        {"engine.fault.repeated", test_repeated},
        {"engine.fault.down", test_down},
        {"engine.fault.undefined", test_undefined},
        {"engine.fault.double", test_double},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
