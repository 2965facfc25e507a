/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Making a vCPU, and making it look up. */
#include "domain/vcpu.h"

#include "base/format.h"
#include "domain/core.h"
#include "domain/domain.h"

int hv_vcpu_init(struct hv_vcpu *vcpu, struct hv_domain *domain, unsigned index)
{
    vcpu->domain = domain;
    vcpu->index = index;
    vcpu->worker = index % hv_sched_workers(domain->core->sched);
    hv_format(vcpu->name, sizeof(vcpu->name), "vcpu%u", index);
    hv_doorbell_init(&vcpu->bell);
    hv_holder_init(&vcpu->holder, &vcpu->bell, vcpu->name, index);
    vcpu->cpu.policy = &domain->policy;
    vcpu->cpu.hooks = &hv_domain_cpu_hooks;
    vcpu->cpu.hook_context = vcpu;
    vcpu->cpu.apic_id = index;
    hv_cpu_reset(&vcpu->cpu, index == 0);
    vcpu->entity.run = hv_vcpu_run;
    vcpu->entity.context = vcpu;
    vcpu->entity.bell = &vcpu->bell;
    vcpu->entity.label = hv_handle_id(domain->handle);
    vcpu->entity.group = &domain->group;
    vcpu->entity.index = index;
    return hv_sched_entity_init(domain->core->sched, &vcpu->entity, index);
}

void hv_vcpu_kick(struct hv_vcpu *vcpu)
{
    hv_add_relaxed(&vcpu->kicks, 1);
    hv_doorbell_ring(&vcpu->bell, HV_REQUEST_EVENT);
    hv_sched_wake(&vcpu->entity);
}

void hv_vcpu_post_startup(struct hv_vcpu *vcpu, uint32_t bits)
{
    /* A new INIT overrides what a SIPI before it said; a second SIPI overrides the first. */
    uint32_t old = hv_load_relaxed(&vcpu->startup);
    uint32_t next;

    do {
        next = old | bits;
        if ((bits & HV_VCPU_STARTUP_NMI) && (old & HV_VCPU_STARTUP_NMI)) {
            next |= HV_VCPU_STARTUP_NMI_AGAIN;
        }
        if (bits & HV_VCPU_STARTUP_INIT) {
            next = (old & HV_VCPU_STARTUP_NMIS) | HV_VCPU_STARTUP_INIT;
        } else if (bits & HV_VCPU_STARTUP_SIPI) {
            next = (old & ~(uint32_t)HV_VCPU_STARTUP_VECTOR) | bits;
        }
    } while (!hv_cas_weak_seq(&vcpu->startup, &old, next));
    /* Not EVENT, which an engine serves without leaving: the run loop takes these. */
    hv_doorbell_ring(&vcpu->bell, HV_REQUEST_STOP);
    hv_sched_wake(&vcpu->entity);
}
