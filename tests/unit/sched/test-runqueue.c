/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sched/runqueue without threads: order, picking, preemption, affinity; shares and caps by number. */
#include "sched/runqueue.h"

#include "lib/sched-sim.h"
#include "lib/tap.h"

#define VMS_MAX   6
#define VCPUS_MAX 8

struct vm {
    struct hv_sched_group group;
    struct sim_vcpu vcpu[VCPUS_MAX];
    unsigned vcpus;
};

static struct sim sim;
static struct vm vms[VMS_MAX];

static void hog(struct sim_vcpu *vcpu)
{
    sim_do(vcpu, SIM_FOR_EVER);
}

static bool start(unsigned pcpus, void (*act)(struct sim_vcpu *))
{
    struct sim_config config = {
        .pcpus = pcpus,
        .tuning = hv_sched_tuning_standard,
        .jitter_pct = act == hog ? 30 : 0,
        .seed = tap_rng(),
        .act = act,
    };

    return sim_init(&sim, &config, VMS_MAX * VCPUS_MAX) == 0;
}

static void add_vm(unsigned index, unsigned vcpus, struct hv_sched_parameters parameters)
{
    struct vm *vm = &vms[index];

    hv_group_init(&vm->group, &parameters);
    vm->vcpus = vcpus;
    for (unsigned i = 0; i < vcpus; i++) {
        sim_add(&sim, &vm->vcpu[i], &vm->group, i, vm);
    }
}

static void end(unsigned count)
{
    sim_finish(&sim);
    for (unsigned i = 0; i < count; i++) {
        hv_group_finish(&vms[i].group);
    }
}

static uint64_t ran(unsigned index)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < vms[index].vcpus; i++) {
        sum += sim_ran(&vms[index].vcpu[i]);
    }
    return sum;
}

/* Within @error_pct per cent of @want, and say by how much if not. */
static bool near(uint64_t got, uint64_t want, unsigned error_pct)
{
    uint64_t off = got > want ? got - want : want - got;

    if (off * 100 > want * error_pct) {
        tap_note("got %" PRIu64 ", want %" PRIu64 " within %u %%", got, want, error_pct);
        return false;
    }
    return true;
}

#define SPAN (10 * HV_NS_PER_S)

/* ---- shares ---- */

/* Machines of different weight and size, more vCPUs than pCPUs: by weight, within 3 %. */
static void test_weights(void)
{
    static const struct {
        unsigned pcpus, vms;
        unsigned weight[4], vcpus[4];
    } rows[] = {
        {1, 2, {256, 512}, {1, 1}},
        {1, 2, {256, 256}, {1, 4}},
        {1, 3, {100, 200, 700}, {1, 1, 2}},
        {2, 3, {256, 256, 256}, {1, 1, 1}},
        {4, 2, {256, 768}, {8, 8}},
        {4, 3, {1000, 2000, 65535}, {4, 4, 4}},
        {2, 4, {256, 512, 1024, 256}, {2, 4, 2, 8}},
        {4, 4, {20000, 40000, 10000, 50000}, {3, 5, 2, 8}},
        {2, 2, {512, 256}, {2, 2}},
        {3, 2, {512, 256}, {3, 3}},
        {1, 2, {512, 256}, {1, 1}},
        {8, 2, {512, 256}, {8, 8}},
    };

    for (unsigned r = 0; r < HV_ARRAY_LEN(rows); r++) {
        uint64_t sum = 0;

        TAP_OK(start(rows[r].pcpus, hog));
        for (unsigned i = 0; i < rows[r].vms; i++) {
            add_vm(i, rows[r].vcpus[i], (struct hv_sched_parameters){.weight = rows[r].weight[i]});
            sum += rows[r].weight[i];
        }
        sim_run(&sim, SPAN);
        for (unsigned i = 0; i < rows[r].vms; i++) {
            uint64_t want = rows[r].pcpus * SPAN * rows[r].weight[i] / sum;

            if (!near(ran(i), want, 3)) {
                tap_note("row %u, machine %u", r, i);
                TAP_OK(false);
            }
        }
        end(rows[r].vms);
    }
}

/*
 * One machine asks for more than its one vCPU can have: it has a whole pCPU, the others share the
 * rest by their weights, and it is owed nothing when another comes to share its pCPU.
 */
