/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The shadow of STI and MOV SS holds until its instruction has run: also when that has to be begun
 * again because its memory was not there, and an interrupt comes meanwhile.
 */
#include "engine/soft-machine.h"

#include "lib/tap.h"

#define VECTOR 0x30
#define FAR    0x400000u /* an extent that nothing else touches */

/* The interrupt comes with the memory: while the vCPU is out of the guest to populate it. */
static bool pending_when_populated(void *context)
{
    struct soft_machine *machine = context;
    struct hv_leaf leaf = hv_p2m_lookup(&machine->memory.p2m, hv_gpa_to_gfn((hv_gpa){FAR}));

    return leaf.kind == HV_LEAF_RAM && machine->interrupt >= 0;
}

/* The interrupt is taken @length bytes behind the start of @code. */
static void check_taken(const uint8_t *code, size_t bytes, uint64_t length)
{
    struct soft_machine *machine = soft_machine_create(4 * HV_EXTENT_SIZE);
    struct hv_cpu_hooks hooks = *machine->cpu.hooks;
    struct hv_exit exit;

    hooks.interrupt_pending = pending_when_populated;
    machine->cpu.hooks = &hooks;
    soft_machine_set_64(machine);
    soft_machine_write(machine, MACHINE_CODE, code, bytes);
    machine->cpu.slot[HV_REG_RAX] = 0x10;
    machine->interrupt = VECTOR;
    exit = soft_machine_run(machine, 100);
    TAP_EQ(exit.kind, HV_EXIT_HLT);
    TAP_EQ(soft_machine_exception(machine), VECTOR);
    TAP_EQ(soft_machine_peek(machine, machine->cpu.slot[HV_REG_RSP], 8), MACHINE_CODE + length);
    soft_machine_destroy(machine);
}

static void test_sti(void)
{
    static const uint8_t code[] = {
        0xfb,                                           /* sti */
        0xf6, 0x04, 0x25, 0x00, 0x00, 0x40, 0x00, 0x00, /* testb $0x0,0x400000 */
        0xf4,                                           /* hlt */
    };

    check_taken(code, sizeof(code), 9);
}

static void test_mov_ss(void)
{
    static const uint8_t code[] = {
        0xfb, 0x90,                                     /* sti; nop */
        0x8e, 0xd0,                                     /* mov %eax,%ss */
        0xf6, 0x04, 0x25, 0x00, 0x00, 0x40, 0x00, 0x00, /* testb $0x0,0x400000 */
        0xf4,                                           /* hlt */
    };

    check_taken(code, sizeof(code), 12);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.shadow.sti", test_sti},
        {"engine.shadow.mov-ss", test_mov_ss},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
