/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Taking descriptors apart, and the checks of stack, data and code segments that loads, transfers,
 * event delivery and task switches share. */
#include "cpu/descriptor.h"

#include "cpu/fault.h"
#include "cpu/segment.h"

#define SELECTOR_TI 4u

/* P, DPL 3, S, data, writable, accessed: what a virtual-8086 segment always has. */
#define V86_ATTR                                                                          \
    (HV_SEG_ATTR_P | 3u << HV_SEG_ATTR_DPL_SHIFT | HV_SEG_ATTR_S | HV_SEG_ATTR_WRITABLE | \
     HV_SEG_ATTR_ACCESSED)

uint32_t hv_descriptor_limit(const struct hv_descriptor *descriptor)
{
    uint32_t limit =
        (uint32_t)(descriptor->low & 0xffff) | (uint32_t)(descriptor->low >> 32 & 0xf0000);

    return (hv_descriptor_attr(descriptor) & HV_SEG_ATTR_G) ? limit << 12 | 0xfff : limit;
}

static uint64_t descriptor_base(const struct hv_descriptor *descriptor)
{
    return hv_bits(descriptor->low, 16, 24) | hv_bits(descriptor->low, 56, 8) << 24 |
           descriptor->high << 32;
}

bool hv_descriptor_locate(const struct hv_cpu *cpu, uint16_t selector, unsigned bytes,
                          hv_gva *address_out)
{
    const struct hv_segment *ldtr = &cpu->seg[HV_SEG_LDTR];
    uint32_t offset = selector & 0xfff8u;
    uint64_t base = cpu->gdtr.base;
    uint32_t limit = cpu->gdtr.limit;

    if (selector & SELECTOR_TI) {
        if (ldtr->attr & HV_SEG_ATTR_UNUSABLE) {
            return false;
        }
        base = ldtr->base;
        limit = ldtr->limit;
    }
    *address_out = (hv_gva){hv_cpu_long_mode(cpu) ? base + offset : (uint32_t)(base + offset)};
    return offset + bytes - 1 <= limit;
}

int hv_descriptor_fetch(struct hv_cpu *cpu, const struct hv_access *access, uint16_t selector,
                        enum hv_vector vector, uint32_t ext, struct hv_descriptor *out,
                        struct hv_fault *fault_out)
{
    if (!hv_descriptor_locate(cpu, selector, 8, &out->address)) {
        return hv_fault_code(fault_out, vector, hv_selector_error(selector, ext));
    }
    out->high = 0;
    return access->ops->read(access->context, out->address, 8, HV_WALK_AS_SUPERVISOR, &out->low,
                             fault_out);
}

int hv_descriptor_fetch_high(struct hv_cpu *cpu, const struct hv_access *access, uint16_t selector,
                             enum hv_vector vector, uint32_t ext, struct hv_descriptor *descriptor,
                             struct hv_fault *fault_out)
{
    hv_gva address;
    int result;

    if (!hv_descriptor_locate(cpu, selector, 16, &address)) {
        return hv_fault_code(fault_out, vector, hv_selector_error(selector, ext));
    }
    result = access->ops->read(access->context, (hv_gva){address.v + 8}, 8, HV_WALK_AS_SUPERVISOR,
                               &descriptor->high, fault_out);
    if (result) {
        return result;
    }
    if (hv_bits(descriptor->high, 40, 5) != 0) {
        return hv_fault_code(fault_out, vector, hv_selector_error(selector, ext));
    }
    descriptor->high &= UINT32_MAX;
    return 0;
}

struct hv_segment hv_descriptor_segment(const struct hv_descriptor *descriptor, uint16_t selector)
{
    return (struct hv_segment){
        .base = descriptor_base(descriptor),
        .limit = hv_descriptor_limit(descriptor),
        .attr = hv_descriptor_attr(descriptor),
        .selector = selector,
    };
}

