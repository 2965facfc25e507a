/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Guest memory accesses of the software engine beyond the TLB hit: fills, page crossings, devices,
 * ROM, stores to pages with code, read-modify-write, flushes. Private to engine/soft.
 *
 * Results: 0; HV_FAULTED with vcpu->fault; -EAGAIN to restart the instruction after leaving the
 * engine; -ENOMEM when the host has no memory for a page. A crossing access checks both pages
 * before the first byte is stored. Aligned guest accesses are one host access.
 *
 * After -EAGAIN nothing may be used that was looked up before, the running block included, and no
 * access made: the vCPU may be OUTSIDE already. vcpu->awaits_device says whether to leave with
 * HV_EXIT_IO or just to look up cpu->rip again.
 *
 * The only #GP that accesses raise is that of an address that is not canonical; for one through the
 * stack segment the caller makes it #SS by soft_stack_result().
 *
 * Context: the vCPU's thread, IN_GUEST (but flushes, soft_tlb_set_mode() and soft_serve()).
 */
#pragma once

#include "engine/soft/vcpu.h"

/** Make vcpu->tlbs, empty, with the view of the present mode to be set. -ENOMEM. */
HV_MUST_CHECK int soft_tlbs_create(struct hv_engine_vcpu *vcpu);
/** NULL tables are accepted. */
void soft_tlbs_destroy(struct hv_engine_vcpu *vcpu);

/** Choose the view after CPL, AC, CR0.PG/WP/AM, CR4 or EFER changed (cheap when nothing did).
 * Flushes when rights may have changed. */
void soft_tlb_set_mode(struct hv_engine_vcpu *vcpu);

/**
 * Forget translations, as the functions of the same names in struct hv_access_ops.
 * soft_tlb_flush_all() also takes the flush clock.
 */
void soft_tlb_flush_all(struct hv_engine_vcpu *vcpu);
void soft_tlb_flush_non_global(struct hv_engine_vcpu *vcpu);
void soft_tlb_flush_page(struct hv_engine_vcpu *vcpu, hv_gva gva);
void soft_tlb_flush_pcid(struct hv_engine_vcpu *vcpu, uint16_t pcid);
void soft_tlb_switch_pcid(struct hv_engine_vcpu *vcpu, uint16_t pcid, bool keep);

/** Forget write translations that lead to @gfn, after hv_memory_seal_code() with one's own holder
 * and before a block of the page is published. */
void soft_tlb_drop_writes_to(struct hv_engine_vcpu *vcpu, hv_gfn gfn);

/** Slow read and write of 1 to 8 bytes at current privilege. The value is zero-extended. */
HV_MUST_CHECK int soft_read_slow(struct hv_engine_vcpu *vcpu, uint64_t gva, unsigned bytes,
                                 uint64_t *value_out);
HV_MUST_CHECK int soft_write_slow(struct hv_engine_vcpu *vcpu, uint64_t gva, unsigned bytes,
                                  uint64_t value);

/** Bytes of any length up to 4096 (vectors, FXSAVE, XSAVE), alignment unchecked. All pages of a
 * store are checked before the first byte. */
HV_MUST_CHECK int soft_read_bytes(struct hv_engine_vcpu *vcpu, uint64_t gva, void *to,
                                  unsigned bytes);
HV_MUST_CHECK int soft_write_bytes(struct hv_engine_vcpu *vcpu, uint64_t gva, const void *from,
                                   unsigned bytes);

/**
 * Begin a read-modify-write of @bytes (1 to 16, or up to 64 for vectors): a writable pointer to
 * work on, either into RAM or to vcpu->bounce filled with the present value.
 *
 * @locked  the instruction has LOCK (or is XCHG): when the place is no RAM in one cache line, other
 *          vCPUs of the domain are kept out until the commit. So a locked fast path must look at
 *          the alignment itself.
 *
 * Every success is followed by soft_rmw_commit() before any other access.
 */
HV_MUST_CHECK int soft_rmw_begin(struct hv_engine_vcpu *vcpu, uint64_t gva, unsigned bytes,
                                 bool locked, void **place_out);
/** End it: stores the bounce back where one was used. Cannot fault; may return -EAGAIN (device). */
HV_MUST_CHECK int soft_rmw_commit(struct hv_engine_vcpu *vcpu);

/**
 * The host address of @gva for @kind and how many bytes of its page follow, for `rep` strings;
 * NULL in *place_out when it is no plain RAM or alignment is checked: go element by element. Fills
 * the TLB. @kind is READ or WRITE.
 */
HV_MUST_CHECK int soft_page_span(struct hv_engine_vcpu *vcpu, uint64_t gva, enum soft_tlb_kind kind,
                                 void **place_out, unsigned *bytes_out);

/**
 * Translate a fetch: guest physical of @gva and the host address of its byte, good up to the end of
 * its page and the next edge of a block. Where no memory answers, the bytes are all ones.
 *
 * Whoever keeps a translation under vcpu->fetch_generation[gva >> 63] has got it from here, or from
 * soft_tlb_lookup_fetch(), in that generation.
 */
HV_MUST_CHECK int soft_fetch_page(struct hv_engine_vcpu *vcpu, uint64_t gva, hv_gpa *gpa_out,
                                  const uint8_t **host_out);

/** Port accesses with replay; permission is the caller's business. */
HV_MUST_CHECK int soft_pio_read(struct hv_engine_vcpu *vcpu, uint16_t port, unsigned bytes,
                                uint64_t *value_out);
HV_MUST_CHECK int soft_pio_write(struct hv_engine_vcpu *vcpu, uint16_t port, unsigned bytes,
                                 uint64_t value);

/** True while a restarted instruction has device accesses behind it: no event is delivered. */
static inline bool soft_insn_pending(const struct hv_engine_vcpu *vcpu)
{
    return vcpu->replay.recorded != 0 && !vcpu->replay.event;
}

/** After each instruction that may have come here, or iteration of a `rep`: it is committed, or its
 * exception delivered. */
static inline void soft_insn_done(struct hv_engine_vcpu *vcpu)
{
    vcpu->replay.recorded = 0;
    vcpu->replay.next = 0;
}

/** The result of an access through SS, RSP or RBP: not canonical is #SS(0) then. */
static inline int soft_stack_result(struct hv_engine_vcpu *vcpu, int result)
{
    if (HV_UNLIKELY(result == HV_FAULTED) && vcpu->fault.vector == HV_VECTOR_GP) {
        vcpu->fault.vector = HV_VECTOR_SS;
    }
    return result;
}

/** The table cpu/ works through; its context is the vCPU. */
extern const struct hv_access_ops soft_access_ops;

void soft_exclusive_init(struct soft_exclusive *exclusive);
void soft_exclusive_finish(struct soft_exclusive *exclusive);

/**
 * Go IN_GUEST: hv_doorbell_enter(), but never into another vCPU's exclusive access.
 *
 * Returns 0, or the standing requests, mode OUTSIDE.
 */
HV_MUST_CHECK uint32_t soft_enter(struct hv_engine_vcpu *vcpu);

/** Serve FLUSH, EPOCH and EXCLUSIVE requests, OUTSIDE or at a block edge. The caller took them from
 * the bell and acknowledges afterwards. */
void soft_serve(struct hv_engine_vcpu *vcpu, uint32_t requests);
