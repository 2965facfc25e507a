/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The run loop of one vCPU: what happens between two stays in the guest.
 *
 *     requests served, areas settled -> may it run? -> INIT, SIPI, NMI -> timers of this worker
 *        -> anything to do? -> engine until an exit -> exit handled -> again, until the slice is over
 *
 * Context: a worker's thread. Nothing here holds a lock across the engine.
 */
#include "domain/domain.h"

#include "cpu/event.h"
#include "domain/core.h"
#include "sync/futex.h"
#include "sync/lock-profile.h"

#define SERVED_BY_ENGINE (HV_REQUEST_FLUSH | HV_REQUEST_EPOCH | HV_REQUEST_CODE)

static bool may_run(const struct hv_domain *domain)
{
    return hv_load_seq(&domain->state) == HV_DOMAIN_STATE_RUNNING && !hv_load_seq(&domain->held);
}

/* Count in before looking at the state: pairs with hv_domain_stop_vcpus(). */
static bool enter_domain(struct hv_domain *domain)
{
    hv_add_seq(&domain->active, 1);
    return may_run(domain);
}

static void leave_domain(struct hv_domain *domain)
{
    if (hv_sub_seq(&domain->active, 1) == 1) {
        hv_futex_wake(&domain->active, INT32_MAX);
        hv_domain_wake_reaper(domain);
    }
}

/*
 * One NMI is taken and one more may wait until that is over (SDM 3A 6.7.1). Of two that came
 * together the second stays posted; true when the vCPU is to come back for it at once.
 */
static bool apply_nmis(struct hv_vcpu *vcpu, uint32_t bits)
{
    bool again = (bits & HV_VCPU_STARTUP_NMI_AGAIN) || vcpu->cpu.nmi_pending;

    if (!(bits & HV_VCPU_STARTUP_NMI)) {
        return false;
    }
    vcpu->cpu.nmi_pending = true;
    if (again && !vcpu->cpu.nmi_blocked) {
        hv_or_seq(&vcpu->startup, HV_VCPU_STARTUP_NMI);
        return true;
    }
    return false;
}

/*
 * SDM 3A 8.4.4: INIT puts the CPU to wait for a SIPI, whose vector is the page it starts in. Returns
 * as apply_nmis().
 */
static bool apply_startup(struct hv_vcpu *vcpu)
{
    uint32_t bits;
    bool again;

    if (hv_load_relaxed(&vcpu->startup) == 0) {
        return false;
    }
    /* In this order: pairs with nobody_hears(). */
    hv_and_seq(&vcpu->domain->halted, ~((uint64_t)1 << vcpu->index));
    bits = hv_swap_seq(&vcpu->startup, 0);
    again = apply_nmis(vcpu, bits);
    if (bits & HV_VCPU_STARTUP_INIT) {
        hv_cpu_take_init(&vcpu->cpu);
        hv_platform_init_cpu(&vcpu->domain->platform, vcpu->index);
    }
    if (bits & HV_VCPU_STARTUP_SIPI) {
        hv_cpu_take_sipi(&vcpu->cpu, (uint8_t)(bits & HV_VCPU_STARTUP_VECTOR));
    }
    /* Not for an NMI: it waits until an instruction that has talked to a device is done (D9). */
    if (bits & (HV_VCPU_STARTUP_INIT | HV_VCPU_STARTUP_SIPI)) {
        vcpu->domain->ops->state_changed(vcpu->engine);
    }
    return again;
}

/*
 * All vCPUs said that they wait with interrupts off, which leaves INIT, SIPI and NMI: posted by a
 * vCPU that had not said so yet, or by the platform. In this order: what the platform posts until it
 * says that there will be nothing more is seen after; and what was posted stands, or its taker has
 * taken back his word before he took it.
 */
static bool nobody_hears(struct hv_domain *domain, uint64_t halted)
{
    uint64_t all = UINT64_MAX >> (HV_MAX_VCPUS - domain->vcpus);

    if (halted != all ||
        hv_platform_may_rouse(&domain->platform, all & ~hv_load_seq(&domain->nmi_deaf))) {
        return false;
    }
    for (unsigned i = 0; i < domain->vcpus; i++) {
        if (hv_load_seq(&domain->vcpu[i].startup) || hv_pv_kicked(&domain->platform.pv, i)) {
            return false;
        }
    }
    return hv_load_seq(&domain->halted) == all;
}

