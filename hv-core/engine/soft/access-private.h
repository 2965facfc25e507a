/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the files of guest accesses share: resolving a place, its pieces, devices, exclusiveness.
 */
#pragma once

#include "engine/soft/access.h"

#include <errno.h>

/** Leave the instruction to be done again from its start (D9). */
static inline int soft_restart(struct hv_engine_vcpu *vcpu)
{
    vcpu->replay.next = 0;
    return -EAGAIN;
}

static inline int soft_raise(struct hv_engine_vcpu *vcpu, enum hv_vector vector)
{
    vcpu->fault = (struct hv_fault){.vector = (uint8_t)vector, .has_error = true};
    return HV_FAULTED;
}

/** Which table an access goes to. tlb.c. */
enum soft_tlb_mode soft_tlb_mode_of(const struct hv_cpu *cpu, enum hv_walk_as as);

/* fill.c. All of them return 0, HV_FAULTED or a negative errno as access.h says. */

/** A linear address as the present mode forms it: 32 bits outside long mode. */
static inline uint64_t soft_linear(const struct hv_engine_vcpu *vcpu, uint64_t gva)
{
    return hv_cpu_long_mode(vcpu->cpu) ? gva : (uint32_t)gva;
}

/**
 * What stands at the page of @gva for an access of @kind, READ or WRITE: fills the TLB, sets
 * accessed and (WRITE) dirty. piece_out->bytes is the caller's.
 */
HV_MUST_CHECK int soft_resolve(struct hv_engine_vcpu *vcpu, enum soft_tlb_mode mode,
                               enum soft_tlb_kind kind, uint64_t gva, struct soft_piece *piece_out);

/** Check that a store to @gva would find its page, without setting its dirty bit. */
HV_MUST_CHECK int soft_probe(struct hv_engine_vcpu *vcpu, enum soft_tlb_mode mode, uint64_t gva);

/** Paging structures as the walker sees them; the context is the vCPU. */
extern const struct hv_walk_memory soft_walk_memory;

/* access.c */

/**
 * Resolve [gva, gva + bytes), at most one page long, into one or two pieces. Both are checked
 * before either is marked dirty.
 */
HV_MUST_CHECK int soft_span_resolve(struct hv_engine_vcpu *vcpu, enum soft_tlb_mode mode,
                                    enum soft_tlb_kind kind, uint64_t gva, unsigned bytes,
                                    struct soft_span *span_out);
HV_MUST_CHECK int soft_span_read(struct hv_engine_vcpu *vcpu, const struct soft_span *span,
                                 void *to);
HV_MUST_CHECK int soft_span_write(struct hv_engine_vcpu *vcpu, const struct soft_span *span,
                                  const void *from);

/** Tell the dirty log and the block cache of a store to a CODE piece, which was just done. */
void soft_piece_stored(struct hv_engine_vcpu *vcpu, const struct soft_piece *piece);

/** The start of the second page of a crossing access. */
uint64_t soft_next_page(const struct hv_engine_vcpu *vcpu, uint64_t gva);

/** #AC of an access of @bytes (1, 2, 4, 8; others are not checked) in @mode. */
HV_MUST_CHECK int soft_check_alignment(struct hv_engine_vcpu *vcpu, enum soft_tlb_mode mode,
                                       uint64_t gva, unsigned bytes);

/* replay.c: any range inside a page, cut into what a bus carries. */
HV_MUST_CHECK int soft_device_read(struct hv_engine_vcpu *vcpu, hv_gpa gpa, unsigned bytes,
                                   void *to);
HV_MUST_CHECK int soft_device_write(struct hv_engine_vcpu *vcpu, hv_gpa gpa, unsigned bytes,
                                    const void *from);

/* exclusive.c */

/** Keep the domain's other vCPUs out of guest code until the end. Nothing gets stale meanwhile. */
void soft_exclusive_begin(struct hv_engine_vcpu *vcpu) HV_ACQUIRES(&vcpu->domain->exclusive.lock);
void soft_exclusive_end(struct hv_engine_vcpu *vcpu) HV_RELEASES(&vcpu->domain->exclusive.lock);
/** Let an exclusive access of another vCPU pass, at a block's edge or OUTSIDE. */
void soft_exclusive_park(struct hv_engine_vcpu *vcpu);
