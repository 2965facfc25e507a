/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * sched/runqueue: who comes for one who waits. Slices of those who are alone, a polled halt that
 * leaves two on one pCPU; by hand, on a clock that stands.
 */
#include "sched/runqueue.h"

#include "lib/sched-sim.h"
#include "lib/threads.h"
#include "sync/race.h"

static struct sim sim;
static struct sim_vcpu by_hand[4];
static struct hv_sched_group groups[4]; /* of one each */
static hv_ns slice_ends[2];

static void hog(struct sim_vcpu *vcpu)
{
    sim_do(vcpu, SIM_FOR_EVER);
}

static bool start(void)
{
    const struct sim_config config = {
        .pcpus = 2, .tuning = hv_sched_tuning_standard, .seed = tap_rng(), .act = hog};

    return sim_init(&sim, &config, HV_ARRAY_LEN(by_hand)) == 0;
}

static struct hv_runqueue *queue_of(unsigned index)
{
    return &sim.queues.queue[index];
}

/* An idle pCPU gets by_hand[number] to run. */
static bool give(unsigned pcpu, unsigned number, unsigned cap_percent)
{
    hv_group_init(&groups[number], &(struct hv_sched_parameters){.cap_percent = cap_percent});
    if (!hv_runqueue_idle(queue_of(pcpu))) {
        return false;
    }
    sim_add_at(&sim, &by_hand[number], &groups[number], 0, NULL, pcpu);
    hv_runqueue_awake(queue_of(pcpu));
    return hv_runqueue_pick(queue_of(pcpu), &slice_ends[pcpu]) == &by_hand[number].entity;
}

/* by_hand[0] and [1] run, on a pCPU each, since the clock's present; [2] sleeps. */
static bool occupy_both(void)
{
    if (!start() || !give(0, 2, 0)) {
        return false;
    }
    hv_runqueue_put_back(queue_of(0), &by_hand[2].entity, HV_SCHED_BLOCK);
    return give(0, 0, 0) && give(1, 1, 0);
}

static uint64_t end_of(unsigned pcpu)
{
    return hv_runqueue_slice_end(queue_of(pcpu), slice_ends[pcpu]).v;
}

static void leave(unsigned count)
{
    sim_finish(&sim);
    for (unsigned i = 0; i < count; i++) {
        hv_group_finish(&groups[i]);
    }
}

/* While nobody waits a slice is long; when somebody does, it ends as if it had begun anew each time. */
static void test_alone(void)
{
    hv_ns began;

    TAP_OK(occupy_both());
    began = sim_now(&sim);
    TAP_EQ(end_of(0), began.v + 100 * HV_NS_PER_MS);
    TAP_EQ(end_of(1), began.v + 100 * HV_NS_PER_MS);
    hv_clock_advance(&sim.clock, 7 * HV_NS_PER_MS + 500);
    /* Old enough not to interrupt anybody. */
    by_hand[2].entity.vtime.v += HV_NS_PER_S;
    sim.pcpu[1].look = false;
    hv_runqueue_wake(&by_hand[2].entity);
    TAP_EQ(end_of(0), began.v + 9 * HV_NS_PER_MS);
    TAP_EQ(end_of(1), began.v + 9 * HV_NS_PER_MS);
    TAP_OK(sim.pcpu[1].look);
    /* Another who waits brings nothing forward. */
    hv_clock_advance(&sim.clock, HV_NS_PER_MS);
    sim_add_at(&sim, &by_hand[3], NULL, 3, NULL, 1);
    TAP_EQ(end_of(0), began.v + 9 * HV_NS_PER_MS);
    /* Nor is one alone that begins while somebody waits. */
    hv_runqueue_put_back(queue_of(1), &by_hand[1].entity, HV_SCHED_BLOCK);
    TAP_OK(hv_runqueue_pick(queue_of(1), &slice_ends[1]));
    TAP_EQ(end_of(1), slice_ends[1].v);
    leave(3);
}

