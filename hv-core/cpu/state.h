/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The architectural state of one x86-64 vCPU, in the core's own format. Engines run on it, and
 * save, migration and a change of engine read and write it; between two guest instructions all of
 * it is exact.
 *
 * Two representations are chosen for the software engine and hidden behind accessors:
 *
 *   slot[]   0..15 are RAX..R15 in the encoding's order; the rest belong to the engine: a constant
 *            zero, the segment bases, temporaries. An effective address is then always
 *            slot[base] + (slot[index] << scale) + disp + slot[segment].
 *   arith    the six arithmetic flags as LAHF and SETO leave them in AX: AH = SF ZF - AF - PF - CF,
 *            AL = OF. An instruction's flags are what the host's silicon gave for it. `rflags`
 *            keeps the others; hv_cpu_rflags() joins both.
 *
 * Threads: owned by the vCPU's thread (whoever runs it); nobody else touches it unless the vCPU is
 * paused. Source: Intel SDM vol. 3A, chapters 2 to 6.
 */
#pragma once

#include "base/bits.h"
#include "cpu/registers.h"

#include <hv/types.h>

enum hv_reg {
    HV_REG_RAX,
    HV_REG_RCX,
    HV_REG_RDX,
    HV_REG_RBX,
    HV_REG_RSP,
    HV_REG_RBP,
    HV_REG_RSI,
    HV_REG_RDI,
    HV_REG_R8,
    HV_REG_R9,
    HV_REG_R10,
    HV_REG_R11,
    HV_REG_R12,
    HV_REG_R13,
    HV_REG_R14,
    HV_REG_R15,
    HV_REG_COUNT,
};

/* Slots beyond the general registers. */
enum hv_slot {
    HV_SLOT_ZERO = HV_REG_COUNT,         /* always 0 */
    HV_SLOT_SEG_BASE,                    /* six: ES CS SS DS FS GS, in enum hv_seg's order */
    HV_SLOT_TEMP = HV_SLOT_SEG_BASE + 6, /* the engine's own */
    HV_SLOT_COUNT = 32,
};

enum hv_seg {
    HV_SEG_ES,
    HV_SEG_CS,
    HV_SEG_SS,
    HV_SEG_DS,
    HV_SEG_FS,
    HV_SEG_GS,
    HV_SEG_COUNT,
    HV_SEG_LDTR = HV_SEG_COUNT,
    HV_SEG_TR,
    HV_SEG_ALL,
};

struct hv_segment {
    uint64_t base;
    uint32_t limit; /* in bytes, granularity applied: the last valid offset */
    uint32_t attr;  /* enum hv_seg_attr */
    uint16_t selector;
};

struct hv_table_register {
    uint64_t base;
    uint16_t limit;
};

/*
 * A guest's exception, handed up as a value: a fault of the guest is never an errno of ours.
 * Every function that may find one returns 0, a negative errno (our trouble), or HV_FAULTED with
 * *fault filled.
 */
#define HV_FAULTED 1

struct hv_fault {
    uint8_t vector;
    bool has_error;
    uint32_t error;
    uint64_t cr2; /* #PF only: the linear address */
};

enum hv_activity {
    HV_ACTIVITY_RUNNING,
    HV_ACTIVITY_HALTED,    /* HLT: waits for an interrupt */
    HV_ACTIVITY_WAIT_SIPI, /* an AP after INIT */
    HV_ACTIVITY_SHUTDOWN,  /* triple fault */
};

#define HV_LATCHED_INTERRUPT 0x100u

/* Extended state: the layout XSAVE writes in standard form, x87 and SSE at their legacy places,
 * AVX's upper halves at 576. Size for XCR0 up to AVX: 832 bytes. */
#define HV_XSTATE_AVX_OFFSET 576
#define HV_XSTATE_BYTES      832

/* Components of extended state, as in XCR0 and XSTATE_BV. */
#define HV_XCR0_X87          HV_BIT(0)
#define HV_XCR0_SSE          HV_BIT(1)
#define HV_XCR0_AVX          HV_BIT(2)

struct HV_ALIGNED(64) hv_xstate {
    uint8_t bytes[HV_XSTATE_BYTES];
};

struct hv_cpu_msrs {
    uint64_t star, lstar, cstar, fmask, kernel_gs_base;
    uint64_t sysenter_cs, sysenter_esp, sysenter_eip;
    uint64_t tsc_aux, pat, misc_enable, spec_ctrl, feature_control, debugctl;
    uint64_t mtrr_def_type, mtrr_base[8], mtrr_mask[8], mtrr_fixed[11];
    uint64_t apic_base;
    int64_t tsc_offset; /* guest TSC = scaled host clock + this */
    int64_t tsc_adjust;
    uint64_t xss;
};

struct hv_cpu_policy;
struct hv_cpu_hooks;

