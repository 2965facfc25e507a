/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A guest's CPL 3 with two mappings, and the ways of a state into and out of it. */
#include "engine/isa-guest.h"

#include "engine/soft-machine.h"
#include "engine/soft/soft.h"

#include "cpu/segment.h"

#include <stdlib.h>
#include <string.h>

/* Guest memory beyond what soft-machine.h has. */
#define RAM_BYTES      (UINT64_C(2) << 20)
#define TABLES         0x40000u
#define CODE_FRAMES    0x60000u
#define SANDBOX_FRAMES 0x70000u
#define PML4           0x1000u
#define PDPT           0x2000u
#define IO_MAP_BASE    0x4866u /* of the TSS */
#define USER           7u      /* present, writable, user */

/* Offsets in the extended state (SDM 1 10.5.1, 13.4). */
#define X_FCW          0u
#define X_FSW          2u
#define X_FTW          4u
#define X_MXCSR        24u
#define X_ST           32u
#define X_XMM          160u
#define X_HEADER       512u
#define X_COMPONENTS   7u

#define INSNS_MAX      100000u

struct isa_guest {
    struct soft_machine *machine;
    uint64_t tables; /* where the next page table goes */
    struct hv_cpu fresh;
};

/* The entry of @table for @address, made to point to a table when it is empty. */
static uint64_t descend(struct isa_guest *guest, uint64_t table, uint64_t address, unsigned shift)
{
    uint64_t entry = table + 8 * (address >> shift & 511);
    uint64_t next = soft_machine_peek(guest->machine, entry, 8);

    if (!next) {
        next = guest->tables | USER;
        guest->tables += HV_PAGE_SIZE;
        soft_machine_poke(guest->machine, entry, 8, next);
    }
    return next & HV_PAGE_MASK;
}

static void map(struct isa_guest *guest, uint64_t address, uint64_t frames, unsigned bytes)
{
    for (uint64_t at = 0; at < bytes; at += HV_PAGE_SIZE) {
        uint64_t table = descend(guest, PML4, address + at, 39);

        table = descend(guest, table, address + at, 30);
        table = descend(guest, table, address + at, 21);
        soft_machine_poke(guest->machine, table + 8 * ((address + at) >> 12 & 511), 8,
                          (frames + at) | USER);
    }
}

static void set_cpl_3(struct hv_cpu *cpu)
{
    for (unsigned s = 0; s < HV_SEG_COUNT; s++) {
        struct hv_segment segment = cpu->seg[s];

        segment.selector = s == HV_SEG_CS ? 0x3b : s >= HV_SEG_FS ? 0 : 0x33;
        segment.attr |= 3u << HV_SEG_ATTR_DPL_SHIFT;
        segment.base = s == HV_SEG_GS ? ISA_GS_BASE : segment.base;
        hv_segment_set(cpu, (enum hv_seg)s, &segment);
    }
    cpu->cpl = 3;
    cpu->cr4 |= HV_CR4_OSXSAVE;
    cpu->xcr0 = X_COMPONENTS;
}

struct isa_guest *isa_guest_create(uint64_t code, uint64_t sandbox)
{
    struct isa_guest *guest = aligned_alloc(64, sizeof(*guest));
    struct soft_machine *machine = soft_machine_create(RAM_BYTES);

    if (!guest) {
        abort();
    }
    memset(guest, 0, sizeof(*guest));
    guest->machine = machine;
    guest->tables = TABLES;
    soft_machine_set_64(machine);
    map(guest, code, CODE_FRAMES, ISA_CODE_BYTES);
    map(guest, code + ISA_ALIAS, CODE_FRAMES, ISA_CODE_BYTES);
    map(guest, sandbox, SANDBOX_FRAMES, ISA_SANDBOX_BYTES);
    map(guest, sandbox + ISA_ALIAS, SANDBOX_FRAMES, ISA_SANDBOX_BYTES);
    soft_machine_poke(machine, IO_MAP_BASE, 2, 0x68); /* none */
    set_cpl_3(&machine->cpu);
    guest->fresh = machine->cpu;
    hv_engine_soft.state_changed(machine->vcpu);
    return guest;
}

void isa_guest_destroy(struct isa_guest *guest)
{
    if (!guest) {
        return;
    }
    soft_machine_destroy(guest->machine);
    free(guest);
}

struct hv_cpu_policy *isa_guest_policy(struct isa_guest *guest)
{
    return &guest->machine->policy;
}

