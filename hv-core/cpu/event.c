/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which event is delivered when, and what becomes of faults while one is. */
#include "cpu/event.h"

#include "cpu/event-private.h"
#include "cpu/fault.h"

/* Deliveries that can follow one another: each step is graver than the one before. */
#define CHAIN_MOST 8

/* SDM 3A table 6-4. */
enum gravity { BENIGN, CONTRIBUTORY, PAGE_FAULT, DOUBLE_FAULT };

static enum gravity gravity_of(enum hv_event_kind kind, uint8_t vector)
{
    if (kind != HV_EVENT_EXCEPTION) {
        return BENIGN;
    }
    switch (vector) {
    case HV_VECTOR_DE:
    case HV_VECTOR_TS:
    case HV_VECTOR_NP:
    case HV_VECTOR_SS:
    case HV_VECTOR_GP:
        return CONTRIBUTORY;
    case HV_VECTOR_PF:
        return PAGE_FAULT;
    case HV_VECTOR_DF:
        return DOUBLE_FAULT;
    default:
        return BENIGN;
    }
}

/* Exceptions that restart their instruction: RF in the frame keeps an instruction breakpoint from
 * hitting twice (SDM 3B 17.3.1.1). */
static bool is_fault(enum hv_event_kind kind, uint8_t vector)
{
    return kind == HV_EVENT_EXCEPTION && vector != HV_VECTOR_DB && vector != HV_VECTOR_BP &&
           vector != HV_VECTOR_OF && vector != HV_VECTOR_DF && vector != HV_VECTOR_MC;
}

static void set_flags(const struct hv_cpu *cpu, struct hv_event *event)
{
    event->flags = hv_cpu_rflags(cpu);
    if (is_fault(event->kind, event->vector)) {
        event->flags |= HV_RFLAGS_RF;
    }
}

static int deliver_once(struct hv_cpu *cpu, const struct hv_access *access,
                        const struct hv_event *event, struct hv_fault *fault_out)
{
    if (!hv_cpu_protected(cpu)) {
        return hv_event_deliver_real(cpu, access, event, fault_out);
    }
    if (hv_cpu_long_mode(cpu)) {
        return hv_event_deliver_long(cpu, access, event, fault_out);
    }
    /* Without CR4.VME an INT n of virtual-8086 mode needs IOPL 3 (SDM 3A 20.3.3). */
    if (hv_cpu_v86(cpu) && event->kind == HV_EVENT_SOFTWARE &&
        (cpu->rflags & HV_RFLAGS_IOPL) != HV_RFLAGS_IOPL) {
        return hv_fault_gp0(fault_out);
    }
    return hv_event_deliver_protected(cpu, access, event, fault_out);
}

/* The event that follows a fault in the delivery of @event (SDM 3A table 6-5). False: shutdown. */
static bool follow(struct hv_event *event, const struct hv_fault *fault)
{
    enum gravity first = gravity_of(event->kind, event->vector);
    enum gravity second = gravity_of(HV_EVENT_EXCEPTION, fault->vector);
    bool doubled = (first == CONTRIBUTORY && second == CONTRIBUTORY) ||
                   (first == PAGE_FAULT && second != BENIGN);

    if (first == DOUBLE_FAULT) {
        return false;
    }
    event->kind = HV_EVENT_EXCEPTION;
    event->vector = doubled ? (uint8_t)HV_VECTOR_DF : fault->vector;
    event->has_error = doubled || fault->has_error;
    event->error = doubled ? 0 : fault->error;
    event->ext = 1;
    return true;
}

static void shut_down(struct hv_cpu *cpu)
{
    cpu->activity = HV_ACTIVITY_SHUTDOWN;
}

/* What every entry of a handler does beside the frame. */
static void entered(struct hv_cpu *cpu, const struct hv_event *event)
{
    cpu->sti_shadow = false;
    cpu->mov_ss_shadow = false;
    if (event->vector == HV_VECTOR_DB &&
        (event->kind == HV_EVENT_EXCEPTION || event->kind == HV_EVENT_PRIVILEGED_SOFTWARE)) {
        cpu->dr[7] &= ~HV_DR7_GD; /* so that the handler can reach the debug registers */
    }
}

/* Faults on the way to these handlers are faults of the instruction that asked for them. */
static bool belongs_to_instruction(enum hv_event_kind kind)
{
    return kind == HV_EVENT_SOFTWARE || kind == HV_EVENT_SOFTWARE_EXCEPTION ||
           kind == HV_EVENT_PRIVILEGED_SOFTWARE;
}

