/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Hypercalls: KVM's, by VMCALL or VMMCALL. The number is in RAX, arguments in RBX, RCX, RDX and RSI,
 * of which code that is not 64-bit has the low halves; the result goes to RAX, negative for an error
 * of KVM's.
 *
 * A call that CPUID does not show is not there. Nothing a guest can pass harms anybody else: it names
 * vCPUs of its own machine by their APIC ids, and one that nobody has is nobody.
 *
 * Source: Linux, Documentation/virt/kvm/x86/hypercalls.rst; linux/kvm_para.h.
 */
#include "domain/domain.h"

#include "sync/race.h"

/* Numbers of linux/kvm_para.h. */
enum hypercall {
    HYPERCALL_VAPIC_POLL_IRQ = 1,
    HYPERCALL_KICK_CPU = 5,
    HYPERCALL_SEND_IPI = 10,
    HYPERCALL_SCHED_YIELD = 11,
};

enum hypercall_error {
    HYPERCALL_EPERM = 1,
    HYPERCALL_EINVAL = 22,
    HYPERCALL_ENOSYS = 1000,
};

/* What a call comes to. */
struct outcome {
    int64_t result;
    enum hv_hypercall_kind kind;
    bool slice_over;
};

struct arguments {
    uint64_t a[4];
    bool long_mode; /* of 64 bits each, else of 32 */
};

/* The vCPU that has APIC id @id, or NULL. */
static struct hv_vcpu *find_vcpu(struct hv_domain *domain, uint64_t id)
{
    int index = hv_lapics_find(&domain->platform.lapics, (uint32_t)id);

    return index < 0 ? NULL : &domain->vcpu[index];
}

/* An unlocked spin lock: its next owner sleeps, or is ready and waits for a pCPU. */
static struct outcome kick_cpu(struct hv_vcpu *me, struct hv_worker *worker,
                               const struct arguments *given)
{
    struct hv_vcpu *target = find_vcpu(me->domain, given->a[1]);
    struct outcome outcome = {.kind = HV_HYPERCALL_KICK_CPU};

    if (target) {
        hv_pv_kick(&me->domain->platform.pv, target->index);
        HV_RACE("hypercall.kick.set");
        outcome.slice_over = hv_sched_kick_boost(worker, &me->entity, &target->entity);
    }
    return outcome;
}

/* Interrupts were sent, and one of the receivers does not run. */
static struct outcome sched_yield_to(struct hv_vcpu *me, struct hv_worker *worker,
                                     const struct arguments *given)
{
    struct hv_vcpu *target = find_vcpu(me->domain, given->a[0]);
    struct outcome outcome = {.kind = HV_HYPERCALL_SCHED_YIELD};

    if (target) {
        outcome.slice_over = hv_sched_yield_to(worker, &me->entity, &target->entity);
    }
    return outcome;
}

static struct outcome send_ipi(struct hv_vcpu *me, const struct arguments *given)
{
    int reached =
        hv_lapic_send_many(&me->domain->platform.lapics.lapic[me->index], given->a,
                           given->long_mode ? 64 : 32, (uint32_t)given->a[2], given->a[3]);

    return (struct outcome){.result = reached < 0 ? -HYPERCALL_EINVAL : reached,
                            .kind = HV_HYPERCALL_SEND_IPI};
}

static struct outcome refuse(enum hypercall_error error)
{
    return (struct outcome){.result = -(int64_t)error, .kind = HV_HYPERCALL_REFUSED};
}

static struct outcome call(struct hv_vcpu *vcpu, struct hv_worker *worker, uint64_t number,
                           const struct arguments *given)
{
    const struct hv_pv *pv = &vcpu->domain->platform.pv;

    if (vcpu->cpu.cpl != 0) {
        return refuse(HYPERCALL_EPERM);
    }
    if (number == HYPERCALL_VAPIC_POLL_IRQ && pv->features) {
        /* To have left the guest was the purpose. */
        return (struct outcome){.kind = HV_HYPERCALL_POLL_IRQ};
    }
    if (number == HYPERCALL_KICK_CPU && hv_pv_has(pv, HV_PV_UNHALT)) {
        return kick_cpu(vcpu, worker, given);
    }
    if (number == HYPERCALL_SEND_IPI && hv_pv_has(pv, HV_PV_SEND_IPI)) {
        return send_ipi(vcpu, given);
    }
    if (number == HYPERCALL_SCHED_YIELD && hv_pv_has(pv, HV_PV_SCHED_YIELD)) {
        return sched_yield_to(vcpu, worker, given);
    }
    return refuse(HYPERCALL_ENOSYS);
}

bool hv_vcpu_hypercall(struct hv_vcpu *vcpu, struct hv_worker *worker)
{
    uint64_t *slot = vcpu->cpu.slot;
    bool long_mode = hv_cpu_code64(&vcpu->cpu);
    uint64_t mask = long_mode ? UINT64_MAX : UINT32_MAX;
    const struct arguments given = {
        .a = {slot[HV_REG_RBX] & mask, slot[HV_REG_RCX] & mask, slot[HV_REG_RDX] & mask,
              slot[HV_REG_RSI] & mask},
        .long_mode = long_mode,
    };
    struct outcome outcome = call(vcpu, worker, slot[HV_REG_RAX] & mask, &given);

    slot[HV_REG_RAX] = (uint64_t)outcome.result & mask;
    hv_count(&vcpu->hypercalls[outcome.kind], 1);
    return !outcome.slice_over;
}