struct hv_engine_vcpu *isa_guest_vcpu(struct isa_guest *guest)
{
    return guest->machine->vcpu;
}

static void put_state(struct hv_cpu *cpu, const struct isa_state *state)
{
    uint8_t *x = cpu->x.bytes;

    memcpy(cpu->slot, state->gpr, sizeof(state->gpr));
    cpu->rip = state->rip;
    hv_cpu_set_rflags(cpu, state->rflags | HV_RFLAGS_IF | 2);
    memcpy(x + X_FCW, &state->fcw, 2);
    memcpy(x + X_FSW, &state->fsw, 2);
    x[X_FTW] = state->ftw;
    memcpy(x + X_MXCSR, &state->mxcsr, 4);
    memcpy(x + X_ST, state->st, sizeof(state->st));
    for (unsigned i = 0; i < 16; i++) {
        memcpy(x + X_XMM + (size_t)16 * i, state->ymm[i], 16);
        memcpy(x + HV_XSTATE_AVX_OFFSET + (size_t)16 * i, state->ymm[i] + 16, 16);
    }
    hv_store_le(x + X_HEADER, X_COMPONENTS, 8);
}

static void get_vectors(const struct hv_cpu *cpu, struct isa_state *state)
{
    const uint8_t *x = cpu->x.bytes;

    memcpy(&state->fcw, x + X_FCW, 2);
    memcpy(&state->fsw, x + X_FSW, 2);
    state->ftw = x[X_FTW];
    memcpy(&state->mxcsr, x + X_MXCSR, 4);
    memcpy(state->st, x + X_ST, sizeof(state->st));
    for (unsigned i = 0; i < 16; i++) {
        memcpy(state->ymm[i], x + X_XMM + (size_t)16 * i, 16);
        memcpy(state->ymm[i] + 16, x + HV_XSTATE_AVX_OFFSET + (size_t)16 * i, 16);
    }
}

/* What the exception's frame says of the interrupted code (SDM 3A 6.14.2). */
static struct isa_outcome get_outcome(struct isa_guest *guest, struct isa_state *state)
{
    const struct soft_machine *machine = guest->machine;
    int vector = soft_machine_exception(machine);
    struct isa_outcome outcome = {.vector = (uint8_t)vector};
    uint64_t frame[6];
    bool has_error = vector == HV_VECTOR_DF || vector == HV_VECTOR_AC ||
                     (vector >= HV_VECTOR_TS && vector <= HV_VECTOR_PF);

    memcpy(state->gpr, machine->cpu.slot, sizeof(state->gpr));
    if (vector < 0) {
        return (struct isa_outcome){.vector = ISA_GUEST_LOST};
    }
    soft_machine_read(guest->machine, state->gpr[HV_REG_RSP], frame, sizeof(frame));
    if (has_error) {
        outcome.error = (uint32_t)frame[0];
        memmove(frame, &frame[1], 5 * sizeof(frame[0]));
    }
    if (vector == HV_VECTOR_PF) {
        outcome.address = machine->cpu.cr2;
    }
    state->rip = frame[0];
    state->rflags = frame[2] & (HV_RFLAGS_ARITH | HV_RFLAGS_DF);
    state->gpr[HV_REG_RSP] = frame[3];
    if (vector == HV_VECTOR_BP) {
        outcome.vector = ISA_VECTOR_NONE;
        state->rip--;
    }
    return outcome;
}

struct isa_outcome isa_guest_run(struct isa_guest *guest, const uint8_t *code, uint8_t *sandbox,
                                 struct isa_state *state)
{
    struct soft_machine *machine = guest->machine;
    struct isa_outcome outcome = {.vector = ISA_GUEST_LOST};
    struct hv_exit exit;

    machine->cpu = guest->fresh;
    put_state(&machine->cpu, state);
    soft_machine_write(machine, CODE_FRAMES, code, ISA_CODE_BYTES);
    soft_machine_write(machine, SANDBOX_FRAMES, sandbox, ISA_SANDBOX_BYTES);
    exit = soft_machine_run(machine, INSNS_MAX);
    get_vectors(&machine->cpu, state);
    if (exit.kind == HV_EXIT_HLT) {
        outcome = get_outcome(guest, state);
    }
    soft_machine_read(machine, SANDBOX_FRAMES, sandbox, ISA_SANDBOX_BYTES);
    return outcome;
}
