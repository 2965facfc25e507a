/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Stacks of other rings and frames on them. */
#include "cpu/stack.h"

#include "cpu/descriptor.h"
#include "cpu/fault.h"
#include "cpu/segment.h"

static uint64_t stack_mask(const struct hv_segment *ss)
{
    return (ss->attr & HV_SEG_ATTR_DB) ? UINT32_MAX : UINT16_MAX;
}

struct hv_stack hv_stack_current(const struct hv_cpu *cpu, uint32_t error)
{
    bool flat = hv_cpu_code64(cpu);
    uint64_t rsp = cpu->slot[HV_REG_RSP];

    return (struct hv_stack){
        .ss = cpu->seg[HV_SEG_SS],
        .pointer = flat ? rsp : (uint32_t)rsp,
        .mask = flat ? UINT64_MAX : stack_mask(&cpu->seg[HV_SEG_SS]),
        .flat = flat,
        .as = HV_WALK_AS_CURRENT,
        .error = error,
    };
}

static enum hv_walk_as as_ring(unsigned cpl)
{
    return cpl == 3 ? HV_WALK_AS_USER : HV_WALK_AS_KERNEL;
}

static int tss_read(const struct hv_cpu *cpu, const struct hv_access *access, uint32_t offset,
                    unsigned bytes, uint64_t *value_out, struct hv_fault *fault_out)
{
    uint64_t address = cpu->seg[HV_SEG_TR].base + offset;

    return access->ops->read(access->context,
                             (hv_gva){hv_cpu_long_mode(cpu) ? address : (uint32_t)address}, bytes,
                             HV_WALK_AS_SUPERVISOR, value_out, fault_out);
}

static int inner_long(struct hv_cpu *cpu, const struct hv_access *access, unsigned cpl,
                      unsigned ist, uint32_t ext, struct hv_stack *stack_out,
                      struct hv_fault *fault_out)
{
    enum { RSP0 = 4, IST1 = 36 };
    const struct hv_segment *tr = &cpu->seg[HV_SEG_TR];
    uint32_t offset = ist ? IST1 + 8 * (ist - 1) : RSP0 + 8 * cpl;

    if (offset + 7 > tr->limit) {
        return hv_fault_code(fault_out, HV_VECTOR_TS, hv_selector_error(tr->selector, ext));
    }
    *stack_out = (struct hv_stack){
        .ss = hv_segment_null((uint16_t)cpl),
        .mask = UINT64_MAX,
        .flat = true,
        .as = as_ring(cpl),
        .error = ext,
    };
    stack_out->ss.attr |= cpl << HV_SEG_ATTR_DPL_SHIFT;
    return tss_read(cpu, access, offset, 8, &stack_out->pointer, fault_out);
}

int hv_stack_inner(struct hv_cpu *cpu, const struct hv_access *access, unsigned cpl, unsigned ist,
                   uint32_t ext, struct hv_stack *stack_out, struct hv_fault *fault_out)
{
    const struct hv_segment *tr = &cpu->seg[HV_SEG_TR];
    bool is16 = hv_attr_type(tr->attr) <= HV_SYSTEM_TSS16_BUSY;
    uint32_t offset = is16 ? 2 + 4 * cpl : 4 + 8 * cpl;
    unsigned pointer_bytes = is16 ? 2 : 4;
    uint64_t pointer, selector;
    struct hv_segment ss;
    int result;

    if (hv_cpu_long_mode(cpu)) {
        return inner_long(cpu, access, cpl, ist, ext, stack_out, fault_out);
    }
    if (offset + pointer_bytes + 1 > tr->limit) {
        return hv_fault_code(fault_out, HV_VECTOR_TS, hv_selector_error(tr->selector, ext));
    }
    result = tss_read(cpu, access, offset, pointer_bytes, &pointer, fault_out);
    if (result) {
        return result;
    }
    result = tss_read(cpu, access, offset + pointer_bytes, 2, &selector, fault_out);
    if (result) {
        return result;
    }
    if (hv_selector_null((uint16_t)selector)) {
        return hv_fault_code(fault_out, HV_VECTOR_TS, ext);
    }
    result = hv_descriptor_load_stack(cpu, access, (uint16_t)selector, cpl, HV_VECTOR_TS, ext, &ss,
                                      fault_out);
    if (result) {
        return result;
    }
    *stack_out = (struct hv_stack){
        .ss = ss,
        .pointer = pointer,
        .mask = stack_mask(&ss),
        .as = as_ring(cpl),
        .error = hv_selector_error((uint16_t)selector, ext),
    };
    return 0;
}

