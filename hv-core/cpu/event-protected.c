/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Delivery through an IDT, in protected mode (8-byte gates of 16 and 32 bits, task gates) and in
 * long mode (16-byte gates, IST).
 *
 *     frame, first pushed first:   [GS FS DS ES]  [SS SP]  FLAGS CS IP  [error]
 *                                   from v86       inner ring
 *     long mode:                                   SS SP   FLAGS CS IP  [error]   always, aligned
 *
 * Source: SDM 3A 6.11 to 6.14; SDM 2, INT n.
 */
#include "cpu/event-private.h"

#include "cpu/descriptor.h"
#include "cpu/fault.h"
#include "cpu/segment.h"
#include "cpu/stack.h"
#include "cpu/task.h"

#define FRAME_MOST 11

/* Flags that every handler begins without (SDM 3A 6.12.1.2, 6.14). */
#define CLEARED    (HV_RFLAGS_TF | HV_RFLAGS_NT | HV_RFLAGS_VM | HV_RFLAGS_RF)

static void clear_flags(struct hv_cpu *cpu, bool interrupt_gate)
{
    cpu->rflags &= ~(uint32_t)CLEARED;
    if (interrupt_gate) {
        cpu->rflags &= ~(uint32_t)HV_RFLAGS_IF;
    }
}

/* The gate's first eight bytes; limit, DPL against software events and presence are checked, its
 * type is left to the caller through @types. */
static int fetch_gate(struct hv_cpu *cpu, const struct hv_access *access,
                      const struct hv_event *event, unsigned gate_bytes, uint32_t types,
                      struct hv_descriptor *gate_out, struct hv_fault *fault_out)
{
    uint32_t error = hv_event_idt_error(event);
    uint32_t offset = event->vector * gate_bytes;
    uint64_t address = cpu->idtr.base + offset;
    uint32_t attr;
    int result;

    if (offset + gate_bytes - 1 > cpu->idtr.limit) {
        return hv_fault_code(fault_out, HV_VECTOR_GP, error);
    }
    *gate_out =
        (struct hv_descriptor){.address = {hv_cpu_long_mode(cpu) ? address : (uint32_t)address}};
    result = access->ops->read(access->context, gate_out->address, 8, HV_WALK_AS_SUPERVISOR,
                               &gate_out->low, fault_out);
    if (!result && gate_bytes == 16) {
        result = access->ops->read(access->context, (hv_gva){gate_out->address.v + 8}, 8,
                                   HV_WALK_AS_SUPERVISOR, &gate_out->high, fault_out);
    }
    if (result) {
        return result;
    }

    attr = hv_descriptor_attr(gate_out);
    if ((attr & HV_SEG_ATTR_S) || !(types & HV_BIT(hv_attr_type(attr))) ||
        hv_bits(gate_out->high, 40, 5) != 0 ||
        (hv_event_is_software(event) && hv_attr_dpl(attr) < cpu->cpl)) {
        return hv_fault_code(fault_out, HV_VECTOR_GP, error);
    }
    gate_out->high &= UINT32_MAX;
    if (!(attr & HV_SEG_ATTR_P)) {
        return hv_fault_code(fault_out, HV_VECTOR_NP, error);
    }
    return 0;
}

static int deliver_task(struct hv_cpu *cpu, const struct hv_access *access,
                        const struct hv_event *event, uint16_t selector, struct hv_fault *fault_out)
{
    struct hv_task_switch task = {
        .selector = selector,
        .cause = HV_TASK_CAUSE_EVENT,
        .old_rip = event->return_rip,
        .old_flags = event->flags,
        .has_error = event->has_error,
        .error = event->error,
        .ext = event->ext,
    };

    return hv_task_switch(cpu, access, &task, fault_out);
}

/* The ring the handler runs in: its segment's, or the present one when it conforms. */
static unsigned handler_ring(const struct hv_cpu *cpu, const struct hv_code_target *target)
{
    return hv_attr_is_conforming(target->cs.attr) ? cpu->cpl : hv_attr_dpl(target->cs.attr);
}

static unsigned protected_frame(const struct hv_cpu *cpu, const struct hv_event *event, bool inner,
                                uint64_t frame[FRAME_MOST])
{
    unsigned count = 0;

    if (hv_cpu_v86(cpu)) {
        frame[count++] = cpu->seg[HV_SEG_GS].selector;
        frame[count++] = cpu->seg[HV_SEG_FS].selector;
        frame[count++] = cpu->seg[HV_SEG_DS].selector;
        frame[count++] = cpu->seg[HV_SEG_ES].selector;
    }
    if (inner) {
        frame[count++] = cpu->seg[HV_SEG_SS].selector;
        frame[count++] = cpu->slot[HV_REG_RSP];
    }
    frame[count++] = event->flags;
    frame[count++] = cpu->seg[HV_SEG_CS].selector;
    frame[count++] = event->return_rip;
    if (event->has_error) {
        frame[count++] = event->error;
    }
    return count;
}

