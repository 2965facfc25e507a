/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What hostile guests have found in the software engine: each case is one of their ways in. */
#include "engine/soft-machine.h"

#include "lib/tap.h"

#define RAM_BYTES (8 * HV_MIB)

/* The first instruction the run loop ever looks for lies in memory that nobody has touched. */
static void test_unpopulated_code(void)
{
    struct soft_machine *machine = soft_machine_create(RAM_BYTES);
    struct hv_exit exit;

    soft_machine_set_64(machine);
    machine->cpu.rip = 6 * HV_MIB;
    exit = soft_machine_run(machine, 64);
    TAP_EQ(exit.kind, HV_EXIT_DEADLINE);
    /* Zeros are "add %al,(%rax)", two bytes each. */
    TAP_EQ(machine->cpu.rip, 6 * HV_MIB + 128);
    soft_machine_destroy(machine);
}

/*
 * A bit string's word across two cache lines. When the host runs it locked, its bus stops for it, and
 * a host with split-lock detection makes us wait 10 ms or more each time: then this takes minutes.
 */
static void test_split_bit(void)
{
    static const uint8_t code[] = {
        0xb9, 0x88, 0x13, 0x00, 0x00, /* mov ecx, 5000 */
        0xbb, 0x3e, 0x10, 0x03, 0x00, /* mov ebx, 0x3103e: 2 bytes in each line */
        0xb8, 0x1f, 0x00, 0x00, 0x00, /* mov eax, 31 */
        0x0f, 0xab, 0x03,             /* 1: bts [rbx], eax */
        0xf0, 0x0f, 0xbb, 0x03,       /* lock btc [rbx], eax */
        0x0f, 0xb3, 0x03,             /* btr [rbx], eax */
        0x0f, 0xbb, 0x43, 0x40,       /* btc [rbx + 0x40], eax */
        0xff, 0xc9, 0x75, 0xee, 0xf4, /* dec ecx; jnz 1b; hlt */
    };
    struct soft_machine *machine = soft_machine_create(RAM_BYTES);

    soft_machine_set_64(machine);
    soft_machine_write(machine, MACHINE_CODE, code, sizeof(code));
    soft_machine_poke(machine, 0x3107e, 4, 0x80000001);
    TAP_EQ(soft_machine_run(machine, 1000000).kind, HV_EXIT_HLT);
    TAP_EQ(machine->cpu.slot[HV_REG_RCX], 0);
    TAP_EQ(soft_machine_peek(machine, 0x3103e, 4), 0);
    TAP_EQ(soft_machine_peek(machine, 0x3107e, 4), 0x80000001);
    soft_machine_destroy(machine);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.hostile.unpopulated-code", test_unpopulated_code},
        {"engine.hostile.split-bit", test_split_bit},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
