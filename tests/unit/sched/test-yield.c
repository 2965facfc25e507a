/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * sched/yield: who may be yielded to, what it costs whom, and who is found by a pause loop. Queues
 * without threads, on a simulated clock; races with a pick by script.
 */
#include "sched/yield.h"

#include <stdlib.h>
#include <string.h>

#include "lib/sched-sim.h"
#include "lib/threads.h"
#include "sync/race.h"

#define VCPUS 8
#define SPAN  (10 * HV_NS_PER_S)

static struct sim sim;
static struct hv_sched_group group, others;
static struct sim_vcpu vcpus[VCPUS], rest[VCPUS];

static void hog(struct sim_vcpu *vcpu)
{
    sim_do(vcpu, SIM_FOR_EVER);
}

static bool start(unsigned pcpus, void (*act)(struct sim_vcpu *), struct hv_sched_tuning tuning)
{
    struct sim_config config = {
        .pcpus = pcpus, .tuning = tuning, .seed = tap_rng(), .jitter_pct = 0, .act = act};

    hv_group_init(&group, NULL);
    hv_group_init(&others, NULL);
    return sim_init(&sim, &config, 2 * VCPUS) == 0;
}

static void end(void)
{
    sim_finish(&sim);
    hv_group_finish(&group);
    hv_group_finish(&others);
}

static void add(unsigned index, unsigned home)
{
    sim_add_at(&sim, &vcpus[index], &group, index, NULL, home);
}

static struct hv_sched_entity *entity(unsigned index)
{
    return &vcpus[index].entity;
}

static struct hv_runqueue *queue_of(unsigned pcpu)
{
    return &sim.queues.queue[pcpu];
}

/* One pCPU, the first vCPU runs there, the others wait. */
static bool start_one(unsigned count)
{
    hv_ns slice_end;

    if (!start(1, hog, hv_sched_tuning_standard)) {
        return false;
    }
    for (unsigned i = 0; i < count; i++) {
        add(i, 0);
    }
    return hv_runqueue_pick(queue_of(0), &slice_end) == entity(0);
}

static uint64_t attempted(unsigned index)
{
    return entity(index)->counters.yields_attempted;
}

static uint64_t successful(unsigned index)
{
    return entity(index)->counters.yields_successful;
}

/* ---- ready ---- */

static void test_ready(void)
{
    struct hv_runqueue *queue;
    hv_ns slice_end;

    TAP_OK(start_one(2));
    queue = queue_of(0);
    TAP_OK(!entity(0)->ready);
    TAP_OK(entity(1)->ready);
    hv_clock_advance(&sim.clock, HV_NS_PER_MS);
    hv_runqueue_put_back(queue, entity(0), HV_SCHED_YIELD);
    TAP_OK(entity(0)->ready);
    TAP_OK(hv_runqueue_pick(queue, &slice_end) == entity(1));
    TAP_OK(!entity(1)->ready);
    hv_runqueue_put_back(queue, entity(1), HV_SCHED_BLOCK);
    TAP_OK(!entity(1)->ready);
    hv_runqueue_wake(entity(1));
    TAP_OK(entity(1)->ready);
    /* A wake of one that is ready is nothing; nor is one of a running one, until it blocks. */
    hv_runqueue_wake(entity(1));
    TAP_OK(entity(1)->ready);
    TAP_OK(hv_runqueue_pick(queue, &slice_end) == entity(1));
    hv_runqueue_put_back(queue, entity(1), HV_SCHED_BLOCK);
    TAP_OK(hv_runqueue_pick(queue, &slice_end) == entity(0));
    hv_runqueue_wake(entity(0));
    TAP_OK(!entity(0)->ready);
    hv_runqueue_put_back(queue, entity(0), HV_SCHED_HALT);
    TAP_OK(entity(0)->ready);
    hv_runqueue_retire(entity(0));
    TAP_OK(!entity(0)->ready);
    end();
}

