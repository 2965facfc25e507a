/* SPDX-License-Identifier: GPL-3.0-or-later */
/* 32-bit and 16-bit code: widths of addresses and stacks, segments, legacy instructions. */
#include "soft-case.h"

SNIPPET(fib_32);
SNIPPET(address_16_in_32);
SNIPPET(wrap_32);
SNIPPET(segment_32);
SNIPPET(pusha_32);
SNIPPET(stack_16_in_32);
SNIPPET(decimal);
SNIPPET(bound);
SNIPPET(loop_16);
SNIPPET(int_16);
SNIPPET(stack_16);
SNIPPET(limit_16);
SNIPPET(far_16);
SNIPPET(strings_16);

static void test_fib_32(void)
{
    struct soft_machine *machine = MACHINE_32(fib_32);

    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(reg(machine, HV_REG_RAX), 610);
    TAP_EQ(reg(machine, HV_REG_RSP), MACHINE_STACK);
    soft_machine_destroy(machine);

    /* The same with a data segment that is not flat: every access is checked. */
    machine = MACHINE_32(fib_32);
    machine->cpu.seg[HV_SEG_DS].limit = 0xffff;
    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(reg(machine, HV_REG_RAX), 610);
    soft_machine_destroy(machine);
}

static void test_addresses_32(void)
{
    struct soft_machine *machine = MACHINE_32(address_16_in_32);

    soft_machine_poke(machine, 0x2000, 4, 0xcafe1234);
    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(reg(machine, HV_REG_RAX), 0xcafe1234);
    soft_machine_destroy(machine);

    machine = MACHINE_32(wrap_32);
    soft_machine_poke(machine, 0x3000, 4, 0x76543210);
    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(reg(machine, HV_REG_RAX), 0x76543210);
    soft_machine_destroy(machine);
}

/* Base and limit of DS; the second access reaches two bytes beyond. */
static void test_segment_32(void)
{
    struct soft_machine *machine = MACHINE_32(segment_32);
    struct hv_segment data = machine->cpu.seg[HV_SEG_DS];

    data.base = 0x50000;
    data.limit = 0x1003;
    hv_segment_set(&machine->cpu, HV_SEG_DS, &data);
    soft_machine_poke(machine, 0x51000, 4, 0x11223344);
    soft_machine_poke(machine, 0x50ffe, 2, 0x5566);
    TAP_EQ(run_to_halt(machine), -1);
    TAP_EQ(reg(machine, HV_REG_RAX), 0x11223344);
    TAP_EQ(reg(machine, HV_REG_RDX), 0x33445566);
    soft_machine_destroy(machine);

    machine = MACHINE_32(segment_32);
    data.limit = 0x1002;
    hv_segment_set(&machine->cpu, HV_SEG_DS, &data);
    TAP_EQ(run_to_halt(machine), HV_VECTOR_GP);
    soft_machine_destroy(machine);

    /* Expand-down: what is above the limit is inside. */
    machine = MACHINE_32(segment_32);
    data.limit = 0xfff;
    data.attr |= HV_SEG_ATTR_EXPAND_DOWN;
    hv_segment_set(&machine->cpu, HV_SEG_DS, &data);
    TAP_EQ(run_to_halt(machine), HV_VECTOR_GP);
    TAP_EQ(soft_machine_peek(machine, reg(machine, HV_REG_RSP) + 4, 4), MACHINE_CODE + 5);
    soft_machine_destroy(machine);

    /* A segment that cannot be written, or is null. */
    machine = MACHINE_32(segment_32);
    data = machine->cpu.seg[HV_SEG_DS];
    data.attr = HV_SEG_ATTR_UNUSABLE;
    hv_segment_set(&machine->cpu, HV_SEG_DS, &data);
    TAP_EQ(run_to_halt(machine), HV_VECTOR_GP);
    soft_machine_destroy(machine);
}

static void test_code_limit_32(void)
{
    struct soft_machine *machine = MACHINE_32(fib_32);

    /* The limit cuts the first instruction, or the call inside the function. */
    machine->cpu.seg[HV_SEG_CS].limit = MACHINE_CODE + 3;
    TAP_EQ(run_to_halt(machine), HV_VECTOR_GP);
    TAP_EQ(soft_machine_peek(machine, reg(machine, HV_REG_RSP) + 4, 4), MACHINE_CODE);
    soft_machine_destroy(machine);

    machine = MACHINE_32(fib_32);
    machine->cpu.seg[HV_SEG_CS].limit = MACHINE_CODE + 20;
    TAP_EQ(run_to_halt(machine), HV_VECTOR_GP);
    TAP_EQ(soft_machine_peek(machine, reg(machine, HV_REG_RSP) + 4, 4), MACHINE_CODE + 18);
    TAP_EQ(reg(machine, HV_REG_RAX), 14);
    soft_machine_destroy(machine);
}

