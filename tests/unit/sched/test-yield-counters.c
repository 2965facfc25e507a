/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * sched/yield: what it counts, against what was asked for and what came of it. Machines whose vCPUs
 * yield to anybody at any moment, themselves, sleepers and those who run among them.
 */
#include "sched/yield.h"

#include <string.h>

#include "lib/sched-sim.h"
#include "lib/tap.h"

#define VCPUS 6
#define PCPUS 3
#define SPAN  (2 * HV_NS_PER_S)

static struct sim sim;
static struct hv_sched_group groups[2];
static struct sim_vcpu vcpus[2][VCPUS];

/* As the callers have seen it. */
static struct {
    uint64_t asked, granted;
} seen[2][VCPUS];

static void act(struct sim_vcpu *vcpu)
{
    unsigned vm = vcpu->entity.group == &groups[1], me = vcpu->entity.index;
    struct sim_vcpu *target = &vcpus[sim_random(&sim, 8) == 0 ? !vm : vm][sim_random(&sim, VCPUS)];

    switch (sim_random(&sim, 4)) {
    case 0:
        sim_halt(vcpu, 1 + sim_random(&sim, 300 * HV_NS_PER_US));
        return;
    case 1:
        hv_runqueue_wake(&target->entity);
        break;
    default:
        break;
    }
    seen[vm][me].asked++;
    seen[vm][me].granted += hv_runqueue_yield_to(sim_queue(vcpu), &vcpu->entity, &target->entity);
    sim_do(vcpu, 1 + sim_random(&sim, 100 * HV_NS_PER_US));
}

static bool start(bool boost)
{
    struct sim_config config = {
        .pcpus = PCPUS, .tuning = hv_sched_tuning_standard, .seed = tap_rng(), .act = act};

    config.tuning.boost = boost;
    memset(seen, 0, sizeof(seen));
    if (sim_init(&sim, &config, 2 * VCPUS) < 0) {
        return false;
    }
    for (unsigned vm = 0; vm < 2; vm++) {
        hv_group_init(&groups[vm], NULL);
        for (unsigned i = 0; i < VCPUS; i++) {
            sim_add(&sim, &vcpus[vm][i], &groups[vm], i, NULL);
        }
    }
    return true;
}

static void end(void)
{
    sim_finish(&sim);
    hv_group_finish(&groups[0]);
    hv_group_finish(&groups[1]);
}

/* Each is counted when it is asked for, whatever it is refused for; and when it is granted, on both
 * sides. */
static void test_counters(void)
{
    for (unsigned boost = 0; boost < 2; boost++) {
        uint64_t asked = 0, granted = 0, boosts = 0;

        TAP_OK(start(boost));
        sim_run(&sim, SPAN);
        for (unsigned i = 0; i < 2 * VCPUS; i++) {
            const struct hv_sched_counters *counters = &vcpus[i / VCPUS][i % VCPUS].entity.counters;

            TAP_EQ(counters->yields_attempted, seen[i / VCPUS][i % VCPUS].asked);
            TAP_EQ(counters->yields_successful, seen[i / VCPUS][i % VCPUS].granted);
            asked += counters->yields_attempted;
            granted += counters->yields_successful;
            boosts += counters->boosts;
        }
        TAP_EQ(boosts, granted);
        TAP_OK(granted < asked);
        TAP_OK((granted > 1000) == boost);
        tap_note("%" PRIu64 " of %" PRIu64, granted, asked);
        end();
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {{"pv.counters", test_counters}};

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