static void test_infeasible(void)
{
    uint64_t before;

    TAP_OK(start(2, hog));
    add_vm(0, 1, (struct hv_sched_parameters){.weight = 65535});
    add_vm(1, 1, (struct hv_sched_parameters){.weight = 256});
    add_vm(2, 1, (struct hv_sched_parameters){.weight = 512});
    sim_run(&sim, SPAN);
    TAP_OK(near(ran(0), SPAN, 1));
    TAP_OK(near(ran(1), SPAN / 3, 3));
    TAP_OK(near(ran(2), 2 * SPAN / 3, 3));
    /* As light as the others from now on: it gets its third, not what it saved. */
    TAP_EQ(hv_sched_check_parameters(&(struct hv_sched_parameters){.weight = 256}, 2, NULL, 0), 0);
    hv_group_set(&vms[0].group, &(struct hv_sched_parameters){.weight = 256});
    hv_group_set(&vms[2].group, &(struct hv_sched_parameters){.weight = 256});
    before = ran(0);
    sim_run(&sim, SPAN);
    TAP_OK(near(ran(0) - before, 2 * SPAN / 3, 3));
    end(3);
}

static bool rested; /* of the sleeper: its next millisecond is one of work */

/* Machine 0 runs for 1 ms and sleeps for 1 ms. */
static void sleeper_or_hog(struct sim_vcpu *vcpu)
{
    if (vcpu->program == &vms[0]) {
        rested = !rested;
        if (rested) {
            sim_do(vcpu, HV_NS_PER_MS);
        } else {
            sim_halt(vcpu, HV_NS_PER_MS);
        }
    } else {
        hog(vcpu);
    }
}

/* Who sleeps is served soon when it wakes, and hoards nothing while it sleeps. */
static void test_sleeper(void)
{
    struct hv_sched_counters *counters;

    rested = false;
    TAP_OK(start(1, sleeper_or_hog));
    add_vm(0, 1, (struct hv_sched_parameters){0});
    add_vm(1, 1, (struct hv_sched_parameters){0});
    sim_run(&sim, SPAN);
    counters = &vms[0].vcpu[0].entity.counters;
    /* It wants half, and is to get no more; and waits less than a whole slice of the other's. */
    TAP_OK(ran(0) > SPAN / 3);
    TAP_OK(ran(0) <= SPAN / 2);
    TAP_OK(counters->ready_ns / counters->wakes < 2 * HV_NS_PER_MS);
    TAP_OK(vms[1].vcpu[0].entity.counters.preempted > 1000);
    end(2);
}

/* It slept for long: what it takes from the other when it is back is one bonus. */
static void test_no_hoard(void)
{
    uint64_t before[2];

    TAP_OK(start(1, hog));
    add_vm(0, 1, (struct hv_sched_parameters){0});
    sim_run(&sim, SPAN);
    add_vm(1, 1, (struct hv_sched_parameters){0});
    before[0] = ran(0);
    sim_run(&sim, 100 * HV_NS_PER_MS);
    TAP_OK(near(ran(0) - before[0], 50 * HV_NS_PER_MS, 5));
    before[0] = ran(0);
    before[1] = ran(1);
    sim_run(&sim, SPAN);
    TAP_OK(near(ran(0) - before[0], SPAN / 2, 1));
    TAP_OK(near(ran(1) - before[1], SPAN / 2, 1));
    end(2);
}

/* ---- caps ---- */

/* What it is worth in each period: never more, but for a crumb; and all of it when it is wanted. */
static void test_caps(void)
{
    static const unsigned caps[] = {1, 5, 25, 50, 100, 150, 300};

    for (unsigned c = 0; c < HV_ARRAY_LEN(caps); c++) {
        uint64_t full = HV_GROUP_PERIOD_NS / 100 * caps[c];
        uint64_t before = 0;

        TAP_OK(start(4, hog));
        add_vm(0, 4, (struct hv_sched_parameters){.cap_percent = caps[c]});
        for (unsigned period = 0; period < 200; period++) {
            uint64_t now;

            sim_run(&sim, HV_GROUP_PERIOD_NS);
            now = ran(0);
            if (now - before > full + HV_GROUP_CRUMB_NS) {
                tap_note("cap %u, period %u: %" PRIu64 " of %" PRIu64, caps[c], period,
                         now - before, full);
                TAP_OK(false);
            }
            before = now;
        }
        TAP_OK(near(before, 200 * full, 1));
        end(1);
    }
}

/* A cap leaves the rest to the others, and to nobody when there are none. */
static void test_cap_and_weight(void)
{
    TAP_OK(start(2, hog));
    add_vm(0, 2, (struct hv_sched_parameters){.weight = 512, .cap_percent = 40});
    add_vm(1, 2, (struct hv_sched_parameters){0});
    sim_run(&sim, SPAN);
    TAP_OK(near(ran(0), SPAN * 40 / 100, 1));
    TAP_OK(near(ran(0) + ran(1), 2 * SPAN, 1));
    /* Without it, by weight again. */
    hv_group_set(&vms[0].group, &(struct hv_sched_parameters){.weight = 512});
    sim_run(&sim, SPAN);
    TAP_OK(near(ran(0), SPAN * 40 / 100 + SPAN * 4 / 3, 2));
    end(2);
}