static void test_stack_32(void)
{
    struct soft_machine *machine = MACHINE_32(pusha_32);

    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(reg(machine, HV_REG_RAX), 1);
    TAP_EQ(reg(machine, HV_REG_RCX), 2);
    TAP_EQ(reg(machine, HV_REG_RDI), 7);
    TAP_EQ(reg(machine, HV_REG_RSP), MACHINE_STACK);
    TAP_EQ(soft_machine_peek(machine, MACHINE_STACK - 20, 4), MACHINE_STACK);
    soft_machine_destroy(machine);

    machine = MACHINE_32(stack_16_in_32);
    set_reg(machine, HV_REG_RAX, 0x11112222);
    set_reg(machine, HV_REG_RBX, 0x33334444);
    set_reg(machine, HV_REG_RBP, MACHINE_STACK - 0x400);
    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(reg(machine, HV_REG_RBX), 0x33332222);
    TAP_EQ(reg(machine, HV_REG_RSP), MACHINE_STACK);
    TAP_EQ(reg(machine, HV_REG_RBP), MACHINE_STACK - 0x400);
    soft_machine_destroy(machine);
}

static void test_legacy(void)
{
    struct soft_machine *machine = MACHINE_32(decimal);

    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(reg(machine, HV_REG_RCX), 0x47);
    TAP_EQ(reg(machine, HV_REG_RDX), 15);
    TAP_EQ(reg(machine, HV_REG_RAX), 0x0709);
    soft_machine_destroy(machine);

    machine = MACHINE_32(bound);
    set_reg(machine, HV_REG_RSI, 0x30000);
    soft_machine_poke(machine, 0x30000, 8, (UINT64_C(10) << 32) | 0xffffffff);
    TAP_EQ(run_to_halt(machine), HV_VECTOR_BR);
    TAP_EQ(reg(machine, HV_REG_RAX), 100);
    soft_machine_destroy(machine);
}

static void test_real(void)
{
    struct soft_machine *machine = MACHINE_16(loop_16);

    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(reg(machine, HV_REG_RAX), 300);
    TAP_EQ(reg(machine, HV_REG_RCX), 0);
    soft_machine_destroy(machine);

    machine = MACHINE_16(int_16);
    TAP_EQ(run_to_halt(machine), 0x21);
    TAP_EQ(reg(machine, HV_REG_RAX), 0x1234);
    TAP_EQ(soft_machine_peek(machine, reg(machine, HV_REG_RSP), 2), 5);
    TAP_EQ(soft_machine_peek(machine, reg(machine, HV_REG_RSP) + 2, 2), MACHINE_CODE >> 4);
    soft_machine_destroy(machine);

    machine = MACHINE_16(far_16);
    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(reg(machine, HV_REG_RAX), 5);
    TAP_EQ(reg(machine, HV_REG_RBX), 7);
    soft_machine_destroy(machine);
}

static void test_real_widths(void)
{
    struct soft_machine *machine = MACHINE_16(stack_16);

    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(reg(machine, HV_REG_RBX), 0x7fffe);
    TAP_EQ(reg(machine, HV_REG_RSP), 0x70000);
    soft_machine_destroy(machine);

    machine = MACHINE_16(limit_16);
    TAP_EQ(run_to_halt(machine), HV_VECTOR_GP);
    soft_machine_destroy(machine);

    /* SI wraps to 0 at 64 KiB. */
    machine = MACHINE_16(strings_16);
    soft_machine_poke(machine, 0xfffe, 2, 0xbbaa);
    soft_machine_poke(machine, 0, 2, 0xddcc);
    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(soft_machine_peek(machine, 0x100, 4), 0xddccbbaa);
    TAP_EQ(reg(machine, HV_REG_RSI), 2);
    soft_machine_destroy(machine);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.modes.fib_32", test_fib_32},
        {"engine.modes.addresses_32", test_addresses_32},
        {"engine.modes.segment_32", test_segment_32},
        {"engine.modes.code_limit_32", test_code_limit_32},
        {"engine.modes.stack_32", test_stack_32},
        {"engine.modes.legacy", test_legacy},
        {"engine.modes.real", test_real},
        {"engine.modes.real_widths", test_real_widths},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
