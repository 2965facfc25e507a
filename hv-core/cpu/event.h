/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Exceptions, interrupts and NMIs: their priority and their delivery through IVT, IDT (gates of all
 * widths, IST, task gates), with the double-fault and triple-fault rules.
 *
 *     fault --hv_event_exception--> handler
 *                |  second fault while delivering: benign -> deliver it; contributory or #PF -> #DF
 *                |  fault while delivering #DF -> HV_ACTIVITY_SHUTDOWN
 *
 * Source: SDM 3A chapter 6 (tables 6-4, 6-5; 6.8.3, 6.14), 6.12 (IDT), 20.1 (real mode).
 */
#pragma once

#include "cpu/access.h"

enum hv_event_kind {
    HV_EVENT_EXCEPTION, /* fault or trap found by the CPU */
    HV_EVENT_EXTERNAL,  /* hardware interrupt */
    HV_EVENT_NMI,
    HV_EVENT_SOFTWARE,            /* INT n */
    HV_EVENT_SOFTWARE_EXCEPTION,  /* INT3, INTO */
    HV_EVENT_PRIVILEGED_SOFTWARE, /* INT1 */
};

/**
 * Deliver an event: push the frame, load CS:RIP, go on at the handler.
 *
 * @return_rip  what is pushed: the faulting instruction's address, or the next one for traps and
 *              software interrupts.
 *
 * Faults of the delivery are handled inside, up to shutdown (cpu->activity). Returns 0 when the
 * handler (or shutdown) is in place; HV_FAULTED only for the three software kinds, when the way to
 * the handler faults (the caller raises it as the instruction's own fault, at cpu->rip); -EAGAIN or
 * another negative errno when nothing has changed and the delivery must be tried again.
 */
HV_MUST_CHECK int hv_event_deliver(struct hv_cpu *cpu, const struct hv_access *access,
                                   enum hv_event_kind kind, uint8_t vector, bool has_error,
                                   uint32_t error, uint64_t return_rip, struct hv_fault *fault_out);

/** Deliver the guest's exception @fault (CR2 set for #PF, RF in the frame) at cpu->rip. */
HV_MUST_CHECK int hv_event_exception(struct hv_cpu *cpu, const struct hv_access *access,
                                     const struct hv_fault *fault);

/**
 * Between two instructions: deliver the NMI or external interrupt that is due, if any and if IF and
 * the shadows allow. Clears HLT's activity when it does.
 *
 * Returns 1 when one was delivered, 0 when none, or a negative errno as hv_event_deliver().
 */
HV_MUST_CHECK int hv_event_poll(struct hv_cpu *cpu, const struct hv_access *access);

/** True when hv_event_poll() would deliver something now. */
bool hv_event_deliverable(const struct hv_cpu *cpu);