/* ---- affinity ---- */

static struct hv_sched_parameters pinned(uint64_t mask)
{
    return (struct hv_sched_parameters){.affinity = {{mask}}};
}

static void test_affinity(void)
{
    TAP_OK(start(2, hog));
    add_vm(0, 2, pinned(1));
    add_vm(1, 1, pinned(2));
    sim_run(&sim, SPAN);
    TAP_OK(near(ran(0), SPAN, 1));
    TAP_OK(near(ran(1), SPAN, 1));
    TAP_EQ(vms[0].vcpu[0].entity.counters.migrations, 0);
    TAP_EQ(hv_runqueue_home(&vms[1].vcpu[0].entity), 1);
    /* The other way round, while they run. */
    hv_group_set(&vms[0].group, &(struct hv_sched_parameters){.affinity = {{2}}});
    hv_group_set(&vms[1].group, &(struct hv_sched_parameters){.affinity = {{1}}});
    for (unsigned i = 0; i < sim.vcpus; i++) {
        hv_runqueue_settle(&sim.vcpu[i]->entity);
    }
    sim_run(&sim, SPAN);
    TAP_OK(near(ran(0), 2 * SPAN, 1));
    TAP_OK(near(ran(1), 2 * SPAN, 1));
    TAP_EQ(hv_runqueue_home(&vms[1].vcpu[0].entity), 0);
    end(2);
}

/* One pCPU idles while somebody waits who may not run there: it sleeps, and does not look for ever. */
static void test_affinity_idle(void)
{
    TAP_OK(start(2, hog));
    add_vm(0, 3, pinned(1));
    sim_run(&sim, SPAN);
    TAP_OK(near(ran(0), SPAN, 1));
    TAP_EQ(sim.queues.queue[1].idle, 1);
    /* Who is allowed everywhere has the other pCPU to itself. */
    add_vm(1, 1, (struct hv_sched_parameters){0});
    sim_run(&sim, SPAN);
    TAP_OK(near(ran(1), SPAN, 1));
    end(2);
}

/* ---- order, by hand ---- */

static struct sim_vcpu by_hand[4];

static bool start_by_hand(unsigned pcpus, unsigned count)
{
    if (!start(pcpus, hog)) {
        return false;
    }
    for (unsigned i = 0; i < count; i++) {
        sim_add(&sim, &by_hand[i], NULL, i, NULL);
        by_hand[i].entity.home = &sim.queues.queue[i % pcpus];
    }
    return true;
}

static void test_accounting(void)
{
    struct hv_sched_entity *entity = &by_hand[0].entity;
    struct hv_sched_counters *counters = &entity->counters;
    struct hv_runqueue *queue;
    hv_ns slice_end;

    TAP_OK(start(1, hog));
    queue = &sim.queues.queue[0];
    sim_add(&sim, &by_hand[0], NULL, 0, NULL);
    hv_clock_advance(&sim.clock, 20);
    TAP_OK(hv_runqueue_pick(queue, &slice_end) == entity);
    TAP_EQ(slice_end.v, sim_now(&sim).v + 3 * HV_NS_PER_MS);
    hv_clock_advance(&sim.clock, 3);
    hv_runqueue_put_back(queue, entity, HV_SCHED_YIELD);
    hv_clock_advance(&sim.clock, 5);
    TAP_OK(hv_runqueue_pick(queue, &slice_end) == entity);
    hv_clock_advance(&sim.clock, 1000);
    hv_runqueue_put_back(queue, entity, HV_SCHED_BLOCK);
    hv_clock_advance(&sim.clock, 7);
    hv_runqueue_wake(entity);
    hv_runqueue_retire(entity);
    TAP_EQ(counters->blocked_ns, 7);
    TAP_EQ(counters->ready_ns, 25);
    TAP_EQ(counters->steal_ns, 5); /* the rest was the wait after its wake */
    TAP_EQ(counters->run_ns, 1003);
    TAP_EQ(counters->switches, 2);
    TAP_EQ(counters->migrations, 0);
    TAP_EQ(counters->wakes, 2);
    TAP_EQ(sim.queues.everyone.active, 0);
    sim_finish(&sim);
}

