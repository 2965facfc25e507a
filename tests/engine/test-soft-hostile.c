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

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.hostile.unpopulated-code", test_unpopulated_code},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
