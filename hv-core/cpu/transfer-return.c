/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Far returns and IRET: what they pop, where they may go, what is left of the data segments.
 *
 *     RETF    IP CS            [parameters] [SP SS]  to an outer ring
 *     IRET    IP CS FLAGS      [SP SS]               to an outer ring, and always in 64-bit mode
 *             IP CS FLAGS      SP SS ES DS FS GS     to virtual-8086 mode
 *
 * Source: SDM 2 (RET, IRET); SDM 3A 7.3 (NT), 20.2.5 (virtual-8086 mode).
 */
#include "cpu/transfer.h"

#include "cpu/descriptor.h"
#include "cpu/fault.h"
#include "cpu/segment.h"
#include "cpu/stack.h"
#include "cpu/task.h"

/* Flags a return at any ring may change; others depend on CPL and IOPL. */
#define FLAGS_FREE                                                                                \
    (HV_RFLAGS_ARITH | HV_RFLAGS_TF | HV_RFLAGS_DF | HV_RFLAGS_NT | HV_RFLAGS_RF | HV_RFLAGS_AC | \
     HV_RFLAGS_ID)

/* What stands on the stack, as far as read. */
struct frame {
    unsigned unit;
    uint64_t rip, flags, rsp;
    uint16_t cs, ss;
};

static int peek_selector(const struct hv_access *access, const struct hv_stack *stack,
                         uint64_t offset, unsigned unit, uint16_t *selector_out,
                         struct hv_fault *fault_out)
{
    uint64_t value;
    int result = hv_stack_peek(access, stack, offset, unit, &value, fault_out);

    *selector_out = result ? 0 : (uint16_t)value;
    return result;
}

static int peek_target(const struct hv_access *access, const struct hv_stack *stack,
                       struct frame *frame, struct hv_fault *fault_out)
{
    int result = hv_stack_peek(access, stack, 0, frame->unit, &frame->rip, fault_out);

    if (result) {
        return result;
    }
    return peek_selector(access, stack, frame->unit, frame->unit, &frame->cs, fault_out);
}

/* RSP and SS at @offset. */
static int peek_stack(const struct hv_access *access, const struct hv_stack *stack, uint64_t offset,
                      struct frame *frame, struct hv_fault *fault_out)
{
    int result = hv_stack_peek(access, stack, offset, frame->unit, &frame->rsp, fault_out);

    if (result) {
        return result;
    }
    return peek_selector(access, stack, offset + frame->unit, frame->unit, &frame->ss, fault_out);
}

/* The popped SS for ring @cpl. Null is for 64-bit code of rings 0 to 2 (SDM 2, IRET and RET,
 * "64-bit mode exceptions"). */
static int fetch_stack(struct hv_cpu *cpu, const struct hv_access *access,
                       const struct hv_code_target *target, const struct frame *frame, unsigned cpl,
                       struct hv_segment *ss_out, struct hv_fault *fault_out)
{
    if (hv_selector_null(frame->ss)) {
        if (!target->is64 || cpl == 3 || hv_selector_rpl(frame->ss) != cpl) {
            return hv_fault_gp0(fault_out);
        }
        *ss_out = hv_segment_null(frame->ss);
        ss_out->attr |= cpl << HV_SEG_ATTR_DPL_SHIFT;
        return 0;
    }
    return hv_descriptor_load_stack(cpu, access, frame->ss, cpl, HV_VECTOR_GP, 0, ss_out,
                                    fault_out);
}

/* Data segments of an inner ring are lost on the way out (SDM 2, RET): selector and rights, but not
 * the base, which 64-bit code goes on using in FS and GS. */