/* The youngest of all queues, our own with a head start. */
static void test_picking(void)
{
    struct hv_runqueue *queue;
    hv_ns slice_end;

    TAP_OK(start_by_hand(2, 0));
    queue = &sim.queues.queue[0];
    for (unsigned i = 0; i < 4; i++) {
        sim_add(&sim, &by_hand[i], NULL, i, NULL);
    }
    /* 0 and 2 wait in our queue, 1 and 3 in the other. */
    TAP_EQ(sim.queues.queue[1].waiting, 2);
    /* Four of one group get older at four times the speed, and so long is the head start. */
    by_hand[1].entity.vtime.v -= 4 * HV_NS_PER_MS + 1;
    sim.queues.queue[1].head = by_hand[1].entity.vtime.v;
    TAP_OK(hv_runqueue_pick(queue, &slice_end) == &by_hand[1].entity);
    TAP_EQ(hv_runqueue_home(&by_hand[1].entity), 0);
    TAP_EQ(by_hand[1].entity.counters.migrations, 1);
    hv_runqueue_put_back(queue, &by_hand[1].entity, HV_SCHED_BLOCK);
    TAP_OK(hv_runqueue_pick(queue, &slice_end) == &by_hand[0].entity);
    hv_runqueue_put_back(queue, &by_hand[0].entity, HV_SCHED_BLOCK);
    TAP_OK(hv_runqueue_pick(queue, &slice_end) == &by_hand[2].entity);
    hv_runqueue_put_back(queue, &by_hand[2].entity, HV_SCHED_BLOCK);
    TAP_OK(!hv_runqueue_idle(queue));
    hv_runqueue_awake(queue);
    TAP_OK(hv_runqueue_pick(queue, &slice_end) == &by_hand[3].entity);
    hv_runqueue_put_back(queue, &by_hand[3].entity, HV_SCHED_BLOCK);
    TAP_OK(!hv_runqueue_pick(queue, &slice_end));
    TAP_OK(hv_runqueue_idle(queue));
    sim_finish(&sim);
}

/* Not before the rate limit, and only who has run for a slice's least. */
static void test_preemption(void)
{
    struct hv_runqueue *queue;
    hv_ns slice_end, began;

    TAP_OK(start_by_hand(1, 2));
    queue = &sim.queues.queue[0];
    TAP_OK(hv_runqueue_pick(queue, &slice_end) == &by_hand[0].entity);
    hv_runqueue_put_back(queue, &by_hand[0].entity, HV_SCHED_BLOCK);
    TAP_OK(hv_runqueue_pick(queue, &slice_end) == &by_hand[1].entity);
    began = sim_now(&sim);
    hv_clock_advance(&sim.clock, 100 * HV_NS_PER_US);
    hv_runqueue_wake(&by_hand[0].entity);
    /* Both were as old, and 100 us are no reason. */
    TAP_EQ(hv_runqueue_slice_end(queue, slice_end).v, slice_end.v);
    hv_runqueue_put_back(queue, &by_hand[1].entity, HV_SCHED_YIELD);
    TAP_OK(hv_runqueue_pick(queue, &slice_end) == &by_hand[0].entity);
    hv_runqueue_put_back(queue, &by_hand[0].entity, HV_SCHED_BLOCK);
    TAP_OK(hv_runqueue_pick(queue, &slice_end) == &by_hand[1].entity);
    began = sim_now(&sim);
    hv_clock_advance(&sim.clock, 700 * HV_NS_PER_US);
    hv_runqueue_wake(&by_hand[0].entity);
    TAP_EQ(hv_runqueue_slice_end(queue, slice_end).v, began.v + HV_NS_PER_MS);
    hv_runqueue_put_back(queue, &by_hand[1].entity, HV_SCHED_YIELD);
    TAP_EQ(hv_runqueue_slice_end(queue, slice_end).v, slice_end.v);
    TAP_EQ(by_hand[1].entity.counters.preempted, 1);
    sim_finish(&sim);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"sched.runqueue.accounting", test_accounting},
        {"sched.runqueue.picking", test_picking},
        {"sched.runqueue.preemption", test_preemption},
        {"sched.runqueue.weights", test_weights},
        {"sched.runqueue.infeasible", test_infeasible},
        {"sched.runqueue.sleeper", test_sleeper},
        {"sched.runqueue.no-hoard", test_no_hoard},
        {"sched.runqueue.caps", test_caps},
        {"sched.runqueue.cap-and-weight", test_cap_and_weight},
        {"sched.runqueue.affinity", test_affinity},
        {"sched.runqueue.affinity-idle", test_affinity_idle},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
