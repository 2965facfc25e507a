/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Far jumps and calls: to a code segment, through a call gate, to a task.
 *
 * Source: SDM 2 (JMP, CALL); SDM 3A 5.8.2 to 5.8.5 (privilege), 5.8.3.1 (gates of long mode).
 */
#include "cpu/transfer.h"

#include "cpu/descriptor.h"
#include "cpu/fault.h"
#include "cpu/segment.h"
#include "cpu/stack.h"
#include "cpu/task.h"

/* Most parameters a call gate copies, and what else goes on the inner stack. */
#define PARAMETERS_MOST 31
#define CALL_FRAME_MOST (PARAMETERS_MOST + 4)

/* The instruction as its helpers see it. */
struct far {
    uint16_t selector;
    uint64_t offset;
    unsigned operand_bytes;
    uint64_t next_rip;
    bool call;
};

static int push_return_address(const struct hv_cpu *cpu, const struct hv_access *access,
                               struct hv_stack *stack, unsigned unit, uint64_t next_rip,
                               struct hv_fault *fault_out)
{
    uint64_t frame[] = {cpu->seg[HV_SEG_CS].selector, next_rip};

    return hv_stack_push_frame(access, stack, unit, frame, HV_ARRAY_LEN(frame), fault_out);
}

static int far_real(struct hv_cpu *cpu, const struct hv_access *access, const struct far *far,
                    struct hv_fault *fault_out)
{
    struct hv_stack stack = hv_stack_current(cpu, 0);
    struct hv_segment cs = cpu->seg[HV_SEG_CS];
    int result;

    if (hv_cpu_v86(cpu)) {
        cs = hv_segment_v86(far->selector);
    } else {
        cs.selector = far->selector; /* limit and D stay as they are */
        cs.base = (uint64_t)far->selector << 4;
    }
    if (far->offset > cs.limit) {
        return hv_fault_gp0(fault_out);
    }
    if (far->call) {
        result =
            push_return_address(cpu, access, &stack, far->operand_bytes, far->next_rip, fault_out);
        if (result) {
            return result;
        }
        hv_stack_commit(cpu, &stack, false);
    }
    hv_segment_set(cpu, HV_SEG_CS, &cs);
    cpu->rip = far->offset;
    return 0;
}

/* To a code segment of the same ring, directly or through a gate of @unit bytes. */
static int far_same(struct hv_cpu *cpu, const struct hv_access *access, const struct far *far,
                    struct hv_code_target *target, uint64_t offset, unsigned unit,
                    struct hv_fault *fault_out)
{
    struct hv_stack stack = hv_stack_current(cpu, 0);
    int result;

    if (unit == 8) {
        stack.flat = true; /* a 64-bit gate taken in compatibility mode */
        stack.mask = UINT64_MAX;
    }
    result = hv_code_check(access, target, 0, &offset, fault_out);
    if (result) {
        return result;
    }
    if (far->call) {
        result = push_return_address(cpu, access, &stack, unit, far->next_rip, fault_out);
        if (result) {
            return result;
        }
    }
    hv_code_enter(cpu, target, cpu->cpl, offset);
    if (far->call) {
        hv_stack_commit(cpu, &stack, false);
    }
    return 0;
}

static int far_segment(struct hv_cpu *cpu, const struct hv_access *access, const struct far *far,
                       struct hv_fault *fault_out)
{
    struct hv_code_target target;
    int result = hv_code_fetch(cpu, access, far->selector, HV_CODE_DIRECT, 0, &target, fault_out);

    if (result) {
        return result;
    }
    return far_same(cpu, access, far, &target, far->offset, far->operand_bytes, fault_out);
}

/* Call to an inner ring: SS, SP, the parameters in their order, CS, IP on the new stack. */
static int call_inner(struct hv_cpu *cpu, const struct hv_access *access, const struct far *far,
                      struct hv_code_target *target, const struct hv_gate *gate, unsigned unit,
                      struct hv_fault *fault_out)
{
    struct hv_stack old = hv_stack_current(cpu, 0);
    unsigned ring = hv_attr_dpl(target->cs.attr);
    uint64_t offset = gate->offset;
    uint64_t frame[CALL_FRAME_MOST];
    struct hv_stack stack;
    unsigned count = 0;
    int result;

    result = hv_stack_inner(cpu, access, ring, 0, 0, &stack, fault_out);
    if (result) {
        return result;
    }
    frame[count++] = cpu->seg[HV_SEG_SS].selector;
    frame[count++] = cpu->slot[HV_REG_RSP];
    for (unsigned i = gate->parameters; i-- > 0;) {
        result = hv_stack_peek(access, &old, (uint64_t)i * unit, unit, &frame[count++], fault_out);
        if (result) {
            return result;
        }
    }
    frame[count++] = cpu->seg[HV_SEG_CS].selector;
    frame[count++] = far->next_rip;

    result = hv_code_check(access, target, 0, &offset, fault_out);
    if (result) {
        return result;
    }
    result = hv_stack_push_frame(access, &stack, unit, frame, count, fault_out);
    if (result) {
        return result;
    }
    hv_code_enter(cpu, target, ring, offset);
    hv_stack_commit(cpu, &stack, true);
    return 0;
}