static void drop_inner_segments(struct hv_cpu *cpu)
{
    static const enum hv_seg data[] = {HV_SEG_ES, HV_SEG_DS, HV_SEG_FS, HV_SEG_GS};

    for (size_t i = 0; i < HV_ARRAY_LEN(data); i++) {
        uint32_t attr = cpu->seg[data[i]].attr;

        if (!(attr & HV_SEG_ATTR_UNUSABLE) && !hv_attr_is_conforming(attr) &&
            hv_attr_dpl(attr) < cpu->cpl) {
            struct hv_segment null = hv_segment_null(0);

            null.base = cpu->seg[data[i]].base;
            hv_segment_set(cpu, data[i], &null);
        }
    }
}

/* Where a return goes: checked, nothing committed. The popped selectors are in @frame. */
struct destination {
    struct hv_code_target target;
    unsigned cpl;
    bool outer;
    bool new_stack; /* ss and frame->rsp are to be loaded */
    struct hv_segment ss;
};

static int resolve(struct hv_cpu *cpu, const struct hv_access *access, const struct frame *frame,
                   struct destination *to, struct hv_fault *fault_out)
{
    to->cpl = hv_selector_rpl(frame->cs);
    to->outer = to->cpl > cpu->cpl;
    if (!hv_selector_null(frame->cs) && to->cpl < cpu->cpl) {
        return hv_fault_code(fault_out, HV_VECTOR_GP, hv_selector_error(frame->cs, 0));
    }
    return hv_code_fetch(cpu, access, frame->cs, HV_CODE_RETURN, 0, &to->target, fault_out);
}

static int resolve_stack(struct hv_cpu *cpu, const struct hv_access *access, struct frame *frame,
                         struct destination *to, struct hv_fault *fault_out)
{
    int result;

    if (to->new_stack) {
        result = fetch_stack(cpu, access, &to->target, frame, to->cpl, &to->ss, fault_out);
        if (result) {
            return result;
        }
    }
    return hv_code_check(access, &to->target, 0, &frame->rip, fault_out);
}

/* Commit. @stack has been released up to what the return leaves of it; @pop_bytes go from the outer
 * stack too. */
static void arrive(struct hv_cpu *cpu, const struct frame *frame, const struct destination *to,
                   const struct hv_stack *stack, uint64_t pop_bytes)
{
    hv_code_enter(cpu, &to->target, to->cpl, frame->rip);
    if (to->new_stack) {
        struct hv_stack outer;

        hv_segment_set(cpu, HV_SEG_SS, &to->ss);
        /* With a 16-bit stack only SP is popped into; the upper half of ESP stays. */
        outer = hv_stack_current(cpu, 0);
        outer.pointer = (outer.pointer & ~outer.mask) | (frame->rsp & outer.mask);
        hv_stack_release(&outer, pop_bytes);
        hv_stack_commit(cpu, &outer, false);
    } else {
        hv_stack_commit(cpu, stack, false);
    }
    if (to->outer) {
        drop_inner_segments(cpu);
    }
}

static int return_real(struct hv_cpu *cpu, const struct frame *frame, struct hv_fault *fault_out)
{
    struct hv_segment cs = cpu->seg[HV_SEG_CS];

    if (hv_cpu_v86(cpu)) {
        cs = hv_segment_v86(frame->cs);
    } else {
        cs.selector = frame->cs;
        cs.base = (uint64_t)frame->cs << 4;
    }
    if (frame->rip > cs.limit) {
        return hv_fault_gp0(fault_out);
    }
    hv_segment_set(cpu, HV_SEG_CS, &cs);
    cpu->rip = frame->rip;
    return 0;
}