struct hv_gate hv_descriptor_gate(const struct hv_descriptor *descriptor, bool wide)
{
    bool is16 = hv_attr_type(hv_descriptor_attr(descriptor)) <= HV_SYSTEM_TRAP_GATE16;
    struct hv_gate gate = {
        .selector = (uint16_t)hv_bits(descriptor->low, 16, 16),
        .offset = hv_bits(descriptor->low, 0, 16),
        .parameters = (uint8_t)hv_bits(descriptor->low, 32, 5),
    };

    if (!is16) {
        gate.offset |= hv_bits(descriptor->low, 48, 16) << 16;
    }
    if (wide) {
        gate.offset |= descriptor->high << 32;
        gate.ist = (uint8_t)hv_bits(descriptor->low, 32, 3);
        gate.parameters = 0;
    }
    return gate;
}

int hv_descriptor_mark_accessed(const struct hv_access *access,
                                const struct hv_descriptor *descriptor, struct hv_segment *segment,
                                struct hv_fault *fault_out)
{
    if (segment->attr & HV_SEG_ATTR_ACCESSED) {
        return 0;
    }
    segment->attr |= HV_SEG_ATTR_ACCESSED;
    return access->ops->set_bits(access->context, (hv_gva){descriptor->address.v + 5},
                                 HV_SEG_ATTR_ACCESSED, 0, HV_WALK_AS_SUPERVISOR, fault_out);
}

struct hv_segment hv_segment_null(uint16_t selector)
{
    return (struct hv_segment){.selector = selector, .attr = HV_SEG_ATTR_UNUSABLE};
}

struct hv_segment hv_segment_v86(uint16_t selector)
{
    return (struct hv_segment){
        .selector = selector, .base = (uint64_t)selector << 4, .limit = 0xffff, .attr = V86_ATTR};
}

struct hv_segment hv_segment_flat(uint16_t selector, uint32_t type_attr, unsigned dpl)
{
    return (struct hv_segment){
        .selector = selector,
        .limit = UINT32_MAX,
        .attr = type_attr | HV_SEG_ATTR_P | HV_SEG_ATTR_S | HV_SEG_ATTR_G | HV_SEG_ATTR_WRITABLE |
                HV_SEG_ATTR_ACCESSED | dpl << HV_SEG_ATTR_DPL_SHIFT,
    };
}

int hv_descriptor_load_stack(struct hv_cpu *cpu, const struct hv_access *access, uint16_t selector,
                             unsigned cpl, enum hv_vector vector, uint32_t ext,
                             struct hv_segment *out, struct hv_fault *fault_out)
{
    uint32_t error = hv_selector_error(selector, ext);
    struct hv_descriptor descriptor;
    int result;

    result = hv_descriptor_fetch(cpu, access, selector, vector, ext, &descriptor, fault_out);
    if (result) {
        return result;
    }
    *out = hv_descriptor_segment(&descriptor, selector);
    if (hv_selector_rpl(selector) != cpl || hv_attr_dpl(out->attr) != cpl ||
        !hv_attr_is_writable_data(out->attr)) {
        return hv_fault_code(fault_out, vector, error);
    }
    if (!(out->attr & HV_SEG_ATTR_P)) {
        return hv_fault_code(fault_out, HV_VECTOR_SS, error);
    }
    return hv_descriptor_mark_accessed(access, &descriptor, out, fault_out);
}

int hv_descriptor_load_data(struct hv_cpu *cpu, const struct hv_access *access, uint16_t selector,
                            unsigned cpl, enum hv_vector vector, uint32_t ext,
                            struct hv_segment *out, struct hv_fault *fault_out)
{
    uint32_t error = hv_selector_error(selector, ext);
    struct hv_descriptor descriptor;
    unsigned dpl;
    int result;

    if (hv_selector_null(selector)) {
        *out = hv_segment_null(selector);
        return 0;
    }
    result = hv_descriptor_fetch(cpu, access, selector, vector, ext, &descriptor, fault_out);
    if (result) {
        return result;
    }
    *out = hv_descriptor_segment(&descriptor, selector);
    dpl = hv_attr_dpl(out->attr);
    if (!hv_attr_is_readable(out->attr) ||
        (!hv_attr_is_conforming(out->attr) && (hv_selector_rpl(selector) > dpl || cpl > dpl))) {
        return hv_fault_code(fault_out, vector, error);
    }
    if (!(out->attr & HV_SEG_ATTR_P)) {
        return hv_fault_code(fault_out, HV_VECTOR_NP, error);
    }
    return hv_descriptor_mark_accessed(access, &descriptor, out, fault_out);
}