static int deliver(struct hv_cpu *cpu, const struct hv_access *access, struct hv_event event,
                   uint64_t cr2, struct hv_fault *fault_out)
{
    bool is_nmi = event.kind == HV_EVENT_NMI;
    uint64_t rip_before = cpu->rip;
    unsigned steps = 0;

    for (;;) {
        struct hv_fault fault = {0};
        int result;

        set_flags(cpu, &event);
        result = deliver_once(cpu, access, &event, &fault);
        if (result < 0) {
            return result;
        }
        if (result == 0) {
            entered(cpu, &event);
            break;
        }
        if (belongs_to_instruction(event.kind)) {
            *fault_out = fault;
            return HV_FAULTED;
        }
        if (fault.vector == HV_VECTOR_PF) {
            cr2 = fault.cr2;
        }
        if (++steps > CHAIN_MOST || !follow(&event, &fault)) {
            shut_down(cpu);
            break;
        }
        if (cpu->rip != rip_before) {
            event.return_rip = cpu->rip; /* a task switch got as far as the new task */
            rip_before = cpu->rip;
        }
    }
    cpu->cr2 = cr2;
    cpu->nmi_blocked |= is_nmi;
    return 0;
}

int hv_event_deliver(struct hv_cpu *cpu, const struct hv_access *access, enum hv_event_kind kind,
                     uint8_t vector, bool has_error, uint32_t error, uint64_t return_rip,
                     struct hv_fault *fault_out)
{
    struct hv_event event = {
        .kind = kind,
        .vector = vector,
        .has_error = has_error,
        .error = error,
        .return_rip = return_rip,
    };

    event.ext = hv_event_is_software(&event) ? 0 : 1;
    return deliver(cpu, access, event, cpu->cr2, fault_out);
}

int hv_event_exception(struct hv_cpu *cpu, const struct hv_access *access,
                       const struct hv_fault *fault)
{
    struct hv_event event = {
        .kind = HV_EVENT_EXCEPTION,
        .vector = fault->vector,
        .has_error = fault->has_error,
        .error = fault->error,
        .return_rip = cpu->rip,
        .ext = 1,
    };
    struct hv_fault never = {0};

    return deliver(cpu, access, event, fault->vector == HV_VECTOR_PF ? fault->cr2 : cpu->cr2,
                   &never);
}

/* STI holds NMIs back too, as some processors do (SDM 3C 24.4.2, "blocking by STI"): kernels take
 * STI and HLT for one step. */
static bool nmi_deliverable(const struct hv_cpu *cpu)
{
    return cpu->nmi_pending && !cpu->nmi_blocked && !cpu->mov_ss_shadow && !cpu->sti_shadow;
}

static bool interrupts_open(const struct hv_cpu *cpu)
{
    return (cpu->rflags & HV_RFLAGS_IF) && !cpu->sti_shadow && !cpu->mov_ss_shadow;
}

static bool awake_for_events(const struct hv_cpu *cpu)
{
    return cpu->activity == HV_ACTIVITY_RUNNING || cpu->activity == HV_ACTIVITY_HALTED;
}

bool hv_event_deliverable(const struct hv_cpu *cpu)
{
    if (!awake_for_events(cpu)) {
        return false;
    }
    return nmi_deliverable(cpu) ||
           (interrupts_open(cpu) &&
            (cpu->latched_interrupt || cpu->hooks->interrupt_pending(cpu->hook_context)));
}

/* The vector to deliver; false when the interrupt has gone. It stays latched until delivered: the
 * chip has forgotten it. */
static bool take_interrupt(struct hv_cpu *cpu)
{
    int vector;

    if (cpu->latched_interrupt) {
        return true;
    }
    vector = cpu->hooks->interrupt_acknowledge(cpu->hook_context);
    if (vector < 0) {
        return false;
    }
    cpu->latched_interrupt = (uint16_t)(HV_LATCHED_INTERRUPT | (vector & 0xff));
    return true;
}

static void wake(struct hv_cpu *cpu)
{
    if (cpu->activity == HV_ACTIVITY_HALTED) {
        cpu->activity = HV_ACTIVITY_RUNNING;
    }
}

int hv_event_poll(struct hv_cpu *cpu, const struct hv_access *access)
{
    struct hv_fault never;
    int result;

    if (!hv_event_deliverable(cpu)) {
        return 0;
    }
    if (nmi_deliverable(cpu)) {
        result =
            hv_event_deliver(cpu, access, HV_EVENT_NMI, HV_VECTOR_NMI, false, 0, cpu->rip, &never);
        if (result) {
            return result;
        }
        cpu->nmi_pending = false;
    } else {
        if (!take_interrupt(cpu)) {
            return 0;
        }
        result = hv_event_deliver(cpu, access, HV_EVENT_EXTERNAL, (uint8_t)cpu->latched_interrupt,
                                  false, 0, cpu->rip, &never);
        if (result) {
            return result;
        }
        cpu->latched_interrupt = 0;
    }
    wake(cpu);
    return 1;
}
