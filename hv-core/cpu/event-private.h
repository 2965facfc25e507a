/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One attempt at delivering one event, by mode: event.c strings them together by the double-fault
 * rules. Private to cpu/. */
#pragma once

#include "cpu/event.h"

struct hv_event {
    enum hv_event_kind kind;
    uint8_t vector;
    bool has_error;
    uint32_t error;
    uint64_t return_rip;
    uint64_t flags; /* RFLAGS as pushed, RF set for faults */
    uint32_t ext;   /* bit 0 of error codes of faults of this delivery (SDM 3A 6.13) */
};

/** INT n, INT3, INTO: the gate's DPL counts, and EXT is 0. */
static inline bool hv_event_is_software(const struct hv_event *event)
{
    return event->kind == HV_EVENT_SOFTWARE || event->kind == HV_EVENT_SOFTWARE_EXCEPTION;
}

/** Error code that names the event's IDT entry. */
static inline uint32_t hv_event_idt_error(const struct hv_event *event)
{
    return event->vector * 8u | 2u | event->ext;
}

/* Each returns as segment.h says. The handler is entered on 0. After a task switch HV_FAULTED can
 * also mean that the new task has begun with a fault: cpu->rip has then changed. */
HV_MUST_CHECK int hv_event_deliver_real(struct hv_cpu *cpu, const struct hv_access *access,
                                        const struct hv_event *event, struct hv_fault *fault_out);
HV_MUST_CHECK int hv_event_deliver_protected(struct hv_cpu *cpu, const struct hv_access *access,
                                             const struct hv_event *event,
                                             struct hv_fault *fault_out);
HV_MUST_CHECK int hv_event_deliver_long(struct hv_cpu *cpu, const struct hv_access *access,
                                        const struct hv_event *event, struct hv_fault *fault_out);
