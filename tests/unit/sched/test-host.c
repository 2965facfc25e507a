/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sched/host: a thread for each entity, used again; and what both policies do with a halt. */
#include "sched/sched.h"

#include <errno.h>

#include "base/alloc.h"
#include "lib/fake-entity.h"
#include "lib/threads.h"
#include "sched/halt-poll.h"
#include "sched/sched-private.h"

static struct hv_clock host;
static struct hv_sched *sched;
static struct fake_entity fakes[4];

static int start(enum hv_sched_policy policy)
{
    const struct hv_sched_config config = {.workers = 1, .policy = policy, .clock = &host};

    hv_clock_init_host(&host);
    return hv_sched_create(&config, &sched);
}

static enum hv_sched_state state_of(struct fake_entity *fake)
{
    struct hv_runqueue *home = hv_load_seq(&fake->entity.home);
    enum hv_sched_state state;

    hv_lock_take(&home->lock);
    state = fake->entity.state;
    hv_lock_drop(&home->lock);
    return state;
}

static bool is_blocked(struct fake_entity *fake)
{
    return state_of(fake) == HV_SCHED_STATE_BLOCKED;
}

static void test_run_and_block(void)
{
    TAP_EQ(start(HV_SCHED_POLICY_HOST), 0);
    TAP_EQ(hv_sched_workers(sched), 1);
    for (unsigned i = 0; i < 4; i++) {
        fake_entity_init(&fakes[i], sched, i, 0);
        fakes[i].yields = 3;
    }
    for (unsigned round = 1; round <= 10; round++) {
        for (unsigned i = 0; i < 4; i++) {
            hv_sched_wake(&fakes[i].entity);
        }
        for (unsigned i = 0; i < 4; i++) {
            TAP_AWAIT(hv_load_seq(&fakes[i].runs) >= round + 3 && is_blocked(&fakes[i]));
        }
    }
    for (unsigned i = 0; i < 4; i++) {
        TAP_EQ(fakes[i].overlaps, 0);
        TAP_EQ(fakes[i].entity.counters.migrations, 0);
        hv_sched_retire(sched, &fakes[i].entity);
        hv_sched_retire(sched, &fakes[i].entity);
    }
    hv_sched_destroy(sched);
}

/* The second has the first's thread; a wake that comes late, for the first, finds nothing to do. */
static void test_used_again(void)
{
    struct hv_runqueue *home;
    int64_t live;

    TAP_EQ(start(HV_SCHED_POLICY_HOST), 0);
    fake_entity_init(&fakes[0], sched, 0, 0);
    home = fakes[0].entity.home;
    hv_sched_wake(&fakes[0].entity);
    TAP_AWAIT(hv_load_seq(&fakes[0].runs) == 1);
    hv_sched_retire(sched, &fakes[0].entity);
    live = hv_alloc_live();
    fake_entity_init(&fakes[1], sched, 0, 0);
    TAP_OK(fakes[1].entity.home == home);
    TAP_EQ(hv_alloc_live(), live);
    hv_sched_wake(&fakes[0].entity);
    hv_sched_wake(&fakes[1].entity);
    TAP_AWAIT(hv_load_seq(&fakes[1].runs) == 1 && is_blocked(&fakes[1]));
    TAP_EQ(fakes[0].runs, 1);
    TAP_EQ(state_of(&fakes[0]), HV_SCHED_STATE_RETIRED);
    /* Of the one that is gone: not the other's thread. */
    hv_sched_retire(sched, &fakes[0].entity);
    hv_sched_wake(&fakes[1].entity);
    TAP_AWAIT(hv_load_seq(&fakes[1].runs) == 2);
    hv_sched_retire(sched, &fakes[1].entity);
    hv_sched_destroy(sched);
}

/* Each failed once: the worker, its queue. Then it is whole. */
static void test_no_memory(void)
{
    int error = -ENOMEM;
    uint64_t nth = 0;
    int64_t live;

    TAP_EQ(start(HV_SCHED_POLICY_HOST), 0);
    live = hv_alloc_live();
    while (error < 0) {
        fakes[0] = (struct fake_entity){
            .entity = {.run = fake_entity_run, .context = &fakes[0], .bell = &fakes[0].bell}};
        hv_doorbell_init(&fakes[0].bell);
        hv_alloc_fail_at(++nth);
        error = hv_sched_entity_init(sched, &fakes[0].entity, 0);
        TAP_OK(error == 0 || (error == -ENOMEM && hv_alloc_live() == live));
    }
    hv_alloc_fail_at(0);
    TAP_EQ(nth, 3);
    hv_sched_wake(&fakes[0].entity);
    TAP_AWAIT(hv_load_seq(&fakes[0].runs) == 1);
    hv_sched_retire(sched, &fakes[0].entity);
    hv_sched_destroy(sched);
}

static void count_up(struct hv_timer *timer, void *context)
{
    (void)timer;
    hv_add_seq((_Atomic uint32_t *)context, 1);
}

/* Timers fire on the service thread whatever the vCPUs' threads do. */
static void test_timers(void)
{
    _Atomic uint32_t count = 0;
    struct hv_timer timer;

    TAP_EQ(start(HV_SCHED_POLICY_HOST), 0);
    hv_timer_init(&timer, hv_sched_timer_queue(sched, 7), count_up, (void *)&count, HV_RANK_VPT);
    for (uint32_t i = 1; i <= 10; i++) {
        hv_timer_arm(&timer, hv_ns_add(hv_clock_now(&host), 50000));
        TAP_AWAIT(hv_load_seq(&count) == i);
    }
    hv_timer_finish(&timer);
    hv_sched_destroy(sched);
}