/* SDM 3A 20.3.1.1: a handler of a virtual-8086 program begins with null data segments. */
static void clear_data_segments(struct hv_cpu *cpu)
{
    static const enum hv_seg data[] = {HV_SEG_ES, HV_SEG_DS, HV_SEG_FS, HV_SEG_GS};
    const struct hv_segment null = hv_segment_null(0);

    for (size_t i = 0; i < HV_ARRAY_LEN(data); i++) {
        hv_segment_set(cpu, data[i], &null);
    }
}

int hv_event_deliver_protected(struct hv_cpu *cpu, const struct hv_access *access,
                               const struct hv_event *event, struct hv_fault *fault_out)
{
    const uint32_t types = HV_BIT(HV_SYSTEM_TASK_GATE) | HV_BIT(HV_SYSTEM_INTERRUPT_GATE16) |
                           HV_BIT(HV_SYSTEM_TRAP_GATE16) | HV_BIT(HV_SYSTEM_INTERRUPT_GATE) |
                           HV_BIT(HV_SYSTEM_TRAP_GATE);
    bool v86 = hv_cpu_v86(cpu);
    struct hv_code_target target;
    struct hv_descriptor descriptor;
    struct hv_stack stack;
    struct hv_gate gate;
    uint64_t frame[FRAME_MOST];
    unsigned type, ring, count;
    bool inner;
    int result;

    result = fetch_gate(cpu, access, event, 8, types, &descriptor, fault_out);
    if (result) {
        return result;
    }
    gate = hv_descriptor_gate(&descriptor, false);
    type = hv_attr_type(hv_descriptor_attr(&descriptor));
    if (type == HV_SYSTEM_TASK_GATE) {
        return deliver_task(cpu, access, event, gate.selector, fault_out);
    }

    result =
        hv_code_fetch(cpu, access, gate.selector, HV_CODE_GATE, event->ext, &target, fault_out);
    if (result) {
        return result;
    }
    ring = handler_ring(cpu, &target);
    if (v86 && ring != 0) {
        return hv_fault_code(fault_out, HV_VECTOR_GP, hv_selector_error(gate.selector, event->ext));
    }
    inner = ring != cpu->cpl;
    if (inner) {
        result = hv_stack_inner(cpu, access, ring, 0, event->ext, &stack, fault_out);
        if (result) {
            return result;
        }
    } else {
        stack = hv_stack_current(cpu, event->ext);
    }
    result = hv_code_check(access, &target, event->ext, &gate.offset, fault_out);
    if (result) {
        return result;
    }
    count = protected_frame(cpu, event, inner, frame);
    result = hv_stack_push_frame(access, &stack, type <= HV_SYSTEM_TRAP_GATE16 ? 2 : 4, frame,
                                 count, fault_out);
    if (result) {
        return result;
    }

    clear_flags(cpu, type == HV_SYSTEM_INTERRUPT_GATE16 || type == HV_SYSTEM_INTERRUPT_GATE);
    hv_code_enter(cpu, &target, ring, gate.offset);
    hv_stack_commit(cpu, &stack, inner);
    if (v86) {
        clear_data_segments(cpu);
    }
    return 0;
}

int hv_event_deliver_long(struct hv_cpu *cpu, const struct hv_access *access,
                          const struct hv_event *event, struct hv_fault *fault_out)
{
    const uint32_t types = HV_BIT(HV_SYSTEM_INTERRUPT_GATE) | HV_BIT(HV_SYSTEM_TRAP_GATE);
    struct hv_code_target target;
    struct hv_descriptor descriptor;
    struct hv_stack stack;
    struct hv_gate gate;
    uint64_t frame[] = {cpu->seg[HV_SEG_SS].selector, cpu->slot[HV_REG_RSP], event->flags,
                        cpu->seg[HV_SEG_CS].selector, event->return_rip,     event->error};
    unsigned ring;
    bool inner;
    int result;

    result = fetch_gate(cpu, access, event, 16, types, &descriptor, fault_out);
    if (result) {
        return result;
    }
    gate = hv_descriptor_gate(&descriptor, true);
    result =
        hv_code_fetch(cpu, access, gate.selector, HV_CODE_GATE, event->ext, &target, fault_out);
    if (result) {
        return result;
    }
    ring = handler_ring(cpu, &target);
    inner = ring != cpu->cpl;
    if (inner || gate.ist) {
        result = hv_stack_inner(cpu, access, ring, gate.ist, event->ext, &stack, fault_out);
        if (result) {
            return result;
        }
    } else {
        stack = hv_stack_current(cpu, event->ext);
        stack.flat = true;
        stack.mask = UINT64_MAX;
    }
    stack.pointer &= ~UINT64_C(15); /* SDM 3A 6.14.2 */
    result = hv_code_check(access, &target, event->ext, &gate.offset, fault_out);
    if (result) {
        return result;
    }
    result = hv_stack_push_frame(access, &stack, 8, frame, event->has_error ? 6 : 5, fault_out);
    if (result) {
        return result;
    }

    clear_flags(cpu, hv_attr_type(hv_descriptor_attr(&descriptor)) == HV_SYSTEM_INTERRUPT_GATE);
    hv_code_enter(cpu, &target, ring, gate.offset);
    hv_stack_commit(cpu, &stack, inner);
    return 0;
}