/* The vCPU waits with interrupts off, or for a SIPI. True when none of the domain ever goes on. */
static bool say_halted(struct hv_vcpu *vcpu)
{
    struct hv_domain *domain = vcpu->domain;
    uint64_t bit = (uint64_t)1 << vcpu->index;

    if (vcpu->cpu.activity == HV_ACTIVITY_WAIT_SIPI || vcpu->cpu.nmi_blocked) {
        hv_or_seq(&domain->nmi_deaf, bit);
    } else {
        hv_and_seq(&domain->nmi_deaf, ~bit);
    }
    return nobody_hears(domain, hv_or_seq(&domain->halted, bit) | bit);
}

/* A kick ends a HLT, whatever IF says; one that waits for a SIPI does not hear it. */
static bool take_kick(struct hv_vcpu *vcpu)
{
    struct hv_pv *pv = &vcpu->domain->platform.pv;

    if (HV_LIKELY(!hv_pv_kicked(pv, vcpu->index))) {
        return false;
    }
    /* In this order: pairs with nobody_hears(). */
    hv_and_seq(&vcpu->domain->halted, ~((uint64_t)1 << vcpu->index));
    if (!hv_pv_take_kick(pv, vcpu->index) || vcpu->cpu.activity != HV_ACTIVITY_HALTED) {
        return false;
    }
    vcpu->cpu.activity = HV_ACTIVITY_RUNNING;
    return true;
}

/*
 * True when the vCPU has nothing to do until somebody kicks it. When all of a domain's vCPUs wait
 * where nothing can reach them, nobody ever will, and the domain ends.
 */
static bool idle(struct hv_vcpu *vcpu)
{
    bool deaf;

    if (vcpu->cpu.activity == HV_ACTIVITY_RUNNING || take_kick(vcpu) ||
        (vcpu->cpu.activity == HV_ACTIVITY_HALTED && hv_event_deliverable(&vcpu->cpu))) {
        return false;
    }
    deaf = vcpu->cpu.activity == HV_ACTIVITY_WAIT_SIPI || !(vcpu->cpu.rflags & HV_RFLAGS_IF);
    if (deaf && say_halted(vcpu)) {
        hv_domain_end(vcpu->domain, HV_DOMAIN_END_HALTED, 0, vcpu->index,
                      "every vCPU waits with interrupts off");
    }
    return true;
}

/* True when the slice may go on. */
static bool handle_exit(struct hv_vcpu *vcpu, struct hv_worker *worker, const struct hv_exit *exit)
{
    struct hv_domain *domain = vcpu->domain;

    switch (exit->kind) {
    case HV_EXIT_PREEMPT:
    case HV_EXIT_DEADLINE:
    case HV_EXIT_RESET_CPU:
    case HV_EXIT_IO:
        break;
    case HV_EXIT_PAUSE_LOOP:
        /* Who spins waits for a vCPU that may want this worker, whether or not it was found. */
        (void)hv_sched_on_spin(worker, &vcpu->entity);
        return false;
    case HV_EXIT_HLT:
        hv_count(&vcpu->halts, 1);
        break;
    case HV_EXIT_HYPERCALL:
        return hv_vcpu_hypercall(vcpu, worker);
    case HV_EXIT_SHUTDOWN:
        hv_domain_end(domain, HV_DOMAIN_END_TRIPLE_FAULT, 0, vcpu->index, "triple fault");
        break;
    case HV_EXIT_NO_MEMORY:
        hv_domain_end(domain, HV_DOMAIN_END_NO_MEMORY, 0, vcpu->index,
                      "the host has no memory for a page of the guest");
        break;
    case HV_EXIT_ERROR:
    case HV_EXIT_KINDS:
        hv_domain_end(domain, HV_DOMAIN_END_CRASH, (uint32_t)-exit->error, vcpu->index,
                      exit->reason ? exit->reason : "the engine cannot go on");
        break;
    }
    return true;
}

