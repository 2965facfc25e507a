/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The save record of a vCPU: what save, migration, fork and a change of engine carry. Its layout is
 * fixed: little-endian, each field at a multiple of its size, no padding that is not named.
 *
 *     hv_cpu_save    any vCPU between two instructions → record; cannot fail
 *     hv_cpu_load    record, checked field by field → vCPU; nothing has changed when it refuses
 *
 * A record comes from a file or a peer: a state no guest could have reached is refused by the name
 * of its field. Not in it: what the vCPU was created with (policy, hooks), which the machine's own
 * record carries; the local APIC, the platform's; the clock that tsc_offset refers to, the domain's.
 */
#pragma once

#include "cpu/state.h"

#define HV_CPU_RECORD_VERSION 1u

struct hv_cpu_record_segment {
    uint64_t base;
    uint32_t limit;
    uint32_t attr; /* enum hv_seg_attr */
    uint16_t selector;
    uint16_t reserved[3];
};

struct hv_cpu_record_table {
    uint64_t base;
    uint16_t limit;
    uint16_t reserved[3];
};

struct hv_cpu_record {
    uint32_t version;
    uint32_t bytes; /* of the whole record */
    uint32_t apic_id;
    uint32_t reserved0;

    uint64_t registers[HV_REG_COUNT];
    uint64_t rip, rflags;
    uint64_t cr0, cr2, cr3, cr4, xcr0, efer;
    struct hv_cpu_record_segment segments[HV_SEG_ALL]; /* in enum hv_seg's order */
    struct hv_cpu_record_table gdtr, idtr;
    uint64_t dr[4], dr6, dr7;
    uint64_t pdpte[4];

    uint64_t star, lstar, cstar, fmask, kernel_gs_base;
    uint64_t sysenter_cs, sysenter_esp, sysenter_eip;
    uint64_t tsc_aux, pat, misc_enable, spec_ctrl, feature_control, debugctl;
    uint64_t mtrr_def_type, mtrr_base[8], mtrr_mask[8], mtrr_fixed[11];
    uint64_t apic_base, tsc_offset, tsc_adjust, xss;

    uint8_t cpl;
    uint8_t activity;                                            /* enum hv_activity */
    uint8_t sti_shadow, mov_ss_shadow, nmi_blocked, nmi_pending; /* 0 or 1 */
    uint8_t delivering_vector;
    uint8_t reserved1;
    uint16_t latched_interrupt;
    uint16_t reserved2[3];

    uint8_t xstate[HV_XSTATE_BYTES]; /* standard form */
};

/** Write @cpu's state into @record. Context: the vCPU's thread, or the vCPU paused. */
void hv_cpu_save(const struct hv_cpu *cpu, struct hv_cpu_record *record);

/**
 * Make @record the state of @cpu, whose policy, hooks and APIC id are set.
 *
 * @field_out  the first impossible field's name, static text; NULL on success.
 *
 * Returns 0, or -EPROTO. The caller flushes the engine's TLB.
 */
HV_MUST_CHECK int hv_cpu_load(struct hv_cpu *cpu, const struct hv_cpu_record *record,
                              const char **field_out);
