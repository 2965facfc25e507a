/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A vCPU for the tests of thunks, with a fake of access.h below it: linear memory is the test's own
 * address space, of which only the arena exists.
 *
 *     arena   RIG_PAGES readable and writable pages at RIG_BASE, then one that is not there
 *
 * A page is reached through the TLB views or (rig_slow) through the slow functions only; it can be
 * made read-only, absent, or a device whose first access leaves the engine.
 */
#pragma once

#include "engine/soft/access.h"
#include "engine/soft/thunk.h"

#define RIG_BASE  UINT64_C(0x10000000)
#define RIG_PAGES 4u
#define RIG_END   (RIG_BASE + RIG_PAGES * HV_PAGE_SIZE)

enum rig_page {
    RIG_PAGE_RW,
    RIG_PAGE_READ_ONLY,
    RIG_PAGE_ABSENT,
    RIG_PAGE_BUSY, /* -EAGAIN */
};

struct rig {
    struct hv_cpu cpu;
    struct hv_engine_vcpu vcpu;
    struct soft_thunks *thunks;
    const struct soft_thunk *thunk; /* of the last rig_decode() */
    struct soft_insn insn;
    /* The fake. */
    enum rig_page page[RIG_PAGES];
    struct soft_tlb_entry entry[SOFT_TLB_KINDS][RIG_PAGES];
    struct hv_engine_vcpu *owner;
    bool alignment_checked; /* #AC; with rig_slow() */
    uint64_t rmw_gva;
    unsigned rmw_bytes;
    bool rmw_locked;
    unsigned slow_reads, slow_writes, probes;
};

/** Protected 64-bit mode with everything enabled; x87 and MXCSR as after reset. */
void rig_init(struct rig *rig);
void rig_finish(struct rig *rig);

/** Tests that use VEX encodings need a host that has AVX2 and BMI1. */
bool rig_host_has_avx(void);

/** Print the plan of a program that cannot run here; returns main()'s status. */
int rig_skip(const char *reason);

/** Take the arena's pages out of the TLB, or put them in as far as their kind allows. */
void rig_slow(struct rig *rig);
void rig_fast(struct rig *rig);

/** Decode and compile. Returns as soft_thunk_get(), or -EINVAL when it does not decode. */
int rig_decode(struct rig *rig, enum soft_mode mode, const uint8_t *bytes, size_t available);

/** The address of the decoded instruction's memory operand, as the interpreter computes it. */
uint64_t rig_address(const struct rig *rig);

/** Decode as 64-bit code, enter the engine, run once, leave. Returns as soft_thunk_run() or as
 * soft_xstate_insn(), whichever knows the instruction. */
int rig_run(struct rig *rig, const uint8_t *bytes, size_t available);

/** The same without entering and leaving. */
int rig_step(struct rig *rig, const uint8_t *bytes, size_t available);

static inline void *rig_memory(uint64_t gva)
{
    return (void *)(uintptr_t)gva;
}

/* Bytes of an instruction, assembled by the compiler's own assembler. */
#define RIG_CODE(name, text)                   \
    extern const uint8_t name[], name##_end[]; \
    __asm__(".pushsection .rodata\n" #name ":\n" text "\n" #name "_end:\n.skip 16\n.popsection\n")
#define RIG_RUN(rig, name)  rig_run(rig, name, (size_t)(name##_end - name))
#define RIG_STEP(rig, name) rig_step(rig, name, (size_t)(name##_end - name))