static int far_gate(struct hv_cpu *cpu, const struct hv_access *access, const struct far *far,
                    struct hv_descriptor *descriptor, struct hv_fault *fault_out)
{
    bool wide = hv_cpu_long_mode(cpu);
    bool is16 = hv_attr_type(hv_descriptor_attr(descriptor)) == HV_SYSTEM_CALL_GATE16;
    unsigned unit = wide ? 8 : is16 ? 2 : 4;
    struct hv_code_target target;
    struct hv_gate gate;
    int result;

    if (wide) {
        result = hv_descriptor_fetch_high(cpu, access, far->selector, HV_VECTOR_GP, 0, descriptor,
                                          fault_out);
        if (result) {
            return result;
        }
    }
    gate = hv_descriptor_gate(descriptor, wide);
    result = hv_code_fetch(cpu, access, gate.selector, far->call ? HV_CODE_GATE : HV_CODE_GATE_JUMP,
                           0, &target, fault_out);
    if (result) {
        return result;
    }
    if (far->call && !hv_attr_is_conforming(target.cs.attr) &&
        hv_attr_dpl(target.cs.attr) < cpu->cpl) {
        return call_inner(cpu, access, far, &target, &gate, unit, fault_out);
    }
    return far_same(cpu, access, far, &target, gate.offset, unit, fault_out);
}

static int far_task(struct hv_cpu *cpu, const struct hv_access *access, const struct far *far,
                    uint16_t tss_selector, struct hv_fault *fault_out)
{
    return hv_transfer_task(cpu, access, tss_selector,
                            far->call ? HV_TASK_CAUSE_CALL : HV_TASK_CAUSE_JUMP, far->next_rip,
                            false, 0, fault_out);
}

/* Gates and TSSs are for CPL and RPL at or inside their DPL (SDM 3A 5.8.4, 7.2.2, 7.2.5). */
static int far_system(struct hv_cpu *cpu, const struct hv_access *access, const struct far *far,
                      struct hv_descriptor *descriptor, struct hv_fault *fault_out)
{
    uint32_t attr = hv_descriptor_attr(descriptor);
    uint32_t error = hv_selector_error(far->selector, 0);
    unsigned type = hv_attr_type(attr);
    unsigned dpl = hv_attr_dpl(attr);
    uint32_t types = HV_BIT(HV_SYSTEM_CALL_GATE);

    if (!hv_cpu_long_mode(cpu)) {
        types |= HV_BIT(HV_SYSTEM_CALL_GATE16) | HV_BIT(HV_SYSTEM_TASK_GATE) |
                 HV_BIT(HV_SYSTEM_TSS16) | HV_BIT(HV_SYSTEM_TSS);
    }
    if (!(types & HV_BIT(type)) || dpl < cpu->cpl || hv_selector_rpl(far->selector) > dpl) {
        return hv_fault_code(fault_out, HV_VECTOR_GP, error);
    }
    if (!(attr & HV_SEG_ATTR_P)) {
        return hv_fault_code(fault_out, HV_VECTOR_NP, error);
    }
    if (type == HV_SYSTEM_TASK_GATE) {
        return far_task(cpu, access, far, hv_descriptor_gate(descriptor, false).selector,
                        fault_out);
    }
    if (type == HV_SYSTEM_TSS16 || type == HV_SYSTEM_TSS) {
        return far_task(cpu, access, far, far->selector, fault_out);
    }
    return far_gate(cpu, access, far, descriptor, fault_out);
}

static int far_transfer(struct hv_cpu *cpu, const struct hv_access *access, struct far far,
                        struct hv_fault *fault_out)
{
    struct hv_descriptor descriptor;
    int result;

    far.offset &= hv_bytes_mask(far.operand_bytes);
    if (!hv_cpu_protected(cpu) || hv_cpu_v86(cpu)) {
        return far_real(cpu, access, &far, fault_out);
    }
    if (hv_selector_null(far.selector)) {
        return hv_fault_gp0(fault_out);
    }
    result =
        hv_descriptor_fetch(cpu, access, far.selector, HV_VECTOR_GP, 0, &descriptor, fault_out);
    if (result) {
        return result;
    }
    if (hv_descriptor_attr(&descriptor) & HV_SEG_ATTR_S) {
        return far_segment(cpu, access, &far, fault_out);
    }
    return far_system(cpu, access, &far, &descriptor, fault_out);
}

int hv_transfer_far_jump(struct hv_cpu *cpu, const struct hv_access *access, uint16_t selector,
                         uint64_t offset, unsigned operand_bytes, uint64_t next_rip,
                         struct hv_fault *fault_out)
{
    return far_transfer(cpu, access, (struct far){selector, offset, operand_bytes, next_rip, false},
                        fault_out);
}

int hv_transfer_far_call(struct hv_cpu *cpu, const struct hv_access *access, uint16_t selector,
                         uint64_t offset, unsigned operand_bytes, uint64_t next_rip,
                         struct hv_fault *fault_out)
{
    return far_transfer(cpu, access, (struct far){selector, offset, operand_bytes, next_rip, true},
                        fault_out);
}
