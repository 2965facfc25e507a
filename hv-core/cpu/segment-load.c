/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Loads of segment registers, LDTR and TR, and the instructions that only ask about a descriptor.
 * Source: SDM 2 (MOV, LLDT, LTR, LAR, LSL, VERR). */
#include "cpu/segment.h"

#include "cpu/descriptor.h"
#include "cpu/fault.h"

/* Real mode changes selector and base; limit and attributes stay as protected mode left them
 * ("big real mode"). Virtual-8086 segments are all alike. */
static void load_real(struct hv_cpu *cpu, enum hv_seg seg, uint16_t selector)
{
    struct hv_segment value = cpu->seg[seg];

    if (hv_cpu_v86(cpu)) {
        value = hv_segment_v86(selector);
    } else {
        value.selector = selector;
        value.base = (uint64_t)selector << 4;
        value.attr = (value.attr & (HV_SEG_ATTR_DB | HV_SEG_ATTR_G)) | HV_SEG_ATTR_P |
                     HV_SEG_ATTR_S | HV_SEG_ATTR_WRITABLE | HV_SEG_ATTR_ACCESSED;
    }
    hv_segment_set(cpu, seg, &value);
}

static int fetch_stack(struct hv_cpu *cpu, const struct hv_access *access, uint16_t selector,
                       struct hv_segment *out, struct hv_fault *fault_out)
{
    if (hv_selector_null(selector)) {
        /* Only 64-bit mode does without a stack segment, and not in ring 3. */
        if (!hv_cpu_code64(cpu) || cpu->cpl == 3 || hv_selector_rpl(selector) != cpu->cpl) {
            return hv_fault_gp0(fault_out);
        }
        *out = hv_segment_null(selector);
        out->attr |= (uint32_t)cpu->cpl << HV_SEG_ATTR_DPL_SHIFT;
        return 0;
    }
    return hv_descriptor_load_stack(cpu, access, selector, cpu->cpl, HV_VECTOR_GP, 0, out,
                                    fault_out);
}

int hv_segment_load(struct hv_cpu *cpu, const struct hv_access *access, enum hv_seg seg,
                    uint16_t selector, struct hv_fault *fault_out)
{
    struct hv_segment value;
    int result;

    if (!hv_cpu_protected(cpu) || hv_cpu_v86(cpu)) {
        load_real(cpu, seg, selector);
        return 0;
    }
    if (seg == HV_SEG_SS) {
        result = fetch_stack(cpu, access, selector, &value, fault_out);
    } else {
        result = hv_descriptor_load_data(cpu, access, selector, cpu->cpl, HV_VECTOR_GP, 0, &value,
                                         fault_out);
    }
    if (result) {
        return result;
    }
    hv_segment_set(cpu, seg, &value);
    return 0;
}

/* The descriptor of an LDT or TSS: in the GDT, of a type in @types, present. */
static int fetch_system(struct hv_cpu *cpu, const struct hv_access *access, uint16_t selector,
                        uint32_t types, struct hv_descriptor *descriptor,
                        struct hv_segment *segment_out, struct hv_fault *fault_out)
{
    const uint16_t table_indicator = 4;
    uint32_t error = hv_selector_error(selector, 0);
    uint32_t attr;
    int result;

    if (selector & table_indicator) {
        return hv_fault_code(fault_out, HV_VECTOR_GP, error);
    }
    result = hv_descriptor_fetch(cpu, access, selector, HV_VECTOR_GP, 0, descriptor, fault_out);
    if (result) {
        return result;
    }
    attr = hv_descriptor_attr(descriptor);
    if ((attr & HV_SEG_ATTR_S) || !(types & HV_BIT(hv_attr_type(attr)))) {
        return hv_fault_code(fault_out, HV_VECTOR_GP, error);
    }
    if (!(attr & HV_SEG_ATTR_P)) {
        return hv_fault_code(fault_out, HV_VECTOR_NP, error);
    }
    if (hv_cpu_long_mode(cpu)) {
        result =
            hv_descriptor_fetch_high(cpu, access, selector, HV_VECTOR_GP, 0, descriptor, fault_out);
        if (result) {
            return result;
        }
    }
    *segment_out = hv_descriptor_segment(descriptor, selector);
    if (!hv_canonical(segment_out->base)) {
        return hv_fault_code(fault_out, HV_VECTOR_GP, error);
    }
    return 0;
}

int hv_segment_load_ldtr(struct hv_cpu *cpu, const struct hv_access *access, uint16_t selector,
                         struct hv_fault *fault_out)
{
    struct hv_segment value = hv_segment_null(selector);
    struct hv_descriptor descriptor;

