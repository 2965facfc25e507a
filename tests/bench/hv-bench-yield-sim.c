/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `hv-bench yield` in simulated time: the product's run queues and yields, on tests/lib/sched-sim. */
#include "bench/hv-bench-yield.h"

#include "lib/sched-sim.h"

#include <errno.h>
#include <stdlib.h>

/* A PAUSE of the guest, for the window of the pause loop. */
#define PAUSE_NS 40

struct machine {
    struct yield_vm vm;
    struct hv_sched_group group;
    struct sim_vcpu vcpu[YIELD_VCPUS_MAX];
};

static struct sim_vcpu *sim_of(const struct yield_vcpu *vcpu)
{
    struct machine *machine = HV_CONTAINER_OF(vcpu->vm, struct machine, vm);

    return &machine->vcpu[vcpu->index];
}

/* Go on after @cost_ns more of what it does. */
static void delay(struct sim_vcpu *vcpu, uint64_t cost_ns)
{
    vcpu->delay_ns += cost_ns;
}

static void nudge(struct yield_vcpu *vcpu)
{
    vcpu->nudged = true;
    sim_do(sim_of(vcpu), 0);
}

static void wake(struct yield_vcpu *vcpu)
{
    hv_runqueue_wake(&sim_of(vcpu)->entity);
}

static void kick(struct yield_vcpu *me, struct yield_vcpu *target)
{
    delay(sim_of(me), me->vm->parameters->kick_ns);
    hv_runqueue_wake(&sim_of(target)->entity);
    if (me->vm->variant != YIELD_KICK) {
        (void)hv_runqueue_yield_to(sim_queue(sim_of(me)), &sim_of(me)->entity,
                                   &sim_of(target)->entity);
    }
}

static void yield(struct yield_vcpu *me, struct yield_vcpu *target)
{
    if (me->vm->variant != YIELD_KICK) {
        delay(sim_of(me), me->vm->parameters->kick_ns);
        (void)hv_runqueue_yield_to(sim_queue(sim_of(me)), &sim_of(me)->entity,
                                   &sim_of(target)->entity);
    }
}

static void send(struct yield_vcpu *me, struct yield_vcpu *target)
{
    hv_entity_note_ipi(&sim_of(me)->entity, target->index, sim_now(sim_of(me)->sim));
    hv_store_relaxed(&sim_of(target)->bell.requests, HV_REQUEST_EVENT);
}

static const struct yield_engine engine = {nudge, wake, kick, yield, send};

/* The next stretch of spinning: until it is out of patience, or leaves the guest for its PAUSEs. */
static void spin(struct sim_vcpu *vcpu)
{
    uint64_t window_ns = (uint64_t)vcpu->entity.pause_window * PAUSE_NS;

    vcpu->out_of_patience = vcpu->patience_ns <= window_ns;
    sim_do(vcpu, vcpu->out_of_patience ? vcpu->patience_ns : window_ns);
    vcpu->patience_ns -= vcpu->out_of_patience ? vcpu->patience_ns : window_ns;
}

static void apply(struct sim_vcpu *vcpu, struct yield_next next)
{
    struct yield_vcpu *guest = vcpu->program;
    uint64_t delay_ns = vcpu->delay_ns;

    vcpu->delay_ns = 0;
    vcpu->spins = next.spins;
    hv_store_relaxed(&vcpu->entity.kernel_mode, guest->state != YIELD_STATE_THINK);
    if (next.spins) {
        vcpu->patience_ns = next.span_ns;
        spin(vcpu);
    } else if (next.halt) {
        sim_halt(vcpu, SIM_FOR_EVER);
        sim_do(vcpu, next.span_ns);
    } else {
        sim_do(vcpu, next.span_ns + delay_ns);
    }
}

static void act(struct sim_vcpu *vcpu)
{
    struct yield_vcpu *guest = vcpu->program;

    if (vcpu->spins && !guest->nudged && !vcpu->out_of_patience) {
        /* As the run loop at HV_EXIT_PAUSE_LOOP, with boost or without. */
        (void)hv_runqueue_on_spin(sim_queue(vcpu), &vcpu->entity);
        spin(vcpu);
        sim_rest(vcpu);
        return;
    }
    guest->nudged = false;
    apply(vcpu, yield_step(guest));
}

static void begin(struct sim_vcpu *vcpu)
{
    hv_store_relaxed(&vcpu->bell.requests, 0);
    yield_begin(vcpu->program);
}

static void leave(struct sim_vcpu *vcpu)
{
    ((struct yield_vcpu *)vcpu->program)->running = false;
}

static void collect(const struct sim *sim, struct machine *machines, unsigned vms, uint64_t span_ns,
                    struct yield_result *result)
{
    double ran[YIELD_VMS_MAX] = {0};

    *result = (struct yield_result){.switches = (double)sim->switches};
    for (unsigned i = 0; i < vms; i++) {
        for (unsigned v = 0; v < machines[i].vm.vcpus; v++) {
            const struct yield_vcpu *guest = &machines[i].vm.vcpu[v];
            const struct hv_sched_counters *counters = &machines[i].vcpu[v].entity.counters;

            ran[i] += (double)sim_ran(&machines[i].vcpu[v]);
            result->records_per_s += (double)guest->records * 1e9 / (double)span_ns / vms;
            result->kicks += (double)guest->kicks;
            result->halts += (double)guest->halts;
            result->attempted += (double)hv_load_relaxed(&counters->yields_attempted);
            result->successful += (double)hv_load_relaxed(&counters->yields_successful);
        }
    }
    result->share_error_pct = yield_share_error(ran, vms);
}

int yield_run_sim(const struct yield_parameters *parameters, enum yield_variant variant,
                  unsigned vms, uint64_t span_ns, uint64_t seed, struct yield_result *result_out)
{
    struct machine *machines = calloc(vms, sizeof(*machines));
    unsigned vcpus = (unsigned)parameters->pcpus;
    struct sim_config config = {
        .pcpus = vcpus,
        .tuning = hv_sched_tuning_standard,
        .switch_ns = parameters->switch_ns,
        .jitter_pct = (unsigned)parameters->jitter_pct,
        .seed = seed,
        .act = act,
        .begin = begin,
        .end = leave,
    };
    struct sim sim;
    int rc;

    if (!machines) {
        return -ENOMEM;
    }
    config.tuning.slice_ns = parameters->slice_ns;
    config.tuning.boost = variant >= YIELD_BOOST;
    config.tuning.penalty = variant >= YIELD_PENALTY;
    rc = sim_init(&sim, &config, vms * vcpus);
    if (rc < 0) {
        free(machines);
        return rc;
    }
    for (unsigned i = 0; i < vms; i++) {
        yield_vm_init(&machines[i].vm, parameters, variant, vcpus, &engine, seed + i);
        hv_group_init(&machines[i].group, NULL);
    }
    for (unsigned v = 0; v < vcpus; v++) {
        for (unsigned i = 0; i < vms; i++) {
            sim_add(&sim, &machines[i].vcpu[v], &machines[i].group, v, &machines[i].vm.vcpu[v]);
        }
    }
    sim_run(&sim, span_ns);
    collect(&sim, machines, vms, span_ns, result_out);
    sim_finish(&sim);
    for (unsigned i = 0; i < vms; i++) {
        hv_group_finish(&machines[i].group);
    }
    free(machines);
    return 0;
}