int hv_transfer_far_return(struct hv_cpu *cpu, const struct hv_access *access,
                           unsigned operand_bytes, uint16_t pop_bytes, struct hv_fault *fault_out)
{
    struct hv_stack stack = hv_stack_current(cpu, 0);
    struct frame frame = {.unit = operand_bytes};
    struct destination to = {0};
    int result;

    result = peek_target(access, &stack, &frame, fault_out);
    if (result) {
        return result;
    }
    if (!hv_cpu_protected(cpu) || hv_cpu_v86(cpu)) {
        result = return_real(cpu, &frame, fault_out);
        if (!result) {
            hv_stack_release(&stack, 2 * operand_bytes + pop_bytes);
            hv_stack_commit(cpu, &stack, false);
        }
        return result;
    }

    result = resolve(cpu, access, &frame, &to, fault_out);
    if (result) {
        return result;
    }
    to.new_stack = to.outer;
    if (to.outer) {
        result =
            peek_stack(access, &stack, 2 * (uint64_t)operand_bytes + pop_bytes, &frame, fault_out);
        if (result) {
            return result;
        }
    }
    result = resolve_stack(cpu, access, &frame, &to, fault_out);
    if (result) {
        return result;
    }
    hv_stack_release(&stack, 2 * operand_bytes + pop_bytes);
    arrive(cpu, &frame, &to, &stack, to.outer ? pop_bytes : 0);
    return 0;
}

/* Flags as IRET at the present CPL leaves them (SDM 2, IRET; IOPL-sensitive ones SDM 1 3.4.3.3). */
static uint64_t returned_flags(const struct hv_cpu *cpu, uint64_t popped, unsigned unit)
{
    unsigned iopl = (cpu->rflags & HV_RFLAGS_IOPL) >> 12;
    uint64_t writable = FLAGS_FREE;

    if (cpu->cpl <= iopl) {
        writable |= HV_RFLAGS_IF;
    }
    if (cpu->cpl == 0) {
        writable |= HV_RFLAGS_IOPL | HV_RFLAGS_VIF | HV_RFLAGS_VIP;
    }
    if (unit == 2) {
        writable &= UINT16_MAX;
    }
    return (hv_cpu_rflags(cpu) & ~writable) | (popped & writable);
}

/* Real mode, and virtual-8086 mode with IOPL 3: VM, VIF and VIP stay; so does IOPL in the latter. */
static int iret_real(struct hv_cpu *cpu, const struct hv_access *access, unsigned unit,
                     struct hv_fault *fault_out)
{
    struct hv_stack stack = hv_stack_current(cpu, 0);
    struct frame frame = {.unit = unit};
    uint64_t writable = FLAGS_FREE | HV_RFLAGS_IF;
    int result;

    if (hv_cpu_v86(cpu)) {
        if ((cpu->rflags & HV_RFLAGS_IOPL) != HV_RFLAGS_IOPL) {
            return hv_fault_gp0(fault_out);
        }
    } else {
        writable |= HV_RFLAGS_IOPL;
    }
    if (unit == 2) {
        writable &= UINT16_MAX;
    }
    result = peek_target(access, &stack, &frame, fault_out);
    if (!result) {
        result = hv_stack_peek(access, &stack, 2 * (uint64_t)unit, unit, &frame.flags, fault_out);
    }
    if (!result) {
        result = return_real(cpu, &frame, fault_out);
    }
    if (result) {
        return result;
    }
    hv_stack_release(&stack, 3 * (uint64_t)unit);
    hv_stack_commit(cpu, &stack, false);
    hv_cpu_set_rflags(cpu, (hv_cpu_rflags(cpu) & ~writable) | (frame.flags & writable));
    return 0;
}

static int iret_to_v86(struct hv_cpu *cpu, const struct hv_access *access,
                       const struct hv_stack *stack, const struct frame *frame,
                       struct hv_fault *fault_out)
{
    /* In the frame's order, behind IP, CS and FLAGS; the stack pointer comes first. */
    static const enum hv_seg order[] = {HV_SEG_SS, HV_SEG_ES, HV_SEG_DS, HV_SEG_FS, HV_SEG_GS};
    uint16_t selectors[HV_ARRAY_LEN(order)];
    uint64_t esp;
    struct hv_segment value = hv_segment_v86(frame->cs);
    int result;

