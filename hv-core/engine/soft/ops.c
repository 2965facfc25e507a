/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The accesses of this engine as cpu/ sees them: with a privilege of the caller's choice, and the
 * guest's fault in the caller's variable.
 */
#include "engine/soft/access-private.h"
#include "engine/soft/ram.h"
#include "engine/soft/tlb-private.h"

/* Resolve an access of cpu/. Its privilege is read from the registers, not from vcpu->mode: cpu/
 * may be half way through a change of it. */
static int resolve(struct hv_engine_vcpu *vcpu, hv_gva gva, unsigned bytes, enum hv_walk_as as,
                   enum soft_tlb_kind kind, struct soft_span *span_out, struct hv_fault *fault)
{
    enum soft_tlb_mode mode = soft_tlb_mode_of(vcpu->cpu, as);
    uint64_t linear = soft_linear(vcpu, gva.v);
    int result = soft_check_alignment(vcpu, mode, linear, bytes);

    if (!result) {
        result = soft_span_resolve(vcpu, mode, kind, linear, bytes, span_out);
    }
    if (result == HV_FAULTED) {
        *fault = vcpu->fault;
    }
    return result;
}

static int ops_read(void *context, hv_gva gva, unsigned bytes, enum hv_walk_as as,
                    uint64_t *value_out, struct hv_fault *fault)
{
    struct hv_engine_vcpu *vcpu = context;
    struct soft_span span;
    int result = resolve(vcpu, gva, bytes, as, SOFT_TLB_READ, &span, fault);

    *value_out = 0;
    return result ? result : soft_span_read(vcpu, &span, value_out);
}

static int ops_write(void *context, hv_gva gva, unsigned bytes, enum hv_walk_as as, uint64_t value,
                     struct hv_fault *fault)
{
    struct hv_engine_vcpu *vcpu = context;
    struct soft_span span;
    int result = resolve(vcpu, gva, bytes, as, SOFT_TLB_WRITE, &span, fault);

    return result ? result : soft_span_write(vcpu, &span, &value);
}

static int ops_probe_write(void *context, hv_gva gva, unsigned bytes, enum hv_walk_as as,
                           struct hv_fault *fault)
{
    struct hv_engine_vcpu *vcpu = context;
    enum soft_tlb_mode mode = soft_tlb_mode_of(vcpu->cpu, as);
    uint64_t linear = soft_linear(vcpu, gva.v);
    int result = soft_probe(vcpu, mode, linear);

    if (!result && (linear & ~HV_PAGE_MASK) + bytes > HV_PAGE_SIZE) {
        result = soft_probe(vcpu, mode, soft_next_page(vcpu, linear));
    }
    if (result == HV_FAULTED) {
        *fault = vcpu->fault;
    }
    return result;
}

static int ops_set_bits(void *context, hv_gva gva, uint8_t set, uint8_t clear, enum hv_walk_as as,
                        struct hv_fault *fault)
{
    struct hv_engine_vcpu *vcpu = context;
    struct soft_span span;
    const struct soft_piece *piece = &span.piece[0];
    uint8_t value;
    int result = resolve(vcpu, gva, 1, as, SOFT_TLB_WRITE, &span, fault);

    if (result) {
        return result;
    }
    switch (piece->kind) {
    case SOFT_PIECE_RAM:
        soft_ram_change_bits(piece->host, set, clear);
        break;
    case SOFT_PIECE_CODE:
        soft_ram_change_bits(piece->host, set, clear);
        soft_piece_stored(vcpu, piece);
        break;
    case SOFT_PIECE_ROM:
        break;
    case SOFT_PIECE_DEVICE:
        result = soft_device_read(vcpu, piece->gpa, 1, &value);
        if (!result) {
            value = (uint8_t)((value | set) & ~clear);
            result = soft_device_write(vcpu, piece->gpa, 1, &value);
        }
        break;
    }
    return result;
}

static void ops_flush_all(void *context)
{
    soft_tlb_flush_all(context);
}

static void ops_flush_non_global(void *context)
{
    soft_tlb_flush_non_global(context);
}

static void ops_flush_page(void *context, hv_gva gva)
{
    soft_tlb_flush_page(context, gva);
}

static void ops_flush_pcid(void *context, uint16_t pcid)
{
    soft_tlb_flush_pcid(context, pcid);
}

static void ops_switch_pcid(void *context, uint16_t pcid, bool keep)
{
    soft_tlb_switch_pcid(context, pcid, keep);
}

const struct hv_access_ops soft_access_ops = {
    .read = ops_read,
    .write = ops_write,
    .probe_write = ops_probe_write,
    .set_bits = ops_set_bits,
    .flush_all = ops_flush_all,
    .flush_non_global = ops_flush_non_global,
    .flush_page = ops_flush_page,
    .flush_pcid = ops_flush_pcid,
    .switch_pcid = ops_switch_pcid,
    .walk = &soft_walk_memory,
};
