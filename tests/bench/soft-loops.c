/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How fast the interpreter is: small loops in guest instructions a second, and as a multiple of the
 * time the same code takes natively. Results of both are compared.
 *
 *     soft-loops [name …]
 */
#include "bench/loops-payload.h"
#include "engine/soft-machine.h"
#include "engine/soft/soft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GUEST_PAYLOAD 0x100000u
#define GUEST_MEMORY  0x400000u
#define MEMORY_BYTES  ((size_t)4 << 20)

extern const char __start_loops[], __stop_loops[];

static const struct loop {
    const char *name;
    loop_function *run;
    uint64_t count;
} loops[] = {
    {"alu", loop_alu, 20000000},     {"sieve", loop_sieve, 4000000}, {"sha256", loop_sha, 30000},
    {"copy", loop_copy, 30000000},   {"fib", loop_fib, 32},          {"mpi", loop_mpi, 1000000},
    {"chase", loop_chase, 10000000}, {"sort", loop_sort, 400000},
};

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static uint64_t run_guest(struct soft_machine *machine, const struct loop *loop, uint64_t *insns)
{
    static const uint8_t enter[] = {0xff, 0xd0, 0xf4}; /* call *%rax; hlt */
    const struct hv_engine_counters *counters;
    struct hv_exit exit;
    uint64_t before;

    soft_machine_set_64(machine);
    soft_machine_write(machine, MACHINE_CODE, enter, sizeof(enter));
    machine->cpu.slot[HV_REG_RAX] =
        GUEST_PAYLOAD + (uint64_t)((const char *)(uintptr_t)loop->run - __start_loops);
    machine->cpu.slot[HV_REG_RDI] = loop->count;
    machine->cpu.slot[HV_REG_RSI] = GUEST_MEMORY;
    counters = hv_engine_soft.counters(machine->vcpu);
    before = hv_load_relaxed(&counters->instructions);
    exit = soft_machine_run(machine, 0);
    if (exit.kind != HV_EXIT_HLT || soft_machine_exception(machine) >= 0) {
        fprintf(stderr, "%s: exit %d, RIP %#llx\n", loop->name, (int)exit.kind,
                (unsigned long long)machine->cpu.rip);
        exit.kind = HV_EXIT_ERROR;
    }
    *insns = hv_load_relaxed(&counters->instructions) - before;
    return machine->cpu.slot[HV_REG_RAX];
}

static bool measure(const struct loop *loop)
{
    struct soft_machine *machine = soft_machine_create(64 * HV_MIB);
    void *memory = calloc(1, MEMORY_BYTES);
    uint64_t insns, native_result, guest_result;
    double start, native, guest;

    soft_machine_write(machine, GUEST_PAYLOAD, __start_loops,
                       (size_t)(__stop_loops - __start_loops));
    start = seconds();
    native_result = loop->run(loop->count, memory);
    native = seconds() - start;
    start = seconds();
    guest_result = run_guest(machine, loop, &insns);
    guest = seconds() - start;
    printf("%-8s %8.1f MIPS  %6.1f x native  %10llu insns%s\n", loop->name,
           (double)insns / guest * 1e-6, guest / native, (unsigned long long)insns,
           native_result == guest_result ? "" : "  WRONG");
    free(memory);
    soft_machine_destroy(machine);
    return native_result == guest_result;
}

int main(int argc, char **argv)
{
    bool right = true;

    for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++) {
        bool wanted = argc < 2;

        for (int a = 1; a < argc; a++) {
            wanted |= strcmp(argv[a], loops[i].name) == 0;
        }
        if (wanted && !measure(&loops[i])) {
            right = false;
        }
    }
    return right ? 0 : 1;
}