/* What the host decides is not promised. */
static void test_parameters(void)
{
    struct hv_sched_parameters parameters = {0};
    char why[128] = "";

    TAP_EQ(start(HV_SCHED_POLICY_HOST), 0);
    TAP_EQ(hv_sched_check(sched, &parameters, why, sizeof(why)), 0);
    parameters.cap_percent = 50;
    TAP_EQ(hv_sched_check(sched, &parameters, why, sizeof(why)), -ENOTSUP);
    TAP_OK(why[0] != '\0');
    parameters = (struct hv_sched_parameters){.affinity = {{1}}};
    TAP_EQ(hv_sched_check(sched, &parameters, why, sizeof(why)), -ENOTSUP);
    parameters = (struct hv_sched_parameters){.weight = 1};
    TAP_EQ(hv_sched_check(sched, &parameters, why, sizeof(why)), -ENOTSUP);
    parameters = (struct hv_sched_parameters){.weight = HV_SCHED_WEIGHT_DEFAULT};
    TAP_EQ(hv_sched_check(sched, &parameters, why, sizeof(why)), 0);
    hv_sched_destroy(sched);
}

/* ---- halts ---- */

/* Grows while wakes come later than it lasts, and ends with one that comes later than any could. */
static void test_poll_window(void)
{
    uint64_t poll_ns = 0;

    for (uint64_t want = HV_HALT_POLL_START_NS; want <= HV_HALT_POLL_MAX_NS; want *= 2) {
        poll_ns = hv_halt_poll_next(poll_ns, poll_ns + 1);
        TAP_EQ(poll_ns, want);
        TAP_EQ(hv_halt_poll_next(poll_ns, poll_ns), poll_ns);
    }
    poll_ns = hv_halt_poll_next(poll_ns, HV_HALT_POLL_MAX_NS);
    TAP_EQ(poll_ns, HV_HALT_POLL_MAX_NS);
    TAP_EQ(hv_halt_poll_next(poll_ns, HV_HALT_POLL_MAX_NS + 1), 0);
}

static _Atomic uint32_t halting;

static enum hv_sched_verdict halt(void *context, struct hv_worker *worker, hv_ns slice_end)
{
    (void)fake_entity_run(context, worker, slice_end);
    hv_store_seq(&halting, 1);
    return HV_SCHED_HALT;
}

/* Polls for as long as the test likes, unless the host takes the CPU away just then: again. */
static bool start_polling(struct fake_entity *fake)
{
    uint64_t patience = threads_patience();
    uint64_t polls = hv_load_relaxed(&fake->entity.counters.halt_polls);

    while (hv_load_relaxed(&fake->entity.counters.halt_polls) == polls) {
        if (is_blocked(fake)) {
            fake->entity.poll_ns = 100 * HV_NS_PER_S;
            fake->entity.halted = false;
            hv_store_seq(&halting, 0);
            hv_sched_wake(&fake->entity);
        }
        if (!threads_patient(patience)) {
            return false;
        }
    }
    return true;
}

/* A wake ends the poll, and is one; another's work ends it, and is done. */
static void poll(enum hv_sched_policy policy)
{
    struct hv_sched_counters *counters = &fakes[0].entity.counters;
    uint64_t hits;

    TAP_EQ(start(policy), 0);
    fake_entity_init(&fakes[0], sched, 0, 0);
    fakes[0].entity.run = halt;
    TAP_OK(start_polling(&fakes[0]));
    TAP_EQ(state_of(&fakes[0]), HV_SCHED_STATE_RUNNING);
    hits = hv_load_relaxed(&counters->halt_poll_hits);
    hv_sched_wake(&fakes[0].entity);
    TAP_AWAIT(hv_load_relaxed(&counters->halt_poll_hits) == hits + 1);
    if (policy == HV_SCHED_POLICY_CREDIT) {
        fake_entity_init(&fakes[1], sched, 0, 0);
        /* It polls again by itself, unless the host has just taken the CPU away. */
        TAP_OK(!is_blocked(&fakes[0]) || start_polling(&fakes[0]));
        hv_sched_wake(&fakes[1].entity);
        TAP_AWAIT(hv_load_seq(&fakes[1].runs) == 1);
        hv_sched_retire(sched, &fakes[1].entity);
    }
    /* It does not outlast what retires it. */
    hv_sched_retire(sched, &fakes[0].entity);
    TAP_EQ(state_of(&fakes[0]), HV_SCHED_STATE_RETIRED);
    TAP_EQ(fakes[0].overlaps, 0);
    hv_sched_destroy(sched);
}

static void test_poll_credit(void)
{
    poll(HV_SCHED_POLICY_CREDIT);
}

static void test_poll_host(void)
{
    poll(HV_SCHED_POLICY_HOST);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"sched.host.run-and-block", test_run_and_block},
        {"sched.host.used-again", test_used_again},
        {"sched.host.no-memory", test_no_memory},
        {"sched.host.timers", test_timers},
        {"sched.host.parameters", test_parameters},
        {"sched.halt-poll.window", test_poll_window},
        {"sched.halt-poll.credit", test_poll_credit},
        {"sched.halt-poll.host", test_poll_host},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
