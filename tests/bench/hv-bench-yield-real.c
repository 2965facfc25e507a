/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * `hv-bench yield` in real time: the product's workers, and entities that work and spin for as long as
 * they are told. The steps of a machine are taken under a mutex of its own: the guest's lock is what
 * the steps say it is, and costs what its waiters spin and halt.
 */
#include "bench/hv-bench-yield.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "sched/sched-private.h"
#include "sched/yield.h"

#define PAUSE_NS 40 /* as in simulated time */

struct machine;

struct real_vcpu {
    struct hv_sched_entity entity;
    struct hv_doorbell bell;
    struct machine *machine;
    struct yield_vcpu *guest;
    struct hv_worker *worker; /* while it runs */
    uint64_t left_ns;         /* of what it does */
    bool spins;
    _Atomic bool nudged;
};

struct machine {
    struct yield_vm vm;
    struct hv_sched_group group;
    pthread_mutex_t steps;
    struct real_vcpu vcpu[YIELD_VCPUS_MAX];
};

static struct real_vcpu *real_of(const struct yield_vcpu *vcpu)
{
    struct machine *machine = HV_CONTAINER_OF(vcpu->vm, struct machine, vm);

    return &machine->vcpu[vcpu->index];
}

/* ---- what a step asks for ---- */

static void nudge(struct yield_vcpu *vcpu)
{
    hv_store_seq(&real_of(vcpu)->nudged, true);
}

static void wake(struct yield_vcpu *vcpu)
{
    hv_sched_wake(&real_of(vcpu)->entity);
}

static void kick(struct yield_vcpu *me, struct yield_vcpu *target)
{
    (void)hv_sched_kick_boost(real_of(me)->worker, &real_of(me)->entity, &real_of(target)->entity);
}

static void yield(struct yield_vcpu *me, struct yield_vcpu *target)
{
    (void)hv_sched_yield_to(real_of(me)->worker, &real_of(me)->entity, &real_of(target)->entity);
}

static void send(struct yield_vcpu *me, struct yield_vcpu *target)
{
    hv_sched_note_ipi(real_of(me)->worker->sched, &real_of(me)->entity, target->index);
    hv_doorbell_ring(&real_of(target)->bell, HV_REQUEST_EVENT);
}

static const struct yield_engine engine = {nudge, wake, kick, yield, send};

/* ---- a slice ---- */

enum outcome {
    OUTCOME_STEP,  /* what it did is done, or it was nudged */
    OUTCOME_SLICE, /* the slice is over */
    OUTCOME_LOOP,  /* it spins, and has for long */
};

/* Do what it does until something comes of it. */
static enum outcome go_on(struct real_vcpu *vcpu, hv_ns slice_end)
{
    const struct hv_clock *clock = vcpu->worker->sched->clock;
    uint64_t window_ns = (uint64_t)vcpu->entity.pause_window * PAUSE_NS;
    hv_ns began = hv_clock_now(clock);
    uint64_t went = 0;
    enum outcome outcome = OUTCOME_STEP;

    while (went < vcpu->left_ns && !hv_load_seq(&vcpu->nudged)) {
        if (hv_sched_slice_over(vcpu->worker, slice_end)) {
            outcome = OUTCOME_SLICE;
            break;
        }
        if (vcpu->spins && went >= window_ns) {
            outcome = OUTCOME_LOOP;
            break;
        }
        went = hv_clock_now(clock).v - began.v;
    }
    vcpu->left_ns -= went < vcpu->left_ns ? went : vcpu->left_ns;
    return outcome;
}

static bool step(struct real_vcpu *vcpu)
{
    struct yield_next next;

    pthread_mutex_lock(&vcpu->machine->steps);
    hv_store_seq(&vcpu->nudged, false);
    next = yield_step(vcpu->guest);
    if (next.halt) {
        vcpu->guest->running = false;
    }
    pthread_mutex_unlock(&vcpu->machine->steps);
    vcpu->left_ns = next.span_ns;
    vcpu->spins = next.spins;
    hv_sched_note_mode(&vcpu->entity, vcpu->guest->state != YIELD_STATE_THINK);
    return !next.halt;
}

static enum hv_sched_verdict run(void *context, struct hv_worker *worker, hv_ns slice_end)
{
    struct real_vcpu *vcpu = context;
    enum hv_sched_verdict verdict = HV_SCHED_HALT;
    bool more = true;

    vcpu->worker = worker;
    (void)hv_doorbell_take(&vcpu->bell);
    pthread_mutex_lock(&vcpu->machine->steps);
    yield_begin(vcpu->guest);
    pthread_mutex_unlock(&vcpu->machine->steps);
    while (more) {
        hv_worker_run_timers(worker);
        switch (go_on(vcpu, slice_end)) {
        case OUTCOME_STEP:
            more = step(vcpu);
            continue;
        case OUTCOME_LOOP:
            (void)hv_sched_on_spin(worker, &vcpu->entity);
            break;
        case OUTCOME_SLICE:
            break;
        }
        verdict = HV_SCHED_YIELD;
        more = false;
    }
    pthread_mutex_lock(&vcpu->machine->steps);
    vcpu->guest->running = false;
    pthread_mutex_unlock(&vcpu->machine->steps);
    return verdict;
}

