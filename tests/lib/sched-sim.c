/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A simulation of pCPUs over the product's run queues: see sched-sim.h. */
#include "lib/sched-sim.h"

#include "base/alloc.h"

#include <errno.h>

uint64_t sim_random(struct sim *sim, uint64_t limit)
{
    sim->random ^= sim->random >> 12;
    sim->random ^= sim->random << 25;
    sim->random ^= sim->random >> 27;
    return (sim->random * UINT64_C(0x2545f4914f6cdd1d) >> 33) % limit;
}

static void notify(void *context, unsigned index)
{
    struct sim *sim = context;

    sim->pcpu[index].look = true;
}

int sim_init(struct sim *sim, const struct sim_config *config, unsigned vcpus)
{
    int error;

    *sim = (struct sim){.config = *config, .room = vcpus, .random = config->seed | 1};
    hv_clock_init_simulated(&sim->clock, (hv_ns){HV_NS_PER_S});
    sim->pcpu = hv_alloc(config->pcpus, sizeof(*sim->pcpu));
    sim->vcpu = hv_alloc(vcpus, sizeof(struct sim_vcpu *));
    error =
        hv_runqueues_init(&sim->queues, config->pcpus, &sim->clock, &config->tuning, notify, sim);
    if (error < 0 || !sim->pcpu || !sim->vcpu) {
        sim_finish(sim);
        return -ENOMEM;
    }
    for (unsigned i = 0; i < config->pcpus; i++) {
        sim->pcpu[i] = (struct sim_pcpu){.queue = &sim->queues.queue[i], .look = true};
    }
    return 0;
}

static enum hv_sched_verdict never_run(void *context, struct hv_worker *worker, hv_ns slice_end)
{
    (void)context;
    (void)worker;
    (void)slice_end;
    return HV_SCHED_BLOCK;
}

void sim_add(struct sim *sim, struct sim_vcpu *vcpu, struct hv_sched_group *group, unsigned index,
             void *program)
{
    sim_add_at(sim, vcpu, group, index, program, sim->vcpus);
}

void sim_add_at(struct sim *sim, struct sim_vcpu *vcpu, struct hv_sched_group *group,
                unsigned index, void *program, unsigned home)
{
    *vcpu = (struct sim_vcpu){.sim = sim, .program = program, .wake_at = HV_NS_NEVER};
    hv_doorbell_init(&vcpu->bell);
    vcpu->entity.run = never_run;
    vcpu->entity.bell = &vcpu->bell;
    vcpu->entity.group = group;
    vcpu->entity.index = index;
    hv_entity_begin_slice(&vcpu->entity);
    hv_runqueue_add(&sim->queues, &vcpu->entity, home);
    if (group) {
        group->member[index] = &vcpu->entity;
    }
    sim->vcpu[sim->vcpus++] = vcpu;
    hv_runqueue_wake(&vcpu->entity);
}

/* ---- what vCPUs do ---- */

void sim_do(struct sim_vcpu *vcpu, uint64_t span_ns)
{
    if (vcpu->running) {
        vcpu->until = hv_ns_add(sim_now(vcpu->sim), span_ns);
    } else {
        vcpu->left_ns = span_ns;
    }
}

void sim_halt(struct sim_vcpu *vcpu, uint64_t span_ns)
{
    vcpu->halts = true;
    vcpu->wake_at = span_ns == SIM_FOR_EVER ? HV_NS_NEVER : hv_ns_add(sim_now(vcpu->sim), span_ns);
    /* What comes after the HLT is decided when it runs again. */
    sim_do(vcpu, 0);
}

void sim_rest(struct sim_vcpu *vcpu)
{
    vcpu->rests = true;
}

uint64_t sim_ran(const struct sim_vcpu *vcpu)
{
    uint64_t ran = hv_load_relaxed(&vcpu->entity.counters.run_ns);

    return vcpu->running ? ran + (sim_now(vcpu->sim).v - vcpu->entity.since.v) : ran;
}

/* ---- pCPUs ---- */

static void stop(struct sim_pcpu *pcpu, enum hv_sched_verdict verdict)
{
    struct sim_vcpu *vcpu = pcpu->vcpu;
    hv_ns now = sim_now(vcpu->sim);

    vcpu->left_ns = hv_ns_before(now, vcpu->until) ? vcpu->until.v - now.v : 0;
    vcpu->running = vcpu->halts = vcpu->rests = false;
    if (vcpu->sim->config.end) {
        vcpu->sim->config.end(vcpu);
    }
    pcpu->vcpu = NULL;
    pcpu->look = true;
    hv_runqueue_put_back(pcpu->queue, &vcpu->entity, verdict);
}