/* Itself, a running one and a blocked one are never yielded to; one that waits is, and once. */
static void test_targets(void)
{
    struct hv_runqueue *queue;
    hv_ns slice_end;

    TAP_OK(start(2, hog, hv_sched_tuning_standard));
    for (unsigned i = 0; i < 5; i++) {
        add(i, 0);
    }
    TAP_OK(hv_runqueue_pick(queue_of(0), &slice_end) == entity(0));
    TAP_OK(hv_runqueue_pick(queue_of(1), &slice_end) == entity(1));
    queue = queue_of(0);
    TAP_OK(hv_runqueue_pick(queue, &slice_end) == entity(2));
    hv_runqueue_put_back(queue, entity(2), HV_SCHED_BLOCK);
    hv_store_seq(&queue->busy, true); /* with 0, still */
    TAP_OK(!hv_runqueue_yield_to(queue, entity(0), entity(0)));
    TAP_OK(!hv_runqueue_yield_to(queue, entity(0), entity(1)));
    TAP_OK(!hv_runqueue_yield_to(queue, entity(0), entity(2)));
    TAP_EQ(attempted(0), 3);
    TAP_EQ(successful(0), 0);
    TAP_EQ(hv_runqueue_slice_end(queue, slice_end).v, slice_end.v);
    /* 4 stands behind 3. */
    TAP_OK(hv_runqueue_yield_to(queue, entity(0), entity(4)));
    TAP_EQ(hv_runqueue_slice_end(queue, slice_end).v, sim_now(&sim).v);
    TAP_OK(!hv_runqueue_yield_to(queue, entity(0), entity(4)));
    TAP_EQ(attempted(0), 5);
    TAP_EQ(successful(0), 1);
    TAP_EQ(entity(4)->counters.boosts, 1);
    hv_runqueue_put_back(queue, entity(0), HV_SCHED_YIELD);
    TAP_OK(hv_runqueue_pick(queue, &slice_end) == entity(4));
    TAP_OK(!entity(4)->boosted);
    end();
}

/* From another queue it comes to the yielder's pCPU, though nobody waits there; or, when it may not,
 * it is next where it is, and who runs there makes way. */
static void test_moving(void)
{
    hv_ns slice_end;

    TAP_OK(start(2, hog, hv_sched_tuning_standard));
    for (unsigned i = 0; i < 4; i++) {
        add(i, 1);
    }
    TAP_OK(hv_runqueue_pick(queue_of(0), &slice_end) == entity(0));
    TAP_OK(hv_runqueue_pick(queue_of(1), &slice_end) == entity(1));
    TAP_EQ(queue_of(0)->waiting, 0);
    TAP_OK(hv_runqueue_yield_to(queue_of(0), entity(0), entity(3)));
    TAP_EQ(hv_runqueue_home(entity(3)), 0);
    hv_runqueue_put_back(queue_of(0), entity(0), HV_SCHED_YIELD);
    TAP_OK(hv_runqueue_pick(queue_of(0), &slice_end) == entity(3));
    hv_group_set(&group, &(struct hv_sched_parameters){.affinity = {{2}}});
    TAP_EQ(queue_of(1)->preempt_at, UINT64_MAX);
    TAP_OK(hv_runqueue_yield_to(queue_of(0), entity(3), entity(2)));
    TAP_EQ(hv_runqueue_home(entity(2)), 1);
    TAP_EQ(queue_of(1)->preempt_at, sim_now(&sim).v);
    hv_runqueue_put_back(queue_of(1), entity(1), HV_SCHED_YIELD);
    TAP_OK(hv_runqueue_pick(queue_of(1), &slice_end) == entity(2));
    end();
}

/* Where nobody runs it will be picked in a moment: taking it away would only delay it. */
static void test_about_to_run(void)
{
    hv_ns slice_end;

    TAP_OK(start(2, hog, hv_sched_tuning_standard));
    add(0, 0);
    TAP_OK(hv_runqueue_pick(queue_of(0), &slice_end) == entity(0));
    add(1, 1);
    TAP_OK(!hv_runqueue_yield_to(queue_of(0), entity(0), entity(1)));
    TAP_EQ(hv_runqueue_home(entity(1)), 1);
    end();
}

