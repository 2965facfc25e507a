/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the tests of the interpreter share: one machine a case, snippets of guest code. */
#pragma once

#include "engine/soft-machine.h"
#include "engine/soft/soft.h"

#include "cpu/segment.h"
#include "lib/tap.h"

#include <stdlib.h>
#include <string.h>

/** Declare a snippet of soft-snippets.S. */
#define SNIPPET(name) extern const uint8_t snippet_##name[], snippet_##name##_end[]

/** Put a snippet at @gpa. */
#define LOAD_SNIPPET(machine, name, gpa)             \
    soft_machine_write(machine, gpa, snippet_##name, \
                       (size_t)(snippet_##name##_end - snippet_##name))

/** A machine in 64-bit mode with a snippet at MACHINE_CODE. */
#define MACHINE_64(name) case_machine(soft_machine_set_64, snippet_##name, snippet_##name##_end)
#define MACHINE_32(name) case_machine(soft_machine_set_32, snippet_##name, snippet_##name##_end)
#define MACHINE_16(name) case_machine(soft_machine_set_16, snippet_##name, snippet_##name##_end)

#define CASE_MEMORY      (32 * HV_MIB)

static inline struct soft_machine *case_machine(void (*set)(struct soft_machine *machine),
                                                const uint8_t *start, const uint8_t *end)
{
    struct soft_machine *machine = soft_machine_create(CASE_MEMORY);

    set(machine);
    soft_machine_write(machine, MACHINE_CODE, start, (size_t)(end - start));
    return machine;
}

static inline uint64_t reg(const struct soft_machine *machine, enum hv_reg number)
{
    return machine->cpu.slot[number];
}

static inline void set_reg(struct soft_machine *machine, enum hv_reg number, uint64_t value)
{
    machine->cpu.slot[number] = value;
}

/** Straight-line code at @gpa: @insns times INC of a register that needs no prefix, and HLT. */
static inline void write_incs(struct soft_machine *machine, uint64_t gpa, unsigned insns,
                              enum hv_reg number)
{
    uint8_t *code = malloc(2 * (size_t)insns + 1);

    for (unsigned i = 0; i < insns; i++) {
        code[2 * i] = 0xff;
        code[2 * i + 1] = (uint8_t)(0xc0 | number);
    }
    code[2 * insns] = 0xf4;
    soft_machine_write(machine, gpa, code, 2 * (size_t)insns + 1);
    free(code);
}

/** Start again at @rip after a HLT. */
static inline void restart(struct soft_machine *machine, uint64_t rip)
{
    machine->cpu.rip = rip;
    machine->cpu.activity = HV_ACTIVITY_RUNNING;
}

/** Run to a HLT. Returns the vector whose handler it is, -1 when it is none's; -2: no HLT came. */
static inline int run_to_halt(struct soft_machine *machine)
{
    return soft_machine_run(machine, 0).kind == HV_EXIT_HLT ? soft_machine_exception(machine) : -2;
}

/** 64-bit mode: RIP in the last exception's frame; @with_error when a code stands before it. */
static inline uint64_t frame_rip(struct soft_machine *machine, bool with_error)
{
    return soft_machine_peek(machine, reg(machine, HV_REG_RSP) + (with_error ? 8 : 0), 8);
}

static inline uint64_t frame_rflags(struct soft_machine *machine, bool with_error)
{
    return soft_machine_peek(machine, reg(machine, HV_REG_RSP) + (with_error ? 24 : 16), 8);
}

static inline uint64_t frame_rsp(struct soft_machine *machine, bool with_error)
{
    return soft_machine_peek(machine, reg(machine, HV_REG_RSP) + (with_error ? 32 : 24), 8);
}

/** 64-bit mode: make a 4 KiB page of the first 2 MiB (not) present, writable, executable. */
enum page_right { PAGE_NONE = 0, PAGE_READ = 1, PAGE_WRITE = 3 };

static inline void set_page(struct soft_machine *machine, uint64_t page, uint64_t frame,
                            uint64_t bits)
{
    const uint64_t table = 0x6000;

    if (!(soft_machine_peek(machine, 0x3000, 8) & 0x80)) {
        soft_machine_poke(machine, table + page / HV_PAGE_SIZE * 8, 8, frame | bits);
        return;
    }
    for (uint64_t i = 0; i < 512; i++) {
        soft_machine_poke(machine, table + 8 * i, 8, i * HV_PAGE_SIZE | PAGE_WRITE);
    }
    soft_machine_poke(machine, table + page / HV_PAGE_SIZE * 8, 8, frame | bits);
    soft_machine_poke(machine, 0x3000, 8, table | PAGE_WRITE);
    hv_engine_soft.state_changed(machine->vcpu);
}