    if (cpu->cpl != 0) {
        return hv_fault_gp0(fault_out);
    }
    if (!hv_selector_null(selector)) {
        int result = fetch_system(cpu, access, selector, HV_BIT(HV_SYSTEM_LDT), &descriptor, &value,
                                  fault_out);

        if (result) {
            return result;
        }
    }
    hv_segment_set(cpu, HV_SEG_LDTR, &value);
    return 0;
}

int hv_segment_load_tr(struct hv_cpu *cpu, const struct hv_access *access, uint16_t selector,
                       struct hv_fault *fault_out)
{
    const uint8_t busy = 2;
    uint32_t types = HV_BIT(HV_SYSTEM_TSS);
    struct hv_descriptor descriptor;
    struct hv_segment value;
    int result;

    if (cpu->cpl != 0 || hv_selector_null(selector)) {
        return hv_fault_gp0(fault_out);
    }
    if (!hv_cpu_long_mode(cpu)) {
        types |= HV_BIT(HV_SYSTEM_TSS16);
    }
    result = fetch_system(cpu, access, selector, types, &descriptor, &value, fault_out);
    if (result) {
        return result;
    }
    result = access->ops->set_bits(access->context, (hv_gva){descriptor.address.v + 5}, busy, 0,
                                   HV_WALK_AS_SUPERVISOR, fault_out);
    if (result) {
        return result;
    }
    value.attr |= busy;
    hv_segment_set(cpu, HV_SEG_TR, &value);
    return 0;
}

/* Types that LAR and LSL know, by mode (SDM 2, LAR, table 3-53; LSL, table 3-57). */
static uint32_t queried_types(const struct hv_cpu *cpu, enum hv_segment_query query)
{
    uint32_t types = HV_BIT(HV_SYSTEM_LDT) | HV_BIT(HV_SYSTEM_TSS) | HV_BIT(HV_SYSTEM_TSS_BUSY);

    if (!hv_cpu_long_mode(cpu)) {
        types |= HV_BIT(HV_SYSTEM_TSS16) | HV_BIT(HV_SYSTEM_TSS16_BUSY);
    }
    if (query == HV_SEGMENT_QUERY_LAR) {
        types |= HV_BIT(HV_SYSTEM_CALL_GATE);
        if (!hv_cpu_long_mode(cpu)) {
            types |= HV_BIT(HV_SYSTEM_CALL_GATE16) | HV_BIT(HV_SYSTEM_TASK_GATE);
        }
    }
    return types;
}

static bool query_allows(const struct hv_cpu *cpu, enum hv_segment_query query, uint16_t selector,
                         uint32_t attr)
{
    unsigned dpl = hv_attr_dpl(attr);

    if (!hv_attr_is_conforming(attr) && (cpu->cpl > dpl || hv_selector_rpl(selector) > dpl)) {
        return false;
    }
    switch (query) {
    case HV_SEGMENT_QUERY_VERR:
        return hv_attr_is_readable(attr);
    case HV_SEGMENT_QUERY_VERW:
        return hv_attr_is_writable_data(attr);
    case HV_SEGMENT_QUERY_LAR:
    case HV_SEGMENT_QUERY_LSL:
        break;
    }
    return (attr & HV_SEG_ATTR_S) || (queried_types(cpu, query) & HV_BIT(hv_attr_type(attr)));
}

int hv_segment_query(struct hv_cpu *cpu, const struct hv_access *access,
                     enum hv_segment_query query, uint16_t selector, bool *valid_out,
                     uint64_t *value_out, struct hv_fault *fault_out)
{
    const uint64_t access_rights = 0x00ffff00;
    struct hv_descriptor descriptor = {0};
    uint32_t attr;
    int result;

    *valid_out = false;
    if (hv_selector_null(selector) ||
        !hv_descriptor_locate(cpu, selector, 8, &descriptor.address)) {
        return 0;
    }
    result = access->ops->read(access->context, descriptor.address, 8, HV_WALK_AS_SUPERVISOR,
                               &descriptor.low, fault_out);
    if (result) {
        return result;
    }
    attr = hv_descriptor_attr(&descriptor);
    if (!query_allows(cpu, query, selector, attr)) {
        return 0;
    }
    if (query == HV_SEGMENT_QUERY_LAR) {
        *value_out = descriptor.low >> 32 & access_rights;
    } else if (query == HV_SEGMENT_QUERY_LSL) {
        *value_out = hv_descriptor_limit(&descriptor);
    }
    *valid_out = true;
    return 0;
}