static void test_switched_off(void)
{
    struct hv_sched_tuning tuning = hv_sched_tuning_standard;
    hv_ns slice_end;

    tuning.boost = false;
    TAP_OK(start(1, hog, tuning));
    add(0, 0);
    add(1, 0);
    TAP_OK(hv_runqueue_pick(queue_of(0), &slice_end) == entity(0));
    TAP_OK(!hv_runqueue_yield_to(queue_of(0), entity(0), entity(1)));
    TAP_EQ(attempted(0), 1);
    TAP_EQ(entity(1)->counters.boosts, 0);
    end();
}

/* ---- the penalty ---- */

static uint64_t handicap_ns(unsigned index)
{
    return entity(index)->handicap * HV_VRATE_ONE.v / entity(index)->rate.v;
}

static void test_penalty(void)
{
    struct hv_runqueue *queue;
    hv_ns slice_end;
    uint64_t vtime;

    /* 6 slices by the length of the queue, 1 to 6 times 500 us. */
    TAP_EQ(hv_credit_penalty(3000000, 500000, 1), 3000000);
    TAP_EQ(hv_credit_penalty(3000000, 500000, 6), 3000000);
    TAP_EQ(hv_credit_penalty(3000000, 500000, 12), 1500000);
    TAP_EQ(hv_credit_penalty(3000000, 500000, 36), 500000);
    TAP_EQ(hv_credit_penalty(3000000, 500000, 1000), 500000);

    TAP_OK(start_one(2));
    queue = queue_of(0);
    TAP_OK(hv_runqueue_yield_to(queue, entity(0), entity(1)));
    TAP_EQ(handicap_ns(0), 3000000);
    vtime = entity(0)->vtime.v;
    hv_runqueue_put_back(queue, entity(0), HV_SCHED_YIELD);
    TAP_OK(hv_runqueue_pick(queue, &slice_end) == entity(1));
    /* Straight back: half. */
    hv_clock_advance(&sim.clock, 500 * HV_NS_PER_US);
    TAP_OK(hv_runqueue_yield_to(queue, entity(1), entity(0)));
    TAP_EQ(handicap_ns(1), 1500000);
    hv_runqueue_put_back(queue, entity(1), HV_SCHED_YIELD);
    TAP_OK(hv_runqueue_pick(queue, &slice_end) == entity(0));
    /* It was of the order: nothing is left of it, and nothing was paid. */
    TAP_EQ(entity(0)->handicap, 0);
    TAP_EQ(entity(0)->vtime.v, vtime);
    /* Not again within 6 ms. */
    TAP_OK(hv_runqueue_yield_to(queue, entity(0), entity(1)));
    TAP_EQ(entity(0)->handicap, 0);
    hv_runqueue_put_back(queue, entity(0), HV_SCHED_YIELD);
    TAP_OK(hv_runqueue_pick(queue, &slice_end) == entity(1));
    hv_runqueue_put_back(queue, entity(1), HV_SCHED_YIELD);
    TAP_OK(hv_runqueue_pick(queue, &slice_end) == entity(0));
    hv_clock_advance(&sim.clock, 6 * HV_NS_PER_MS);
    TAP_OK(hv_runqueue_yield_to(queue, entity(0), entity(1)));
    TAP_EQ(handicap_ns(0), 3000000);
    end();
}

/* The first two yield to each other whenever they can; the third only wants to run. */
static void ping_pong(struct sim_vcpu *vcpu)
{
    if (vcpu->entity.group == &group) {
        (void)hv_runqueue_yield_to(sim_queue(vcpu), &vcpu->entity, entity(1 - vcpu->entity.index));
        sim_do(vcpu, 100 * HV_NS_PER_US);
    } else {
        sim_do(vcpu, SIM_FOR_EVER);
    }
}

static uint64_t play_ping_pong(bool penalty, uint64_t *share_pct_out)
{
    struct hv_sched_tuning tuning = hv_sched_tuning_standard;
    uint64_t switches = UINT64_MAX;

    tuning.penalty = penalty;
    if (start(1, ping_pong, tuning)) {
        sim_add(&sim, &vcpus[0], &group, 0, NULL);
        sim_add(&sim, &vcpus[1], &group, 1, NULL);
        sim_add(&sim, &rest[0], &others, 0, NULL);
        sim_run(&sim, SPAN);
        switches = sim.switches;
        *share_pct_out = sim_ran(&rest[0]) * 100 / SPAN;
        end();
    }
    return switches;
}