static uint64_t ready_ns(const struct hv_vcpu *vcpu)
{
    return hv_load_relaxed(&vcpu->entity.counters.ready_ns);
}

/* What the guest's last instruction, or another vCPU, wants done before its next one. */
static void settle(struct hv_vcpu *vcpu)
{
    if (hv_pv_settle(&vcpu->domain->platform.pv, vcpu->index, ready_ns(vcpu)) < 0) {
        hv_domain_end(vcpu->domain, HV_DOMAIN_END_NO_MEMORY, 0, vcpu->index,
                      "the host has no memory for a page of the guest");
    }
}

/* One round; true when the slice should go on. */
static bool run_once(struct hv_vcpu *vcpu, struct hv_worker *worker, hv_ns slice_end,
                     enum hv_sched_verdict *verdict_out)
{
    struct hv_domain *domain = vcpu->domain;
    uint32_t requests = hv_doorbell_take(&vcpu->bell);
    struct hv_qsbr_thread *reader = hv_worker_reader(worker);
    struct hv_exit exit = {0};
    uint64_t budget;
    hv_ns deadline;

    if (requests & SERVED_BY_ENGINE) {
        domain->ops->serve(vcpu->engine, requests & SERVED_BY_ENGINE);
    }
    hv_doorbell_acknowledge(&vcpu->bell);
    settle(vcpu);
    *verdict_out = HV_SCHED_BLOCK;
    if (!may_run(domain)) {
        return false;
    }
    budget = apply_startup(vcpu) ? 1 : 0;
    hv_platform_settle_clock(&domain->platform);
    hv_worker_run_timers(worker);
    hv_platform_update_timers(&domain->platform, vcpu->index);
    if (idle(vcpu)) {
        *verdict_out =
            hv_pv_halt_polled(&domain->platform.pv, vcpu->index) ? HV_SCHED_HALT : HV_SCHED_BLOCK;
        return false;
    }
    hv_and_seq(&domain->halted, ~((uint64_t)1 << vcpu->index));
    *verdict_out = HV_SCHED_YIELD;
    if (hv_sched_slice_over(worker, slice_end)) {
        return false;
    }
    deadline = hv_worker_set_deadline(worker, &vcpu->bell, slice_end);
    hv_qsbr_offline(reader);
    hv_engine_run(domain->ops, vcpu->engine, deadline, budget, &exit);
    hv_qsbr_online(reader);
    hv_worker_clear_deadline(worker);
    return handle_exit(vcpu, worker, &exit);
}

/* It has a pCPU. */
static void arrive(struct hv_vcpu *vcpu)
{
    struct hv_domain *domain = vcpu->domain;

    if (hv_pv_enter(&domain->platform.pv, vcpu->index, ready_ns(vcpu))) {
        domain->ops->serve(vcpu->engine, HV_REQUEST_FLUSH);
    }
}

/* Its timers fire where it runs. */
static void follow_worker(struct hv_vcpu *vcpu, struct hv_worker *worker)
{
    unsigned index = hv_worker_index(worker);

    if (vcpu->worker != index) {
        vcpu->worker = index;
        hv_platform_rehome_timers(&vcpu->domain->platform, vcpu->index,
                                  hv_sched_timer_queue(vcpu->domain->core->sched, index));
    }
}

enum hv_sched_verdict hv_vcpu_run(void *context, struct hv_worker *worker, hv_ns slice_end)
{
    struct hv_vcpu *vcpu = context;
    enum hv_sched_verdict verdict = HV_SCHED_BLOCK;

    hv_lock_set_waiter(&vcpu->domain->locks, vcpu->index);
    if (enter_domain(vcpu->domain)) {
        follow_worker(vcpu, worker);
        arrive(vcpu);
        while (run_once(vcpu, worker, slice_end, &verdict)) {
        }
        if (verdict == HV_SCHED_YIELD) {
            hv_pv_leave(&vcpu->domain->platform.pv, vcpu->index);
        }
        hv_sched_note_mode(&vcpu->entity, vcpu->cpu.cpl == 0);
    }
    hv_lock_set_waiter(NULL, 0);
    leave_domain(vcpu->domain);
    return verdict;
}