struct HV_ALIGNED(HV_CACHE_LINE) hv_cpu {
    uint64_t slot[HV_SLOT_COUNT];
    uint64_t rip;
    uint16_t arith; /* AX after LAHF; SETO AL */
    uint8_t cpl;
    uint8_t activity; /* enum hv_activity */
    uint32_t rflags;  /* without the arithmetic flags */
    /* Interruptibility (SDM 3A 6.8.3): one instruction after STI, MOV SS, POP SS. */
    bool sti_shadow;
    bool mov_ss_shadow;
    bool nmi_blocked; /* until IRET */
    bool nmi_pending;
    /* An external interrupt acknowledged at its chip whose delivery has to be tried again:
     * HV_LATCHED_INTERRUPT | vector, or 0. */
    uint16_t latched_interrupt;
    uint64_t cr0, cr2, cr3, cr4, xcr0, efer;
    struct hv_segment seg[HV_SEG_ALL];
    struct hv_table_register gdtr, idtr;
    uint64_t dr[8];    /* 4 and 5 are unused */
    uint64_t pdpte[4]; /* PAE: loaded with CR3 (SDM 3A 4.4.1) */
    struct hv_cpu_msrs msr;
    /* An exception in the middle of its delivery (double-fault rule), or 0xff. */
    uint8_t delivering_vector;
    struct hv_xstate x;
    /* Set at creation, borrowed. */
    const struct hv_cpu_policy *policy; /* what CPUID says, which MSRs exist */
    const struct hv_cpu_hooks *hooks;
    void *hook_context;
    uint32_t apic_id;
};

/*
 * What the CPU asks of the machine around it (decisions D13: set at create, no include upward).
 * All are called on the vCPU's thread with no lock held.
 */
struct hv_cpu_hooks {
    /** Task priority, CR8 bits 3:0. */
    uint64_t (*cr8_read)(void *context);
    void (*cr8_write)(void *context, uint64_t value);
    /** An MSR of the platform (local APIC, TSC deadline, kvmclock). Returns 0, or -ENOENT when it is
     * no MSR of the platform's, or HV_FAULTED for #GP. */
    int (*msr_read)(void *context, uint32_t index, uint64_t *value_out);
    int (*msr_write)(void *context, uint32_t index, uint64_t value);
    /** The guest's time-stamp counter, tsc_offset applied. */
    uint64_t (*tsc_read)(void *context);
    /** tsc_offset was changed: what waits for a value of the counter waits for another moment.
     * May be NULL. */
    void (*tsc_changed)(void *context);
    /** True when the local APIC or the PIC has an interrupt for this vCPU (IF is not looked at). */
    bool (*interrupt_pending)(void *context);
    /** Take it: the vector, acknowledged at its chip; -1 when it has gone (spurious). */
    int (*interrupt_acknowledge)(void *context);
};

/* LAHF's image of the low byte of RFLAGS in AH, OF in AL. */
static inline uint32_t hv_arith_to_rflags(uint16_t arith)
{
    return ((uint32_t)(arith >> 8) & (HV_RFLAGS_ARITH & 0xff)) |
           ((arith & 1u) ? (uint32_t)HV_RFLAGS_OF : 0u);
}

static inline uint16_t hv_arith_from_rflags(uint64_t rflags)
{
    return (uint16_t)(((rflags & (HV_RFLAGS_ARITH & 0xff)) << 8) | 0x200u |
                      ((rflags & HV_RFLAGS_OF) ? 1u : 0u));
}

/** RFLAGS whole. */
static inline uint64_t hv_cpu_rflags(const struct hv_cpu *cpu)
{
    return (cpu->rflags & ~(uint32_t)HV_RFLAGS_ARITH) | HV_RFLAGS_FIXED |
           hv_arith_to_rflags(cpu->arith);
}

/** Set RFLAGS whole; reserved bits are cleared, bit 1 set. No privilege is checked. */
static inline void hv_cpu_set_rflags(struct hv_cpu *cpu, uint64_t rflags)
{
    cpu->rflags = (uint32_t)(rflags & HV_RFLAGS_ALL & ~(uint64_t)HV_RFLAGS_ARITH) | HV_RFLAGS_FIXED;
    cpu->arith = hv_arith_from_rflags(rflags);
}

static inline bool hv_cpu_long_mode(const struct hv_cpu *cpu)
{
    return cpu->efer & HV_EFER_LMA;
}

static inline bool hv_cpu_code64(const struct hv_cpu *cpu)
{
    return hv_cpu_long_mode(cpu) && (cpu->seg[HV_SEG_CS].attr & HV_SEG_ATTR_L);
}

static inline bool hv_cpu_protected(const struct hv_cpu *cpu)
{
    return cpu->cr0 & HV_CR0_PE;
}

static inline bool hv_cpu_v86(const struct hv_cpu *cpu)
{
    return cpu->rflags & HV_RFLAGS_VM;
}

/** Canonical for 48 bits of linear address (SDM 1 3.3.7.1). */
static inline bool hv_canonical(uint64_t address)
{
    return (uint64_t)((int64_t)(address << 16) >> 16) == address;
}

/** State after power-up or RESET (SDM 3A table 9-1). The policy, hooks and APIC id stay. */
void hv_cpu_reset(struct hv_cpu *cpu, bool bootstrap_processor);

/** State after INIT: as reset, but MSRs, TSC, x87, SSE and XCR0 stay. The bootstrap processor runs
 * on from the reset vector, the others wait for a start-up IPI. */
void hv_cpu_take_init(struct hv_cpu *cpu);

/** A start-up IPI: run in real mode from page @vector. Ignored unless one is waited for. */
void hv_cpu_take_sipi(struct hv_cpu *cpu, uint8_t vector);