static void test_ping_pong(void)
{
    uint64_t share_without = 0, share_with = 0;
    uint64_t without = play_ping_pong(false, &share_without);
    uint64_t with = play_ping_pong(true, &share_with);

    /* The third gets its half either way; with the penalty it is a game of fewer rounds. */
    TAP_OK(share_without >= 48 && share_without <= 52);
    TAP_OK(share_with >= 48 && share_with <= 52);
    TAP_OK(with < without);
}

/* ---- shares ---- */

/* One machine yields to somebody of its own every 50 us. */
static void malicious(struct sim_vcpu *vcpu)
{
    if (vcpu->entity.group == &group) {
        unsigned target = (unsigned)sim_random(&sim, 4);

        (void)hv_runqueue_yield_to(sim_queue(vcpu), &vcpu->entity, entity(target));
        sim_do(vcpu, 50 * HV_NS_PER_US);
    } else {
        sim_do(vcpu, SIM_FOR_EVER);
    }
}

static void test_fair_share(void)
{
    static const unsigned weights[] = {256, 512, 2048, 64};

    for (unsigned w = 0; w < HV_ARRAY_LEN(weights); w++) {
        uint64_t mine = 0, theirs = 0, want;

        TAP_OK(start(4, malicious, hv_sched_tuning_standard));
        hv_group_set(&others, &(struct hv_sched_parameters){.weight = weights[w]});
        for (unsigned i = 0; i < 4; i++) {
            sim_add(&sim, &vcpus[i], &group, i, NULL);
            sim_add(&sim, &rest[i], &others, i, NULL);
        }
        sim_run(&sim, SPAN);
        for (unsigned i = 0; i < 4; i++) {
            mine += sim_ran(&vcpus[i]);
            theirs += sim_ran(&rest[i]);
            TAP_OK(attempted(i) >= successful(i));
            TAP_OK(successful(i) > 0);
        }
        TAP_EQ(mine + theirs, 4 * SPAN);
        want = 4 * SPAN * 256 / (256 + weights[w]);
        if (mine * 100 > want * 103 || mine * 100 < want * 97) {
            tap_note("weight %u: %" PRIu64 " of %" PRIu64, weights[w], mine, want);
            TAP_OK(false);
        }
        end();
    }
}

/* ---- pause loops ---- */

static void in_kernel(unsigned index)
{
    hv_store_relaxed(&entity(index)->kernel_mode, true);
}

/* All but 0, which runs, are as a pause loop may find them. */
static void set_scene(void)
{
    hv_ns now = sim_now(&sim);

    hv_entity_note_ipi(entity(0), 5, now);
    hv_store_relaxed(&vcpus[4].bell.requests, HV_REQUEST_EVENT);
    in_kernel(3);
    in_kernel(2);
    hv_store_relaxed(&entity(2)->in_spin, true);
}

/* Looked at and tried in vain, by one who may not yield; then by one who may, and takes one. */
static void test_no_foreign_mutate(void)
{
    static struct hv_sched_entity before[VCPUS];
    static struct hv_doorbell bells[VCPUS];

    TAP_OK(start_one(6));
    for (unsigned round = 0; round < 3; round++) {
        sim.queues.tuning.boost = round == 2;
        if (round == 0) {
            /* Nobody but one who spins, too. */
            in_kernel(2);
            hv_store_relaxed(&entity(2)->in_spin, true);
        } else {
            set_scene();
        }
        for (unsigned i = 1; i < 6; i++) {
            before[i] = *entity(i);
            bells[i] = vcpus[i].bell;
        }
        for (unsigned scan = 0; scan < (round == 2 ? 1u : 5u); scan++) {
            TAP_EQ(hv_runqueue_on_spin(queue_of(0), entity(0)), round == 2);
        }
        for (unsigned i = 1; i < 6; i++) {
            /* The target of the yield that succeeds is 5; its neighbours' links change with it. */
            before[i].link = entity(i)->link;
            TAP_OK((memcmp(&before[i], entity(i), sizeof(before[i])) == 0) ==
                   !(round == 2 && i == 5));
            TAP_EQ(memcmp(&bells[i], &vcpus[i].bell, sizeof(bells[i])), 0);
        }
    }
    end();
}