    result = hv_stack_peek(access, stack, 12, 4, &esp, fault_out);
    for (size_t i = 0; !result && i < HV_ARRAY_LEN(order); i++) {
        result = peek_selector(access, stack, 16 + 4 * i, 4, &selectors[i], fault_out);
    }
    if (result) {
        return result;
    }
    if (frame->rip > value.limit) {
        return hv_fault_gp0(fault_out);
    }

    hv_cpu_set_rflags(cpu, frame->flags);
    cpu->cpl = 3;
    cpu->rip = frame->rip;
    hv_segment_set(cpu, HV_SEG_CS, &value);
    for (size_t i = 0; i < HV_ARRAY_LEN(order); i++) {
        value = hv_segment_v86(selectors[i]);
        hv_segment_set(cpu, order[i], &value);
    }
    cpu->slot[HV_REG_RSP] = esp;
    return 0;
}

/* NT is set: back to the task whose selector the TSS links to. */
static int iret_task(struct hv_cpu *cpu, const struct hv_access *access, uint64_t next_rip,
                     struct hv_fault *fault_out)
{
    uint64_t link;
    int result;

    if (hv_cpu_long_mode(cpu)) {
        return hv_fault_gp0(fault_out);
    }
    result = access->ops->read(access->context, (hv_gva){(uint32_t)cpu->seg[HV_SEG_TR].base}, 2,
                               HV_WALK_AS_SUPERVISOR, &link, fault_out);
    if (result) {
        return result;
    }
    return hv_transfer_task(cpu, access, (uint16_t)link, HV_TASK_CAUSE_IRET, next_rip, false, 0,
                            fault_out);
}

static int iret_protected(struct hv_cpu *cpu, const struct hv_access *access, unsigned unit,
                          struct hv_fault *fault_out)
{
    struct hv_stack stack = hv_stack_current(cpu, 0);
    struct frame frame = {.unit = unit};
    struct destination to = {0};
    bool always_stack = hv_cpu_code64(cpu);
    uint64_t flags;
    int result;

    result = peek_target(access, &stack, &frame, fault_out);
    if (!result) {
        result = hv_stack_peek(access, &stack, 2 * (uint64_t)unit, unit, &frame.flags, fault_out);
    }
    if (result) {
        return result;
    }
    if ((frame.flags & HV_RFLAGS_VM) && cpu->cpl == 0 && unit == 4 && !hv_cpu_long_mode(cpu)) {
        return iret_to_v86(cpu, access, &stack, &frame, fault_out);
    }

    result = resolve(cpu, access, &frame, &to, fault_out);
    if (result) {
        return result;
    }
    to.new_stack = to.outer || always_stack;
    if (to.new_stack) {
        result = peek_stack(access, &stack, 3 * (uint64_t)unit, &frame, fault_out);
        if (result) {
            return result;
        }
    }
    result = resolve_stack(cpu, access, &frame, &to, fault_out);
    if (result) {
        return result;
    }
    flags = returned_flags(cpu, frame.flags, unit);
    hv_stack_release(&stack, 3 * (uint64_t)unit);
    arrive(cpu, &frame, &to, &stack, 0);
    hv_cpu_set_rflags(cpu, flags);
    return 0;
}

int hv_transfer_iret(struct hv_cpu *cpu, const struct hv_access *access, unsigned operand_bytes,
                     uint64_t next_rip, struct hv_fault *fault_out)
{
    int result;

    if (!hv_cpu_protected(cpu) || hv_cpu_v86(cpu)) {
        result = iret_real(cpu, access, operand_bytes, fault_out);
    } else if (cpu->rflags & HV_RFLAGS_NT) {
        result = iret_task(cpu, access, next_rip, fault_out);
    } else {
        result = iret_protected(cpu, access, operand_bytes, fault_out);
    }
    if (!result) {
        cpu->nmi_blocked = false; /* SDM 3A 6.7.1 */
    }
    return result;
}
