/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Two vCPUs on two threads: locked instructions, code changed by the other, a cache that is emptied
 * while the other runs in it, and writers from outside. */
#include "soft-case.h"

#include <pthread.h>
#include <stdatomic.h>

SNIPPET(count_locked);
SNIPPET(call_until_9);
SNIPPET(function_1);
SNIPPET(forever);

#define FUNCTION 0x30ff8u
#define COUNTERS 0x50000u

struct other {
    struct soft_machine_cpu *cpu;
    uint64_t insns;
    struct hv_exit exit;
    pthread_t thread;
};

static void *run_other(void *context)
{
    struct other *other = context;

    other->exit = soft_machine_run_cpu(other->cpu, other->insns);
    return NULL;
}

static void start_other(struct other *other)
{
    if (pthread_create(&other->thread, NULL, run_other, other) != 0) {
        abort();
    }
}

static void join_other(struct other *other)
{
    pthread_join(other->thread, NULL);
}

static void count_together(uint64_t place, uint64_t count)
{
    struct soft_machine *machine = MACHINE_64(count_locked);
    struct other other = {0};

    soft_machine_poke(machine, MACHINE_CODE + 1, 4, count);
    set_reg(machine, HV_REG_RSI, place);
    other.cpu = soft_machine_add_cpu(machine, 1);
    start_other(&other);
    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    join_other(&other);
    TAP_EQ(other.exit.kind, HV_EXIT_HLT);
    TAP_EQ(soft_machine_peek(machine, place, 8), 2 * count);
    TAP_EQ(soft_machine_peek(machine, place + 8, 8), 2 * count);
    TAP_EQ(soft_machine_peek(machine, place + 16, 8), 2 * count);
    TAP_EQ(soft_machine_peek(machine, place + 32, 8), 2 * count);
    soft_machine_remove_cpu(other.cpu);
    soft_machine_destroy(machine);
}

static void test_locked(void)
{
    count_together(COUNTERS, 50000);
}

/* Across cache lines, where no host takes a single instruction. */
static void test_locked_split(void)
{
    count_together(COUNTERS + 60, 500);
}

/* One calls a function until it returns 9; the other, or somebody outside, changes it. */
static void change_under(bool outside, uint64_t function)
{
    static const uint8_t store[] = {0xc6, 0x43, 0x01, 0x09, 0xf4}; /* mov byte [rbx + 1], 9; hlt */
    struct soft_machine *machine = MACHINE_64(call_until_9);
    struct other other = {0};

    LOAD_SNIPPET(machine, function_1, function);
    set_reg(machine, HV_REG_RBX, function);
    other.cpu = soft_machine_add_cpu(machine, 1);
    start_other(&other);
    if (outside) {
        soft_machine_poke(machine, function + 1, 1, 9);
    } else {
        soft_machine_write(machine, 0x60000, store, sizeof(store));
        machine->cpu.rip = 0x60000;
        TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    }
    join_other(&other);
    TAP_EQ(other.exit.kind, HV_EXIT_HLT);
    TAP_EQ(other.cpu->cpu.slot[HV_REG_RAX], 9);
    soft_machine_remove_cpu(other.cpu);
    soft_machine_destroy(machine);
}

static void test_cross_modification(void)
{
    for (unsigned i = 0; i < 20 && !tap_failed(); i++) {
        change_under(false, FUNCTION - i % 4);
    }
}

static void test_outside_modification(void)
{
    for (unsigned i = 0; i < 20 && !tap_failed(); i++) {
        change_under(true, FUNCTION + 2 + i % 8);
    }
}

/* The other's blocks are taken out and their memory used again under it. */
static void test_recycling(void)
{
    const unsigned insns = 500000, start = 0x100000;
    struct soft_machine *machine = MACHINE_64(forever);
    struct other other = {.insns = 100000};

    write_incs(machine, start, insns, HV_REG_RCX);
    other.cpu = soft_machine_add_cpu(machine, 1);
    start_other(&other);
    for (unsigned round = 0; round < 2; round++) {
        restart(machine, start);
        set_reg(machine, HV_REG_RCX, 0);
        TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
        TAP_EQ(reg(machine, HV_REG_RCX), insns);
    }
    join_other(&other);
    TAP_EQ(other.exit.kind, HV_EXIT_DEADLINE);
    TAP_EQ(other.cpu->cpu.slot[HV_REG_RAX], 50000);
    soft_machine_remove_cpu(other.cpu);
    soft_machine_destroy(machine);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.smp.locked", test_locked},
        {"engine.smp.locked_split", test_locked_split},
        {"engine.smp.cross_modification", test_cross_modification},
        {"engine.smp.outside_modification", test_outside_modification},
        {"engine.smp.recycling", test_recycling},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
