/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Guest memory accesses of the software engine beyond the TLB hit: fills, page crossings, devices,
 * ROM, stores to pages with code, read-modify-write, flushes. Private to engine/soft.
 *
 * Results: 0; HV_FAULTED with vcpu->fault; -EAGAIN to restart the instruction after leaving the
 * engine; -ENOMEM when the host has no memory for a page. A crossing access checks both pages
 * before the first byte is stored. Aligned guest accesses are one host access.
 */
#pragma once

#include "engine/soft/vcpu.h"

HV_MUST_CHECK int soft_tlbs_create(struct hv_engine_vcpu *vcpu);
void soft_tlbs_destroy(struct hv_engine_vcpu *vcpu);

/** Choose the view after CPL, AC, CR0.PG/WP or CR4.SMAP/SMEP changed (cheap when nothing did). */
void soft_tlb_set_mode(struct hv_engine_vcpu *vcpu);

/** Forget translations: see hv_access_ops. soft_tlb_flush_all() also takes the flush clock. */
void soft_tlb_flush_all(struct hv_engine_vcpu *vcpu);
void soft_tlb_flush_non_global(struct hv_engine_vcpu *vcpu);
void soft_tlb_flush_page(struct hv_engine_vcpu *vcpu, hv_gva gva);
void soft_tlb_flush_pcid(struct hv_engine_vcpu *vcpu, uint16_t pcid);
void soft_tlb_switch_pcid(struct hv_engine_vcpu *vcpu, uint16_t pcid, bool keep);

/** Slow read and write of 1 to 8 bytes at current privilege. The value is zero-extended. */
HV_MUST_CHECK int soft_read_slow(struct hv_engine_vcpu *vcpu, uint64_t gva, unsigned bytes,
                                 uint64_t *value_out);
HV_MUST_CHECK int soft_write_slow(struct hv_engine_vcpu *vcpu, uint64_t gva, unsigned bytes,
                                  uint64_t value);

/** Bytes of any length up to 4096, through the fast path page by page (vectors, FXSAVE, XSAVE).
 * All pages of a store are checked before the first byte. */
HV_MUST_CHECK int soft_read_bytes(struct hv_engine_vcpu *vcpu, uint64_t gva, void *to,
                                  unsigned bytes);
HV_MUST_CHECK int soft_write_bytes(struct hv_engine_vcpu *vcpu, uint64_t gva, const void *from,
                                   unsigned bytes);

/**
 * Begin a read-modify-write of @bytes (1 to 16, or up to 64 for vectors): a writable pointer to
 * work on, either into RAM or to vcpu->bounce filled with the present value.
 *
 * @locked  the instruction has LOCK (or is XCHG): when the place is no aligned RAM in one page,
 *          other vCPUs of the domain are kept out until the commit.
 */
HV_MUST_CHECK int soft_rmw_begin(struct hv_engine_vcpu *vcpu, uint64_t gva, unsigned bytes,
                                 bool locked, void **place_out);
/** End it: stores the bounce back where one was used. Cannot fault; may return -EAGAIN (device). */
HV_MUST_CHECK int soft_rmw_commit(struct hv_engine_vcpu *vcpu);

/**
 * The host address of @gva for @kind and how many bytes of its page follow, for `rep` strings;
 * NULL in *place_out when it is no plain RAM. Fills the TLB.
 */
HV_MUST_CHECK int soft_page_span(struct hv_engine_vcpu *vcpu, uint64_t gva, enum soft_tlb_kind kind,
                                 void **place_out, unsigned *bytes_out);

/** Translate a fetch: guest physical of @gva and the host address of its byte. */
HV_MUST_CHECK int soft_fetch_page(struct hv_engine_vcpu *vcpu, uint64_t gva, hv_gpa *gpa_out,
                                  const uint8_t **host_out);

/** The table cpu/ works through. */
extern const struct hv_access_ops soft_access_ops;

/** Serve FLUSH and EPOCH requests, OUTSIDE or at a block edge. */
void soft_serve(struct hv_engine_vcpu *vcpu, uint32_t requests);
