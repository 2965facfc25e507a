/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One ring-3 instruction on the silicon beneath: the oracle of the decoder's table and of the
 * interpreter.
 *
 *     isa_host_run --int3--> handler: guest state into the signal frame --sigreturn--> instruction
 *     instruction --int3 behind it, or its fault--> handler: state out of the frame --> isa_host_run
 *
 * All sixteen general registers, RSP too, the arithmetic flags and DF, x87, MMX, XMM and YMM are the
 * instruction's, and GS has a base. Its code, anywhere in two pages of breakpoints, and the sandbox,
 * two pages between pages that fault, lie below 2 GiB, so that absolute and 32-bit addresses reach
 * them, and once more far above, so that all 64 bits of an address matter. 64-bit mode only. A branch
 * may go to any breakpoint. Not for instructions that leave the process (syscalls) or change segment
 * bases: those are the caller's to exclude.
 */
#pragma once

#include "base/bits.h"

#include <hv/types.h>

#define ISA_SANDBOX_BYTES (2 * HV_PAGE_SIZE)
#define ISA_CODE_BYTES    (2 * HV_PAGE_SIZE)
/* Where both are a second time: this bit of an address is set. */
#define ISA_ALIAS         HV_BIT(45)
/* Offsets of 32 bits reach the upper ones by it, and not the lower. */
#define ISA_GS_BASE       (ISA_ALIAS + 0x10123450)
/* A breakpoint: what all code is that nothing was written over. */
#define ISA_TRAP          0xcc

/* What an instruction may read and write beside memory. */
struct isa_state {
    uint64_t gpr[16];
    uint64_t rip;
    uint64_t rflags; /* arithmetic flags and DF; the others are the host's */
    uint32_t mxcsr;
    uint16_t fcw, fsw;
    uint8_t ftw; /* abridged: bit n is set when register n is not empty (SDM 1 10.5.1) */
    uint8_t st[8][16];
    uint8_t ymm[16][32];
};

/* How it ended. */
struct isa_outcome {
    uint8_t vector;   /* exception, or ISA_VECTOR_NONE */
    uint32_t error;   /* its error code, or 0 */
    uint64_t address; /* that faulted, for #PF */
};

#define ISA_VECTOR_NONE 0xff

/** The lower one of an address in the code area or the sandbox. */
static inline uint64_t isa_unalias(uint64_t address)
{
    return address & ~ISA_ALIAS;
}

struct isa_host;

/**
 * Take the signals and map code and sandbox. One at a time in a process, one thread.
 *
 * Returns NULL when the host cannot do it (no AVX state in signal frames).
 */
struct isa_host *isa_host_create(void);
void isa_host_destroy(struct isa_host *host);

/** Address of the code area, page-aligned. */
uint64_t isa_host_code(const struct isa_host *host);

/** Make all of the code area breakpoints. */
void isa_host_clear(struct isa_host *host);

/** Two writable pages, page-aligned, inaccessible pages on both sides. Lasts as long as @host. */
uint8_t *isa_host_sandbox(struct isa_host *host);

/**
 * Put @length bytes of one instruction at state->rip, in the code area, and run it.
 *
 * @state  in and out; rip is that of the next instruction, or of the faulting one.
 */
struct isa_outcome isa_host_run(struct isa_host *host, const uint8_t *bytes, size_t length,
                                struct isa_state *state);