/* ---- a run ---- */

static int start(struct hv_sched *sched, struct machine *machine,
                 const struct yield_parameters *parameters, enum yield_variant variant,
                 uint64_t seed)
{
    int rc = 0;

    yield_vm_init(&machine->vm, parameters, variant, (unsigned)parameters->pcpus, &engine, seed);
    hv_group_init(&machine->group, NULL);
    pthread_mutex_init(&machine->steps, NULL);
    for (unsigned i = 0; rc == 0 && i < machine->vm.vcpus; i++) {
        struct real_vcpu *vcpu = &machine->vcpu[i];

        hv_doorbell_init(&vcpu->bell);
        vcpu->machine = machine;
        vcpu->guest = &machine->vm.vcpu[i];
        vcpu->entity.run = run;
        vcpu->entity.context = vcpu;
        vcpu->entity.bell = &vcpu->bell;
        vcpu->entity.group = &machine->group;
        vcpu->entity.index = i;
        rc = hv_sched_entity_init(sched, &vcpu->entity, i);
    }
    for (unsigned i = 0; rc == 0 && i < machine->vm.vcpus; i++) {
        hv_sched_wake(&machine->vcpu[i].entity);
    }
    return rc;
}

static void stop(struct hv_sched *sched, struct machine *machine)
{
    for (unsigned i = 0; i < machine->vm.vcpus; i++) {
        hv_sched_retire(sched, &machine->vcpu[i].entity);
    }
}

static void collect(struct machine *machines, unsigned vms, double seconds,
                    struct yield_result *result)
{
    double ran[YIELD_VMS_MAX] = {0};

    *result = (struct yield_result){0};
    for (unsigned i = 0; i < vms; i++) {
        for (unsigned v = 0; v < machines[i].vm.vcpus; v++) {
            const struct yield_vcpu *guest = &machines[i].vm.vcpu[v];
            const struct hv_sched_counters *counters = &machines[i].vcpu[v].entity.counters;

            ran[i] += (double)hv_load_relaxed(&counters->run_ns);
            result->records_per_s += (double)guest->records / seconds / vms;
            result->kicks += (double)guest->kicks;
            result->halts += (double)guest->halts;
            result->switches += (double)hv_load_relaxed(&counters->switches);
            result->attempted += (double)hv_load_relaxed(&counters->yields_attempted);
            result->successful += (double)hv_load_relaxed(&counters->yields_successful);
        }
    }
    result->share_error_pct = yield_share_error(ran, vms);
}

int yield_run_real(const struct yield_parameters *parameters, enum yield_variant variant,
                   unsigned vms, uint64_t span_ns, uint64_t seed, struct yield_result *result_out)
{
    struct machine *machines = calloc(vms, sizeof(*machines));
    const struct timespec span = {(time_t)(span_ns / HV_NS_PER_S), (long)(span_ns % HV_NS_PER_S)};
    struct hv_sched_config config = {
        .workers = (unsigned)parameters->pcpus,
        .no_boost = variant < YIELD_BOOST,
    };
    struct hv_sched *sched = NULL;
    struct hv_clock clock;
    double began, cpu_began;
    int rc = machines ? 0 : -ENOMEM;

    hv_clock_init_host(&clock);
    config.clock = &clock;
    if (rc == 0) {
        rc = hv_sched_create(&config, &sched);
    }
    if (rc < 0) {
        free(machines);
        return rc;
    }
    sched->queues.tuning.slice_ns = parameters->slice_ns;
    sched->queues.tuning.penalty = variant >= YIELD_PENALTY;
    began = bench_wall_ns();
    cpu_began = bench_process_ns();
    for (unsigned i = 0; rc == 0 && i < vms; i++) {
        rc = start(sched, &machines[i], parameters, variant, seed + i);
    }
    nanosleep(&span, NULL);
    for (unsigned i = 0; i < vms; i++) {
        stop(sched, &machines[i]);
    }
    collect(machines, vms, (bench_wall_ns() - began) / 1e9, result_out);
    result_out->cpu_pct = 100 * (bench_process_ns() - cpu_began) / (bench_wall_ns() - began) /
                          (double)parameters->pcpus;
    hv_sched_destroy(sched);
    for (unsigned i = 0; i < vms; i++) {
        hv_group_finish(&machines[i].group);
        pthread_mutex_destroy(&machines[i].steps);
    }
    free(machines);
    return rc;
}