/* Linear address of [offset, offset + bytes) of the stack, which does not wrap. */
static int linear(const struct hv_stack *stack, uint64_t offset, unsigned bytes, hv_gva *gva_out,
                  struct hv_fault *fault_out)
{
    bool good;

    if (stack->flat) {
        good = hv_canonical(offset) && hv_canonical(offset + bytes - 1);
        *gva_out = (hv_gva){offset};
    } else {
        good = hv_segment_holds(&stack->ss, offset, bytes);
        *gva_out = (hv_gva){(uint32_t)(stack->ss.base + offset)};
    }
    return good ? 0 : hv_fault_code(fault_out, HV_VECTOR_SS, stack->error);
}

static int probe(const struct hv_access *access, const struct hv_stack *stack, uint64_t offset,
                 unsigned bytes, struct hv_fault *fault_out)
{
    hv_gva gva;
    int result = linear(stack, offset, bytes, &gva, fault_out);

    if (result) {
        return result;
    }
    return access->ops->probe_write(access->context, gva, bytes, stack->as, fault_out);
}

/* Check the frame value by value, as it will be pushed. */
static int probe_values(const struct hv_access *access, const struct hv_stack *stack, unsigned unit,
                        unsigned count, struct hv_fault *fault_out)
{
    int result = 0;

    for (unsigned i = 1; !result && i <= count; i++) {
        result = probe(access, stack, (stack->pointer - (uint64_t)unit * i) & stack->mask, unit,
                       fault_out);
    }
    return result;
}

/* Check the frame: at once where it lies in one piece, else (a pointer that wraps) by values. When it
 * cannot be pushed, the fault is that of the first value that finds no place. */
static int probe_frame(const struct hv_access *access, const struct hv_stack *stack, unsigned unit,
                       unsigned count, struct hv_fault *fault_out)
{
    unsigned bytes = unit * count;
    uint64_t bottom = (stack->pointer - bytes) & stack->mask;
    int result;

    if (bottom > stack->mask - (bytes - 1)) {
        return probe_values(access, stack, unit, count, fault_out);
    }
    result = probe(access, stack, bottom, bytes, fault_out);
    if (result == HV_FAULTED) {
        int first = probe_values(access, stack, unit, count, fault_out);

        result = first ? first : result;
    }
    return result;
}

int hv_stack_push_frame(const struct hv_access *access, struct hv_stack *stack, unsigned unit,
                        const uint64_t *values, unsigned count, struct hv_fault *fault_out)
{
    int result = probe_frame(access, stack, unit, count, fault_out);

    for (unsigned i = 0; !result && i < count; i++) {
        uint64_t offset = (stack->pointer - unit) & stack->mask;
        hv_gva gva;

        result = linear(stack, offset, unit, &gva, fault_out);
        if (!result) {
            result = access->ops->write(access->context, gva, unit, stack->as,
                                        values[i] & hv_bytes_mask(unit), fault_out);
        }
        stack->pointer = (stack->pointer & ~stack->mask) | offset;
    }
    return result;
}

int hv_stack_peek(const struct hv_access *access, const struct hv_stack *stack, uint64_t offset,
                  unsigned unit, uint64_t *value_out, struct hv_fault *fault_out)
{
    hv_gva gva;
    int result = linear(stack, (stack->pointer + offset) & stack->mask, unit, &gva, fault_out);

    if (result) {
        return result;
    }
    return access->ops->read(access->context, gva, unit, stack->as, value_out, fault_out);
}

void hv_stack_release(struct hv_stack *stack, uint64_t bytes)
{
    stack->pointer = (stack->pointer & ~stack->mask) | ((stack->pointer + bytes) & stack->mask);
}

void hv_stack_commit(struct hv_cpu *cpu, const struct hv_stack *stack, bool with_segment)
{
    if (with_segment) {
        hv_segment_set(cpu, HV_SEG_SS, &stack->ss);
    }
    cpu->slot[HV_REG_RSP] = stack->pointer;
}
