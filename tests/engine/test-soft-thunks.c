/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A guest that uses up its domain's thunks: straight code of more different instructions than there
 * may be thunks, so that all of them are given up on the way, and again at each further pass.
 *
 * The code is shuffles of XMM registers, whose result is worked out here besides.
 */
#include "engine/soft-machine.h"
#include "engine/soft/soft.h"

#include "base/bits.h"
#include "cpu/state.h"
#include "lib/tap.h"
#include "lib/threads.h"

#include <string.h>

#define RAM_BYTES  (UINT64_C(4) << 20)
/* More than a domain may have thunks: 65536. */
#define SHUFFLES   80000u
#define INSN_BYTES 6u
#define CODE_BYTES (SHUFFLES * INSN_BYTES)
#define CODE_END   (MACHINE_CODE + CODE_BYTES)
#define XMM        160u
#define PASSES     2u

struct vectors {
    uint32_t lane[16][4];
};

/* The second vCPU of the domain. */
struct second {
    struct hv_cpu cpu;
    struct hv_doorbell bell;
    struct hv_holder holder;
    struct hv_engine_vcpu *vcpu;
    struct hv_exit exit;
};

/* Shuffle number @i: PSHUFD, or SHUFPS with a REX that does nothing, of registers and order by @i. */
static void encode(unsigned i, uint8_t bytes[INSN_BYTES])
{
    unsigned reg = i >> 8 & 15, rm = i >> 12 & 15;
    bool shufps = i >> 16 & 1;
    const uint8_t code[INSN_BYTES] = {shufps ? 0x90 : 0x66, /* NOP: all are of one length */
                                      (uint8_t)(0x40 | (reg >> 3) << 2 | rm >> 3),
                                      0x0f,
                                      shufps ? 0xc6 : 0x70,
                                      (uint8_t)(0xc0 | (reg & 7) << 3 | (rm & 7)),
                                      (uint8_t)i};

    memcpy(bytes, code, sizeof(code));
}

static void shuffle(struct vectors *vectors, unsigned i)
{
    unsigned reg = i >> 8 & 15, rm = i >> 12 & 15;
    uint32_t low[4], high[4], result[4];

    memcpy(high, vectors->lane[rm], sizeof(high));
    memcpy(low, vectors->lane[i >> 16 & 1 ? reg : rm], sizeof(low));
    for (unsigned k = 0; k < 4; k++) {
        result[k] = (k < 2 ? low : high)[i >> (2 * k) & 3];
    }
    memcpy(vectors->lane[reg], result, sizeof(result));
}

static struct soft_machine *machine_with_code(struct vectors *start)
{
    static uint8_t code[CODE_BYTES];
    struct soft_machine *machine = soft_machine_create(RAM_BYTES);

    for (unsigned i = 0; i < SHUFFLES; i++) {
        encode(i, &code[i * INSN_BYTES]);
    }
    soft_machine_write(machine, MACHINE_CODE, code, sizeof(code));
    soft_machine_poke(machine, CODE_END, 1, 0xf4);
    soft_machine_set_64(machine);
    for (unsigned i = 0; i < 16; i++) {
        for (unsigned k = 0; k < 4; k++) {
            start->lane[i][k] = (uint32_t)tap_rng();
        }
    }
    memcpy(&machine->cpu.x.bytes[XMM], start, sizeof(*start));
    return machine;
}

/* Nothing is lost by the renewal, and the same code can be had again after it. */
static void test_renews(void)
{
    struct vectors want, got;
    struct soft_machine *machine = machine_with_code(&want);
    struct hv_exit exit = {0};

    for (unsigned pass = 0; pass < PASSES; pass++) {
        machine->cpu.rip = MACHINE_CODE;
        machine->cpu.activity = HV_ACTIVITY_RUNNING;
        exit = soft_machine_run(machine, 0);
        for (unsigned i = 0; i < SHUFFLES; i++) {
            shuffle(&want, i);
        }
    }
    memcpy(&got, &machine->cpu.x.bytes[XMM], sizeof(got));
    TAP_EQ(exit.kind, HV_EXIT_HLT);
    TAP_EQ(machine->cpu.rip, CODE_END + 1);
    TAP_EQ(memcmp(&got, &want, sizeof(want)), 0);
    soft_machine_destroy(machine);
}

static int second_create(struct soft_machine *machine, struct second *second)
{
    struct hv_engine_vcpu_config config = {
        .index = 1,
        .cpu = &second->cpu,
        .memory = &machine->memory,
        .bell = &second->bell,
        .holder = &second->holder,
        .clock = &machine->clock,
    };

    second->cpu = machine->cpu;
    hv_doorbell_init(&second->bell);
    hv_holder_init(&second->holder, &second->bell, "second", 1);
    hv_memory_add_holder(&machine->memory, 1, &second->holder);
    return hv_engine_soft.vcpu_create(machine->domain, &config, &second->vcpu);
}

struct pair {
    struct soft_machine *machine;
    struct second *second;
};

static void run_one(unsigned index, void *context)
{
    struct pair *pair = context;
    struct second *second = pair->second;

    if (index == 0) {
        (void)soft_machine_run(pair->machine, 0);
        return;
    }
    do {
        hv_engine_soft.serve(second->vcpu, hv_doorbell_take(&second->bell));
        hv_doorbell_acknowledge(&second->bell);
        hv_engine_run(&hv_engine_soft, second->vcpu, HV_NS_NEVER, 0, &second->exit);
    } while (second->exit.kind == HV_EXIT_PREEMPT);
}

/* Two that run it at once, the second one from the middle on: either may find that there are no
 * more while the other makes, or runs, blocks of them. */
static void test_renews_for_all(void)
{
    static struct second second;
    struct vectors want, other, got;
    struct soft_machine *machine = machine_with_code(&want);
    struct pair pair = {machine, &second};

    other = want;
    TAP_EQ(second_create(machine, &second), 0);
    second.cpu.rip = MACHINE_CODE + CODE_BYTES / 2;
    threads_run(2, run_one, &pair);
    for (unsigned i = 0; i < SHUFFLES; i++) {
        shuffle(&want, i);
        if (i >= SHUFFLES / 2) {
            shuffle(&other, i);
        }
    }
    memcpy(&got, &machine->cpu.x.bytes[XMM], sizeof(got));
    TAP_EQ(machine->cpu.rip, CODE_END + 1);
    TAP_EQ(memcmp(&got, &want, sizeof(want)), 0);
    memcpy(&got, &second.cpu.x.bytes[XMM], sizeof(got));
    TAP_EQ(second.exit.kind, HV_EXIT_HLT);
    TAP_EQ(second.cpu.rip, CODE_END + 1);
    TAP_EQ(memcmp(&got, &other, sizeof(other)), 0);
    hv_engine_soft.vcpu_destroy(second.vcpu);
    soft_machine_destroy(machine);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.soft-thunks.renews", test_renews},
        {"engine.soft-thunks.renews-for-all", test_renews_for_all},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