/* SDM 3A 5.8.1 and the instructions' own pages. */
static bool code_rule_allows(const struct hv_cpu *cpu, enum hv_code_rule rule, uint32_t attr,
                             uint16_t selector)
{
    bool conforming = hv_attr_is_conforming(attr);
    unsigned rpl = hv_selector_rpl(selector);
    unsigned dpl = hv_attr_dpl(attr);

    switch (rule) {
    case HV_CODE_DIRECT:
        return conforming ? dpl <= cpu->cpl : dpl == cpu->cpl && rpl <= cpu->cpl;
    case HV_CODE_GATE:
        return dpl <= cpu->cpl;
    case HV_CODE_GATE_JUMP:
        return conforming ? dpl <= cpu->cpl : dpl == cpu->cpl;
    case HV_CODE_RETURN:
    case HV_CODE_TASK:
        return conforming ? dpl <= rpl : dpl == rpl;
    }
    return false;
}

int hv_code_fetch(struct hv_cpu *cpu, const struct hv_access *access, uint16_t selector,
                  enum hv_code_rule rule, uint32_t ext, struct hv_code_target *out,
                  struct hv_fault *fault_out)
{
    enum hv_vector vector = rule == HV_CODE_TASK ? HV_VECTOR_TS : HV_VECTOR_GP;
    bool by_gate = rule == HV_CODE_GATE || rule == HV_CODE_GATE_JUMP;
    uint32_t error = hv_selector_error(selector, ext);
    bool wide, good;
    int result;

    if (hv_selector_null(selector)) {
        return hv_fault_code(fault_out, vector, ext);
    }
    result = hv_descriptor_fetch(cpu, access, selector, vector, ext, &out->descriptor, fault_out);
    if (result) {
        return result;
    }
    out->cs = hv_descriptor_segment(&out->descriptor, selector);
    out->is64 = hv_cpu_long_mode(cpu) && (out->cs.attr & HV_SEG_ATTR_L);
    wide = out->cs.attr & HV_SEG_ATTR_DB;

    good = hv_attr_is_code(out->cs.attr) && code_rule_allows(cpu, rule, out->cs.attr, selector);
    /* L with D is reserved; the gates of long mode lead to 64-bit code only (SDM 3A 5.8.3.1). */
    if (hv_cpu_long_mode(cpu) && ((out->is64 && wide) || (by_gate && !out->is64))) {
        good = false;
    }
    if (!good) {
        return hv_fault_code(fault_out, vector, error);
    }
    if (!(out->cs.attr & HV_SEG_ATTR_P)) {
        return hv_fault_code(fault_out, HV_VECTOR_NP, error);
    }
    return 0;
}

int hv_code_check(const struct hv_access *access, struct hv_code_target *target, uint32_t ext,
                  uint64_t *rip_inout, struct hv_fault *fault_out)
{
    bool good;

    if (target->is64) {
        good = hv_canonical(*rip_inout);
    } else {
        *rip_inout = (uint32_t)*rip_inout;
        good = *rip_inout <= target->cs.limit;
    }
    if (!good) {
        return hv_fault_code(fault_out, HV_VECTOR_GP, ext);
    }
    return hv_descriptor_mark_accessed(access, &target->descriptor, &target->cs, fault_out);
}

void hv_code_enter(struct hv_cpu *cpu, const struct hv_code_target *target, unsigned cpl,
                   uint64_t rip)
{
    struct hv_segment cs = target->cs;

    cs.selector = (uint16_t)((cs.selector & ~3u) | cpl);
    cpu->cpl = (uint8_t)cpl;
    cpu->rip = rip;
    hv_segment_set(cpu, HV_SEG_CS, &cs);
}