/* Who was sent an interrupt, then who has one, then who was stopped in the kernel, in turns. */
static void test_candidates(void)
{
    static const unsigned order[] = {5, 4, 3};

    for (unsigned i = 0; i < HV_ARRAY_LEN(order); i++) {
        TAP_OK(start_one(6));
        set_scene();
        /* Those before it in the order are no candidates any more. */
        for (unsigned k = 0; k < i; k++) {
            hv_store_relaxed(&entity(order[k])->ready, false);
        }
        TAP_OK(hv_runqueue_on_spin(queue_of(0), entity(0)));
        TAP_EQ(entity(order[i])->counters.boosts, 1);
        TAP_EQ(group.last_boosted, order[i]);
        for (unsigned k = 0; k < i; k++) {
            hv_store_relaxed(&entity(order[k])->ready, true);
        }
        end();
    }
    /* An interrupt is waited for for 50 ms. */
    TAP_OK(start_one(6));
    hv_entity_note_ipi(entity(0), 5, sim_now(&sim));
    hv_clock_advance(&sim.clock, HV_YIELD_IPI_NS);
    TAP_OK(!hv_runqueue_on_spin(queue_of(0), entity(0)));
    TAP_EQ(attempted(0), 0);
    end();
}

static struct hv_sched_entity *running(void)
{
    for (unsigned i = 0; i < VCPUS; i++) {
        if (group.member[i] && entity(i)->state == HV_SCHED_STATE_RUNNING) {
            return entity(i);
        }
    }
    abort();
}

static void test_round_robin(void)
{
    TAP_OK(start_one(4));
    for (unsigned i = 1; i < 4; i++) {
        in_kernel(i);
    }
    for (unsigned i = 0; i < 6; i++) {
        unsigned want = 1 + i % 3;
        hv_ns slice_end;

        TAP_OK(hv_runqueue_on_spin(queue_of(0), entity(0)));
        TAP_EQ(group.last_boosted, want);
        hv_runqueue_put_back(queue_of(0), entity(0), HV_SCHED_YIELD);
        TAP_OK(hv_runqueue_pick(queue_of(0), &slice_end) == entity(want));
        hv_runqueue_put_back(queue_of(0), entity(want), HV_SCHED_YIELD);
        /* The spinner's turn again, when the others have had theirs. */
        while (hv_runqueue_pick(queue_of(0), &slice_end) != entity(0)) {
            hv_clock_advance(&sim.clock, HV_NS_PER_MS);
            hv_runqueue_put_back(queue_of(0), running(), HV_SCHED_YIELD);
        }
    }
    end();
}

/* A spinner is helped every other time that it is looked at. */
static void test_eligible(void)
{
    TAP_OK(start_one(2));
    sim.queues.tuning.boost = false; /* looks, and does not move anybody */
    in_kernel(1);
    hv_store_relaxed(&entity(1)->in_spin, true);
    for (unsigned i = 0; i < 6; i++) {
        TAP_OK(!hv_runqueue_on_spin(queue_of(0), entity(0)));
        TAP_EQ(attempted(0), (i + 1) / 2);
    }
    end();
}

/* Three tries, however many candidates there are. */
static void test_tries(void)
{
    TAP_OK(start_one(8));
    sim.queues.tuning.boost = false;
    for (unsigned i = 1; i < 8; i++) {
        in_kernel(i);
    }
    TAP_OK(!hv_runqueue_on_spin(queue_of(0), entity(0)));
    TAP_EQ(attempted(0), HV_YIELD_TRIES);
    TAP_EQ(successful(0), 0);
    end();
}

