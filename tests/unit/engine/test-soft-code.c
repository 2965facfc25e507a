/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Code that changes under the block cache, crosses pages, or is more than the cache holds. */
#include "soft-case.h"

#include "engine/soft/code.h"
#include "engine/soft/vcpu.h"

SNIPPET(patch_ahead);
SNIPPET(patch_loop);
SNIPPET(patch_function);
SNIPPET(function_1);
SNIPPET(data_beside);
SNIPPET(count_to_1000);

static uint64_t invalidations(const struct soft_machine *machine)
{
    return hv_load_relaxed(&hv_engine_soft.counters(machine->vcpu)->block_invalidations);
}

static void test_patch_ahead(void)
{
    struct soft_machine *machine = MACHINE_64(patch_ahead);

    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(reg(machine, HV_REG_RAX), 0x42);
    TAP_EQ(invalidations(machine), 1);
    soft_machine_destroy(machine);
}

/* 1 + 2 + … + 100, modulo 256; more changes than a page stays cached for. */
static void test_patch_loop(void)
{
    struct soft_machine *machine = MACHINE_64(patch_loop);

    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(reg(machine, HV_REG_RAX), 5050 & 0xff);
    TAP_EQ(reg(machine, HV_REG_RCX), 100);
    TAP_OK(invalidations(machine) < 100);
    soft_machine_destroy(machine);
}

static void test_patch_function(void)
{
    struct soft_machine *machine = MACHINE_64(patch_function);

    LOAD_SNIPPET(machine, function_1, 0x30ff0);
    set_reg(machine, HV_REG_RBX, 0x30ff0);
    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(reg(machine, HV_REG_R8), 1);
    TAP_EQ(reg(machine, HV_REG_RAX), 9);
    soft_machine_destroy(machine);
}

/* Wherever the function crosses its page's end, and whichever half is patched. */
static void test_patch_crossing(void)
{
    for (uint64_t at = 0x30ff8; at < 0x31000; at++) {
        struct soft_machine *machine = MACHINE_64(patch_function);

        LOAD_SNIPPET(machine, function_1, at);
        set_reg(machine, HV_REG_RBX, at);
        TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
        TAP_EQ(reg(machine, HV_REG_R8), 1);
        TAP_EQ(reg(machine, HV_REG_RAX), 9);
        soft_machine_destroy(machine);
    }
}

static void test_data_beside(void)
{
    struct soft_machine *machine = MACHINE_64(data_beside);

    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(reg(machine, HV_REG_RAX), 500500);
    TAP_EQ(invalidations(machine), 0);
    soft_machine_destroy(machine);
}

/* A copy from outside (a device, the builder) changes code that has been run. */
static void test_foreign_patch(void)
{
    struct soft_machine *machine = MACHINE_64(count_to_1000);

    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(reg(machine, HV_REG_RAX), 1000);
    restart(machine, MACHINE_CODE);
    soft_machine_poke(machine, MACHINE_CODE + 5, 4, 77);
    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(reg(machine, HV_REG_RAX), 77);
    soft_machine_destroy(machine);
}

/* mov eax, imm32 across two pages; the guest then maps another second page. */
static void test_remapped_second_page(void)
{
    static const uint8_t first[] = {0xb8, 0x11, 0x22};
    static const uint8_t second[] = {0x33, 0x44, 0xf4};
    static const uint8_t other[] = {0x55, 0x66, 0xf4};
    struct soft_machine *machine = MACHINE_64(count_to_1000);

    soft_machine_write(machine, 0x31000 - sizeof(first), first, sizeof(first));
    soft_machine_write(machine, 0x31000, second, sizeof(second));
    soft_machine_write(machine, 0x35000, other, sizeof(other));
    for (unsigned round = 0; round < 4; round++) {
        set_page(machine, 0x31000, round & 1 ? 0x35000 : 0x31000, PAGE_READ);
        hv_engine_soft.state_changed(machine->vcpu);
        restart(machine, 0x31000 - sizeof(first));
        TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
        TAP_EQ(reg(machine, HV_REG_RAX), round & 1 ? 0x66552211 : 0x44332211);
    }
    soft_machine_destroy(machine);
}

/* mov eax, imm32 that begins at the end of a frame and goes on at its start: two pages that follow
 * one another are the same one. Whoever writes to it finds its blocks, each once. */
static void test_crossing_into_itself(void)
{
    static const uint8_t end[] = {0xb8};
    uint8_t start[] = {1, 0, 0, 0, 0xf4};
    struct soft_machine *machine = MACHINE_64(count_to_1000);

    set_page(machine, 0x31000, 0x30000, PAGE_WRITE);
    soft_machine_write(machine, 0x30fff, end, sizeof(end));
    for (unsigned round = 1; round < 8; round++) {
        start[0] = (uint8_t)round;
        soft_machine_write(machine, 0x30000, start, sizeof(start));
        for (unsigned run = 0; run < 2; run++) {
            machine->cpu.rip = 0x30fff;
            machine->cpu.activity = HV_ACTIVITY_RUNNING;
            TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
            TAP_EQ(reg(machine, HV_REG_RAX), round);
        }
    }
    soft_machine_destroy(machine);
}

/* One physical page of code at two linear addresses: RIP-relative operands follow RIP. */
static void test_two_addresses(void)
{
    static const uint8_t code[] = {0x48, 0x8d, 0x05, 0, 0, 0, 0, 0xf4}; /* lea rax, [rip]; hlt */
    struct soft_machine *machine = MACHINE_64(count_to_1000);

    soft_machine_write(machine, 0x40000, code, sizeof(code));
    set_page(machine, 0x50000, 0x40000, PAGE_READ);
    for (unsigned round = 0; round < 3; round++) {
        uint64_t rip = round & 1 ? 0x50000 : 0x40000;

        restart(machine, rip);
        TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
        TAP_EQ(reg(machine, HV_REG_RAX), rip + 7);
    }
    soft_machine_destroy(machine);
}

/* Straight-line code of which the blocks take more than the cache has. */
static void test_recycling(void)
{
    const unsigned insns = 600000, start = 0x100000;
    struct soft_machine *machine = MACHINE_64(count_to_1000);

    write_incs(machine, start, insns, HV_REG_RAX);
    for (unsigned round = 0; round < 2; round++) {
        restart(machine, start);
        set_reg(machine, HV_REG_RAX, 0);
        TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
        TAP_EQ(reg(machine, HV_REG_RAX), insns);
        TAP_OK(soft_code_bytes(machine->domain->code) <= 16 * HV_MIB);
    }
    soft_machine_destroy(machine);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.code.patch_ahead", test_patch_ahead},
        {"engine.code.patch_loop", test_patch_loop},
        {"engine.code.patch_function", test_patch_function},
        {"engine.code.patch_crossing", test_patch_crossing},
        {"engine.code.data_beside", test_data_beside},
        {"engine.code.foreign_patch", test_foreign_patch},
        {"engine.code.remapped_second_page", test_remapped_second_page},
        {"engine.code.crossing_into_itself", test_crossing_into_itself},
        {"engine.code.two_addresses", test_two_addresses},
        {"engine.code.recycling", test_recycling},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