static void start(struct sim *sim, struct sim_pcpu *pcpu)
{
    struct hv_sched_entity *entity;
    struct sim_vcpu *vcpu;
    hv_ns now = sim_now(sim);
    uint64_t slice;
    bool fresh;

    pcpu->look = false;
    hv_runqueue_awake(pcpu->queue);
    while (!(entity = hv_runqueue_pick(pcpu->queue, &pcpu->slice_end))) {
        if (hv_runqueue_idle(pcpu->queue)) {
            return;
        }
        hv_runqueue_awake(pcpu->queue);
    }
    vcpu = HV_CONTAINER_OF(entity, struct sim_vcpu, entity);
    slice = pcpu->slice_end.v - now.v;
    /* What is of a budget is not to be run over. */
    if (sim->config.jitter_pct && entity->reserved_ns == 0) {
        uint64_t pct =
            100 - sim->config.jitter_pct + sim_random(sim, 2 * sim->config.jitter_pct + 1);

        pcpu->slice_end = hv_ns_add(now, slice * pct / 100);
    }
    fresh = pcpu->last_ran != vcpu;
    if (fresh) {
        hv_entity_begin_slice(entity);
    }
    pcpu->last_ran = vcpu;
    vcpu->running = true;
    vcpu->wake_at = HV_NS_NEVER;
    vcpu->until = hv_ns_add(now, vcpu->left_ns + (fresh ? sim->config.switch_ns : 0));
    pcpu->vcpu = vcpu;
    sim->switches++;
    if (sim->config.begin) {
        sim->config.begin(vcpu);
    }
}

/* All that falls due on the pCPU by now. */
static void serve(struct sim *sim, struct sim_pcpu *pcpu)
{
    hv_ns now = sim_now(sim);

    hv_runqueue_tick(pcpu->queue);
    if (pcpu->vcpu && !hv_ns_before(now, pcpu->vcpu->until)) {
        struct sim_vcpu *vcpu = pcpu->vcpu;

        sim->config.act(vcpu);
        if (vcpu->halts) {
            stop(pcpu, HV_SCHED_HALT);
        } else if (vcpu->rests) {
            stop(pcpu, HV_SCHED_YIELD);
        }
    }
    if (pcpu->vcpu && !hv_ns_before(now, hv_runqueue_slice_end(pcpu->queue, pcpu->slice_end))) {
        stop(pcpu, HV_SCHED_YIELD);
    }
    if (!pcpu->vcpu && pcpu->look) {
        start(sim, pcpu);
    }
}

static hv_ns earlier(hv_ns a, hv_ns b)
{
    return hv_ns_before(b, a) ? b : a;
}

/* When the pCPU next has something to do: not before now. */
static hv_ns next_of(const struct sim_pcpu *pcpu)
{
    hv_ns next = hv_runqueue_next(pcpu->queue);

    if (pcpu->vcpu) {
        next = earlier(next, pcpu->vcpu->until);
        next = earlier(next, hv_runqueue_slice_end(pcpu->queue, pcpu->slice_end));
    } else if (pcpu->look) {
        next = (hv_ns){0};
    }
    return next;
}

/* Serve the one moment that comes next, by @end. False when there is none. */
static bool step(struct sim *sim, hv_ns end)
{
    struct sim_pcpu *pcpu = NULL;
    struct sim_vcpu *sleeper = NULL;
    hv_ns next = HV_NS_NEVER;

    for (unsigned i = 0; i < sim->config.pcpus; i++) {
        hv_ns moment = next_of(&sim->pcpu[i]);

        if (hv_ns_before(moment, next)) {
            next = moment;
            pcpu = &sim->pcpu[i];
        }
    }
    for (unsigned i = 0; i < sim->vcpus; i++) {
        if (hv_ns_before(sim->vcpu[i]->wake_at, next)) {
            next = sim->vcpu[i]->wake_at;
            sleeper = sim->vcpu[i];
        }
    }
    if (!hv_ns_before(next, end)) {
        return false;
    }
    if (hv_ns_before(sim_now(sim), next)) {
        hv_clock_advance(&sim->clock, next.v - sim_now(sim).v);
    }
    if (sleeper) {
        sleeper->wake_at = HV_NS_NEVER;
        hv_runqueue_wake(&sleeper->entity);
    } else {
        serve(sim, pcpu);
    }
    return true;
}

void sim_run(struct sim *sim, uint64_t span_ns)
{
    hv_ns end = hv_ns_add(sim_now(sim), span_ns);

    while (step(sim, end)) {
    }
    hv_clock_advance(&sim->clock, end.v - sim_now(sim).v);
}

void sim_finish(struct sim *sim)
{
    for (unsigned i = 0; i < sim->config.pcpus; i++) {
        if (sim->pcpu && sim->pcpu[i].vcpu) {
            stop(&sim->pcpu[i], HV_SCHED_BLOCK);
        }
    }
    for (unsigned i = 0; i < sim->vcpus; i++) {
        struct hv_sched_entity *entity = &sim->vcpu[i]->entity;

        /* Picked by hand. */
        if (entity->state == HV_SCHED_STATE_RUNNING) {
            hv_runqueue_put_back(hv_load_relaxed(&entity->home), entity, HV_SCHED_BLOCK);
        }
        hv_runqueue_retire(entity);
    }
    hv_runqueues_finish(&sim->queues);
    hv_free(sim->pcpu);
    hv_free(sim->vcpu);
}
