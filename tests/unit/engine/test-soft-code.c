/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Code that changes under the block cache, crosses pages, or is more than the cache holds. */
#include "soft-case.h"

#include "engine/soft/code-private.h"
#include "engine/soft/vcpu.h"

SNIPPET(patch_ahead);
SNIPPET(patch_loop);
SNIPPET(patch_function);
SNIPPET(patch_successor);
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

static uint64_t steps(const struct soft_machine *machine)
{
    return machine->domain->code->steps;
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
    /* However many go, each is looked at twice at most. */
    TAP_OK(steps(machine) <= 2 * hv_engine_soft.counters(machine->vcpu)->blocks);
    soft_machine_destroy(machine);
}

static unsigned blocks_of(const struct soft_machine *machine, uint64_t gpa)
{
    const struct soft_page *page = *soft_page_slot(machine->domain->code, gpa / HV_PAGE_SIZE);

    return page ? page->count : 0;
}

static void run_at(struct soft_machine *machine, uint64_t rip)
{
    restart(machine, rip);
    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(machine->cpu.rip, rip + 1);
}

#define FULL 0x30000u

/* A page of HLTs, each run by itself: as many blocks as it has bytes. */
static void run_full_page(struct soft_machine *machine)
{
    uint8_t halts[HV_PAGE_SIZE];

    memset(halts, 0xf4, sizeof(halts));
    soft_machine_write(machine, FULL, halts, sizeof(halts));
    for (uint64_t at = FULL; at < FULL + HV_PAGE_SIZE; at++) {
        run_at(machine, at);
    }
}

/* Whoever wants a full page, or stores to it, is not made to look at its list for each block. */
static void test_full_page(void)
{
    struct soft_machine *machine = MACHINE_64(count_to_1000);
    struct soft_code *code = machine->domain->code;
    uint64_t before;

    run_full_page(machine);
    TAP_EQ(blocks_of(machine, FULL), HV_PAGE_SIZE);
    before = steps(machine);
    (void)soft_code_store(code, machine->vcpu, (hv_gpa){FULL + 1000}, 8);
    TAP_EQ(blocks_of(machine, FULL), HV_PAGE_SIZE - 8);
    TAP_OK(steps(machine) - before <= 2 * HV_PAGE_SIZE + 100);
    before = steps(machine);
    soft_code_revoke(code, (hv_gfn){FULL / HV_PAGE_SIZE});
    TAP_EQ(blocks_of(machine, FULL), 0);
    TAP_OK(steps(machine) - before <= 4 * HV_PAGE_SIZE);
    soft_machine_destroy(machine);
}

/* The same code in another mode: there is no room for both. */
static void test_overfull_page(void)
{
    struct soft_machine *machine = MACHINE_64(count_to_1000);
    uint64_t before;

    run_full_page(machine);
    before = steps(machine);
    machine->cpu.cr4 &= ~(uint64_t)HV_CR4_OSFXSR;
    for (uint64_t at = FULL; at < FULL + HV_PAGE_SIZE; at++) {
        run_at(machine, at);
        TAP_OK(blocks_of(machine, FULL) <= PAGE_BLOCKS);
    }
    TAP_EQ(blocks_of(machine, FULL), HV_PAGE_SIZE);
    TAP_OK(steps(machine) - before <= 4 * HV_PAGE_SIZE);
    run_at(machine, FULL);
    soft_machine_destroy(machine);
}

/* One instruction, again and again behind another second page: all in one chain of the hash. */
static void test_one_chain(void)
{
    const unsigned frames = 500;
    const uint64_t first = 0x100000;
    const uint8_t begin = 0xb8, rest[] = {1, 2, 3, 4, 0xf4};
    struct soft_machine *machine = MACHINE_64(count_to_1000);
    struct soft_code *code = machine->domain->code;
    uint64_t before;

    soft_machine_write(machine, FULL + HV_PAGE_SIZE - 1, &begin, 1);
    for (unsigned i = 0; i < frames; i++) {
        soft_machine_write(machine, first + i * HV_PAGE_SIZE, rest, sizeof(rest));
        set_page(machine, FULL + HV_PAGE_SIZE, first + i * HV_PAGE_SIZE, PAGE_WRITE);
        hv_engine_soft.state_changed(machine->vcpu);
        machine->cpu.rip = FULL + HV_PAGE_SIZE - 1;
        machine->cpu.activity = HV_ACTIVITY_RUNNING;
        TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    }
    TAP_EQ(blocks_of(machine, FULL), frames);
    /* By a second page one goes, by the first all the others. */
    before = steps(machine);
    (void)soft_code_store(code, NULL, (hv_gpa){first + 2}, 1);
    TAP_EQ(blocks_of(machine, FULL), frames - 1);
    TAP_EQ(blocks_of(machine, first), 1); /* the HLT behind */
    (void)soft_code_store(code, NULL, (hv_gpa){FULL + HV_PAGE_SIZE - 1}, 1);
    TAP_EQ(blocks_of(machine, FULL), 0);
    TAP_EQ(blocks_of(machine, first + 7 * HV_PAGE_SIZE), 1);
    TAP_OK(steps(machine) - before <= 10 * frames);
    soft_machine_destroy(machine);
}

/* Has some block of the page a link, and none one to what was taken out? */
static bool links_live(const struct soft_machine *machine, uint64_t gpa)
{
    const struct soft_page *page = *soft_page_slot(machine->domain->code, gpa / HV_PAGE_SIZE);
    unsigned links = 0;

    for (struct soft_block *block = page->blocks; block; block = block->page_next[0]) {
        for (unsigned i = 0; i < 2; i++) {
            const struct soft_uop *to = hv_load_relaxed(&soft_block_links(block)->to[i]);

            links += to ? 1 : 0;
            if (to && soft_block_of(to)->dead) {
                return false;
            }
        }
    }
    return links > 0;
}

/* A block stays whose successors are patched away, one after the other. */
static void test_links_are_undone(void)
{
    struct soft_machine *machine = MACHINE_64(patch_successor);

    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(reg(machine, HV_REG_RDX), 2 * 19 * 20);
    TAP_EQ(invalidations(machine), 19);
    TAP_OK(links_live(machine, MACHINE_CODE));
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
        {"engine.code.full_page", test_full_page},
        {"engine.code.overfull_page", test_overfull_page},
        {"engine.code.one_chain", test_one_chain},
        {"engine.code.links_are_undone", test_links_are_undone},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