/* What is of a budget ends with it, and so does what comes to be of one. */
static void test_alone_capped(void)
{
    hv_ns began;

    TAP_OK(start());
    began = sim_now(&sim);
    TAP_OK(give(0, 0, 50));
    TAP_EQ(end_of(0), began.v + 3 * HV_NS_PER_MS);
    hv_runqueue_put_back(queue_of(0), &by_hand[0].entity, HV_SCHED_BLOCK);
    hv_group_set(&groups[0], &(struct hv_sched_parameters){0});
    hv_runqueue_wake(&by_hand[0].entity);
    TAP_OK(hv_runqueue_pick(queue_of(0), &slice_ends[0]));
    TAP_EQ(end_of(0), began.v + 100 * HV_NS_PER_MS);
    hv_group_set(&groups[0], &(struct hv_sched_parameters){.cap_percent = 50});
    hv_runqueue_settle(&by_hand[0].entity);
    TAP_EQ(end_of(0), began.v + 3 * HV_NS_PER_MS);
    leave(1);
}

static void pick_named(unsigned index, void *context)
{
    (void)context;
    hv_race_name_thread(1);
    (void)hv_runqueue_pick(queue_of(index), &slice_ends[index]);
}

/* Invariant 5: nobody waited when it looked, and somebody does before it has said that it is alone. */
static void test_alone_race(void)
{
    struct threads threads;
    hv_ns began;

    TAP_OK(occupy_both());
    began = sim_now(&sim);
    hv_runqueue_put_back(queue_of(0), &by_hand[0].entity, HV_SCHED_YIELD);
    hv_race_begin();
    hv_race_stop(1, "sched.pick.alone", 0);
    threads_start(&threads, 1, pick_named, NULL);
    TAP_OK(hv_race_await(1, "sched.pick.alone"));
    hv_runqueue_wake(&by_hand[2].entity);
    hv_race_end();
    threads_join(&threads);
    TAP_EQ(by_hand[2].entity.state, HV_SCHED_STATE_READY);
    TAP_EQ(end_of(0), began.v + 3 * HV_NS_PER_MS);
    leave(3);
}

/* ---- a polled halt ---- */

/*
 * [0] has halted and its pCPU looks for its wake, and is idle to others: it is given [2]. Then the wake
 * comes. Both want the pCPU, and the other one sleeps.
 */
static void test_polled_halt(void)
{
    struct hv_sched_entity *first, *second;

    TAP_OK(occupy_both());
    hv_runqueue_put_back(queue_of(1), &by_hand[1].entity, HV_SCHED_BLOCK);
    TAP_OK(hv_runqueue_idle(queue_of(0)));
    TAP_OK(hv_runqueue_idle(queue_of(1)));
    sim.pcpu[1].look = false;
    hv_runqueue_wake(&by_hand[2].entity);
    TAP_EQ(hv_runqueue_home(&by_hand[2].entity), 0);
    hv_runqueue_wake(&by_hand[0].entity);
    hv_runqueue_awake(queue_of(0));
    hv_runqueue_put_back(queue_of(0), &by_hand[0].entity, HV_SCHED_HALT);
    TAP_OK(sim.pcpu[1].look);
    TAP_EQ(queue_of(1)->idle, 0);
    first = hv_runqueue_pick(queue_of(0), &slice_ends[0]);
    second = hv_runqueue_pick(queue_of(1), &slice_ends[1]);
    TAP_OK(first && second && first != second);
    leave(3);
}

/* The same with nobody idle: who has a pCPU alone has it no more. */
static void test_polled_halt_busy(void)
{
    hv_ns began;

    TAP_OK(occupy_both());
    began = sim_now(&sim);
    TAP_OK(hv_runqueue_idle(queue_of(0)));
    hv_runqueue_wake(&by_hand[2].entity);
    TAP_EQ(end_of(1), began.v + 100 * HV_NS_PER_MS);
    hv_runqueue_wake(&by_hand[0].entity);
    hv_runqueue_awake(queue_of(0));
    hv_runqueue_put_back(queue_of(0), &by_hand[0].entity, HV_SCHED_HALT);
    TAP_EQ(end_of(1), began.v + 3 * HV_NS_PER_MS);
    leave(3);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"sched.runqueue.alone", test_alone},
        {"sched.runqueue.alone-capped", test_alone_capped},
        {"sched.runqueue.polled-halt", test_polled_halt},
        {"sched.runqueue.polled-halt-busy", test_polled_halt_busy},
        /* By script. */
        {"sched.runqueue.alone-race", test_alone_race},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases) - !HV_CONFIG_RACE_POINTS);
}
