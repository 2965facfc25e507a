/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Segments: descriptor loads with all their checks, and the checks of an access through one.
 *
 * Loading writes cpu->seg[] and keeps cpu->slot[HV_SLOT_SEG_BASE + s] in step: in 64-bit mode the
 * slot of ES, CS, SS and DS is 0 whatever the hidden base says.
 *
 * Returns, here and in event.h and transfer.h: 0; HV_FAULTED with *fault_out; a negative errno from
 * the access table. Nothing of the state has changed unless 0 is returned ("check, then commit").
 * Source: SDM 3A 3.4, 5.3 to 5.8; SDM 2 (MOV, LDS, LAR, LSL, VERR, ARPL).
 */
#pragma once

#include "cpu/access.h"

/** MOV to, or POP, a data or stack segment register. @seg is not CS. */
HV_MUST_CHECK int hv_segment_load(struct hv_cpu *cpu, const struct hv_access *access,
                                  enum hv_seg seg, uint16_t selector, struct hv_fault *fault_out);

/** LLDT and LTR. */
HV_MUST_CHECK int hv_segment_load_ldtr(struct hv_cpu *cpu, const struct hv_access *access,
                                       uint16_t selector, struct hv_fault *fault_out);
HV_MUST_CHECK int hv_segment_load_tr(struct hv_cpu *cpu, const struct hv_access *access,
                                     uint16_t selector, struct hv_fault *fault_out);

/** Set base, limit and attributes directly (reset, save records, FS/GS base), slots in step. */
void hv_segment_set(struct hv_cpu *cpu, enum hv_seg seg, const struct hv_segment *value);

/** Bring all base slots in step after a change of mode (EFER.LMA, CS.L, CR0.PE). */
void hv_segment_sync_slots(struct hv_cpu *cpu);

/** True when @segment's limit lets [offset, offset + bytes) through; no type is checked. */
bool hv_segment_holds(const struct hv_segment *segment, uint64_t offset, unsigned bytes);

/**
 * Linear address of [offset, offset + bytes) in @seg, limit, type and canonical form checked.
 *
 * @offset  already cut to the address size.
 *
 * Returns 0 and *gva_out; HV_FAULTED: #GP(0), or #SS(0) for SS (also a non-canonical address
 * through RSP or RBP).
 */
HV_MUST_CHECK int hv_segment_linear(const struct hv_cpu *cpu, enum hv_seg seg, uint64_t offset,
                                    unsigned bytes, bool write, hv_gva *gva_out,
                                    struct hv_fault *fault_out);

enum hv_segment_query {
    HV_SEGMENT_QUERY_LAR,
    HV_SEGMENT_QUERY_LSL,
    HV_SEGMENT_QUERY_VERR,
    HV_SEGMENT_QUERY_VERW,
};

/** LAR, LSL, VERR, VERW: *valid_out becomes ZF, *value_out the result where there is one. */
HV_MUST_CHECK int hv_segment_query(struct hv_cpu *cpu, const struct hv_access *access,
                                   enum hv_segment_query query, uint16_t selector, bool *valid_out,
                                   uint64_t *value_out, struct hv_fault *fault_out);
