/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A machine of one vCPU around the software engine, for tests and benches: RAM from 0, identity
 * mapped, flat segments, and an IDT whose every handler halts, so that a test sees the exception by
 * where the machine stands.
 *
 *     0x1000  page tables (4-level, identity over the first GiB)      0x5000  IDT
 *     0x4000  GDT and TSS                                             0x8000  handlers
 *     0x10000 the stack ends here                                     0x20000 code and data of tests
 */
#pragma once

#include "base/clock.h"
#include "engine/ops.h"
#include "sync/doorbell.h"

#include "cpu/policy.h"

#define MACHINE_HANDLERS 0x8000u
#define MACHINE_STACK    0x10000u
#define MACHINE_CODE     0x20000u

/* One access that a device saw. */
struct soft_machine_io {
    bool port, write;
    uint64_t address, value;
    unsigned bytes;
};

struct soft_machine {
    struct hv_arena *arena;
    struct hv_memory memory;
    struct hv_engine_domain *domain;
    struct hv_clock clock;
    struct hv_cpu_policy policy;
    struct hv_cpu cpu;
    struct hv_doorbell bell;
    struct hv_holder holder;
    struct hv_engine_vcpu *vcpu;
    /* What the last port or device access was; reads give `io_value`. */
    uint64_t io_address;
    unsigned io_bytes;
    uint64_t io_value;
    uint64_t io_step; /* added to io_value by each access */
    unsigned io_accesses;
    struct soft_machine_io io[300]; /* the first of them */
    unsigned io_again;              /* answer -EAGAIN this many times */
    bool io_late; /* answer each access only when it is asked for the second time */
    bool io_asked;
    unsigned io_rings; /* which access rings the vCPU's bell; 0: none */
    /* The interrupt that is pending: a vector, or -1. */
    int interrupt;
};

/** RAM of @bytes, a multiple of 2 MiB and at most 1 GiB. Ends the test program on failure. */
struct soft_machine *soft_machine_create(uint64_t bytes);
void soft_machine_destroy(struct soft_machine *machine);

/** Registers for 64-bit code in CPL 0 at MACHINE_CODE, tables as above, all else as after reset. */
void soft_machine_set_64(struct soft_machine *machine);
/** 32-bit protected mode, paging off, flat segments; real mode with CS:IP = 0:MACHINE_CODE >> 0. */
void soft_machine_set_32(struct soft_machine *machine);
void soft_machine_set_16(struct soft_machine *machine);

void soft_machine_write(struct soft_machine *machine, uint64_t gpa, const void *from, size_t bytes);
void soft_machine_read(struct soft_machine *machine, uint64_t gpa, void *to, size_t bytes);
uint64_t soft_machine_peek(struct soft_machine *machine, uint64_t gpa, unsigned bytes);
void soft_machine_poke(struct soft_machine *machine, uint64_t gpa, unsigned bytes, uint64_t value);

/* Another vCPU of the machine, with the first one's devices and the state of its own. */
struct soft_machine_cpu {
    struct hv_cpu cpu;
    struct hv_doorbell bell;
    struct hv_holder holder;
    struct hv_engine_vcpu *vcpu;
};

/** Add vCPU @index (1 and up), its registers a copy of the first one's as they are now. */
struct soft_machine_cpu *soft_machine_add_cpu(struct soft_machine *machine, unsigned index);
void soft_machine_remove_cpu(struct soft_machine_cpu *added);
/** As soft_machine_run(), for an added one: on a thread of its own. */
struct hv_exit soft_machine_run_cpu(struct soft_machine_cpu *added, uint64_t insns);

/** Run until an exit other than a served doorbell, at most @insns instructions. */
struct hv_exit soft_machine_run(struct soft_machine *machine, uint64_t insns);

/** The exception whose handler the machine has halted in, or -1. */
int soft_machine_exception(const struct soft_machine *machine);
