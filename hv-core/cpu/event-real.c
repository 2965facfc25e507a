/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Delivery in real mode: the interrupt vector table. Source: SDM 3A 20.1.4; SDM 2, INT n. */
#include "cpu/event-private.h"

#include "cpu/fault.h"
#include "cpu/segment.h"
#include "cpu/stack.h"

int hv_event_deliver_real(struct hv_cpu *cpu, const struct hv_access *access,
                          const struct hv_event *event, struct hv_fault *fault_out)
{
    const uint64_t cleared = HV_RFLAGS_IF | HV_RFLAGS_TF | HV_RFLAGS_AC | HV_RFLAGS_RF;
    uint32_t offset = event->vector * 4u;
    struct hv_stack stack = hv_stack_current(cpu, 0);
    struct hv_segment cs = cpu->seg[HV_SEG_CS];
    uint64_t frame[] = {event->flags, cs.selector, event->return_rip};
    uint64_t pointer;
    int result;

    if (offset + 3 > cpu->idtr.limit) {
        return hv_fault_gp0(fault_out);
    }
    result = access->ops->read(access->context, (hv_gva){(uint32_t)(cpu->idtr.base + offset)}, 4,
                               HV_WALK_AS_SUPERVISOR, &pointer, fault_out);
    if (result) {
        return result;
    }
    result = hv_stack_push_frame(access, &stack, 2, frame, HV_ARRAY_LEN(frame), fault_out);
    if (result) {
        return result;
    }

    cs.selector = (uint16_t)(pointer >> 16);
    cs.base = (uint64_t)cs.selector << 4;
    hv_segment_set(cpu, HV_SEG_CS, &cs);
    hv_stack_commit(cpu, &stack, false);
    cpu->rip = pointer & 0xffff;
    cpu->rflags &= ~(uint32_t)cleared;
    return 0;
}
