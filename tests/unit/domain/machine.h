/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A core and one domain of 16 MiB that runs a few bytes of 32-bit code at 1 MiB, for the tests of
 * domain/. Functions that fail the running case return false.
 */
#pragma once

#include <hv/domain.h>

#define MACHINE_BYTES  (16 * HV_MIB)
#define MACHINE_CODE   HV_MIB
#define MACHINE_TABLES 0x101000u

struct machine {
    struct hv_core *core;
    struct hv_domain *domain;
    uint8_t console[256]; /* what came out of the serial port, guarded by being read afterwards */
    size_t console_bytes;
    void (*heard)(void); /* NULL, or called with each write: on the thread of the vCPU that sends */
};

/** A core of two workers, or as many as the host has CPUs, with a paused domain of @vcpus. */
bool machine_make(struct machine *machine, unsigned vcpus);
/** The same, with more of enum hv_domain_flag. */
bool machine_make_with(struct machine *machine, unsigned vcpus, unsigned flags);
/** The same, without those parts of the paravirtual interface (enum hv_pv_part). */
bool machine_make_hiding(struct machine *machine, unsigned vcpus, unsigned pv_hidden);
/** The same, all on one worker. */
bool machine_make_on_one(struct machine *machine, unsigned vcpus);
/** The same, and directed yields do nothing. */
bool machine_make_unboosted(struct machine *machine, unsigned vcpus);
void machine_unmake(struct machine *machine);

/* A 32-bit interrupt gate to MACHINE_CODE + offset. */
struct machine_gate {
    uint8_t vector; /* at most 0x40 */
    uint32_t offset;
};

/**
 * Flat segments, and an IDT with @gates, which the guest loads by lgdt MACHINE_TABLES and lidt
 * MACHINE_TABLES + 8.
 */
bool machine_put_tables(struct machine *machine, const struct machine_gate *gates, unsigned count);

/**
 * How many frames of a core domains have, or have claimed. To be waited for: what the scrubber has in
 * its hands is counted twice at times.
 */
uint64_t machine_frames_in_use(struct hv_core *core);

/** Put @code at the entry point and set the boot registers. */
bool machine_load(struct machine *machine, const void *code, size_t bytes);

/** Load, run, and wait (a minute at most) until it is no longer running. */
bool machine_run(struct machine *machine, const void *code, size_t bytes,
                 struct hv_domain_status *status_out);