static void test_window(void)
{
    TAP_OK(start_one(2));
    for (unsigned window = HV_YIELD_WINDOW; window < HV_YIELD_WINDOW_MAX; window *= 2) {
        TAP_EQ(entity(0)->pause_window, window);
        TAP_OK(!hv_runqueue_on_spin(queue_of(0), entity(0)));
        TAP_OK(entity(0)->in_spin);
    }
    TAP_OK(!hv_runqueue_on_spin(queue_of(0), entity(0)));
    TAP_EQ(entity(0)->pause_window, HV_YIELD_WINDOW_MAX);
    hv_entity_begin_slice(entity(0));
    TAP_EQ(entity(0)->pause_window, HV_YIELD_WINDOW);
    TAP_OK(!entity(0)->in_spin);
    end();
}

/* ---- races ---- */

static _Atomic uint32_t answer;

static void yield_named(unsigned index, void *context)
{
    (void)context;
    hv_race_name_thread(10 + index);
    hv_store_seq(&answer, 1 + hv_runqueue_yield_to(queue_of(0), entity(0), entity(1)));
}

/* The target is picked by its own pCPU between the look and the lock. */
static void test_race_picked(void)
{
    struct threads threads;
    hv_ns slice_end;

    TAP_OK(start(2, hog, hv_sched_tuning_standard));
    add(0, 0);
    TAP_OK(hv_runqueue_pick(queue_of(0), &slice_end) == entity(0));
    add(1, 1);
    hv_store_seq(&answer, 0);
    hv_race_begin();
    hv_race_stop(10, "sched.yield.ready", 0);
    threads_start(&threads, 1, yield_named, NULL);
    TAP_OK(hv_race_await(10, "sched.yield.ready"));
    TAP_OK(hv_runqueue_pick(queue_of(1), &slice_end) == entity(1));
    hv_race_end();
    threads_join(&threads);
    TAP_EQ(answer, 1);
    TAP_EQ(hv_runqueue_home(entity(1)), 1);
    TAP_EQ(entity(1)->state, HV_SCHED_STATE_RUNNING);
    end();
}

/* The target changes homes between the look at it and the lock: the lock is that of the new one. */
static void test_race_moved(void)
{
    struct threads threads;
    hv_ns slice_end;

    TAP_OK(start(3, hog, hv_sched_tuning_standard));
    add(0, 0);
    TAP_OK(hv_runqueue_pick(queue_of(0), &slice_end) == entity(0));
    add(2, 1);
    TAP_OK(hv_runqueue_pick(queue_of(1), &slice_end) == entity(2));
    add(1, 1);
    hv_store_seq(&answer, 0);
    hv_race_begin();
    hv_race_stop(10, "sched.yield.home", 0);
    threads_start(&threads, 1, yield_named, NULL);
    TAP_OK(hv_race_await(10, "sched.yield.home"));
    /* Taken by the third pCPU, and put back there, where another runs already. */
    TAP_OK(hv_runqueue_pick(queue_of(2), &slice_end) == entity(1));
    hv_runqueue_put_back(queue_of(2), entity(1), HV_SCHED_YIELD);
    add(3, 2);
    TAP_OK(hv_runqueue_home(entity(1)) == 2);
    hv_store_seq(&queue_of(2)->busy, true);
    hv_race_end();
    threads_join(&threads);
    TAP_EQ(answer, 2);
    TAP_EQ(hv_runqueue_home(entity(1)), 0);
    TAP_EQ(queue_of(2)->waiting, 1);
    hv_store_seq(&queue_of(2)->busy, false);
    end();
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"pv.ready", test_ready},
        {"pv.ready.targets", test_targets},
        {"pv.ready.moving", test_moving},
        {"pv.ready.about-to-run", test_about_to_run},
        {"pv.counters.switched-off", test_switched_off},
        {"pv.pingpong", test_ping_pong},
        {"pv.pingpong.penalty", test_penalty},
        {"pv.fair-share", test_fair_share},
        {"pv.no-foreign-mutate", test_no_foreign_mutate},
        {"pv.ple.candidates", test_candidates},
        {"pv.ple.round-robin", test_round_robin},
        {"pv.ple.eligible", test_eligible},
        {"pv.ple.tries", test_tries},
        {"pv.ple-window", test_window},
        /* From here on by script. */
        {"pv.ready.race-picked", test_race_picked},
        {"pv.ready.race-moved", test_race_moved},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases) - (HV_CONFIG_RACE_POINTS ? 0 : 2));
}
