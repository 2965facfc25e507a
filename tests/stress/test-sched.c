/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * sched/: more entities than workers, woken from outside, by timers and by each other, some of them
 * in a fake guest, yielding to each other, with shares that change, and retired while all that goes
 * on. Each unit of work that is given with a wake
 * must be done: a lost wake is work left over. No entity runs on two workers at once.
 */
#include "sched/sched.h"

#include <sched.h>

#include "lib/threads.h"
#include "sync/race.h"

#define WORKERS  3
#define ENTITIES 8
#define WAKERS   3

struct worklet {
    struct hv_sched_entity entity;
    struct hv_doorbell bell;
    struct hv_timer timer;
    unsigned index;
    _Atomic uint32_t inside;
    _Atomic uint64_t given, done;
    uint64_t plain; /* owned by the one who runs it: a sanitizer sees two */
};

static struct hv_clock host;
static struct {
    struct hv_sched *sched;
    struct worklet worklets[ENTITIES];
    struct hv_sched_group groups[2];
    bool yielding; /* they yield to each other, too */
    _Atomic uint32_t twice;
} shared;

static void give(struct worklet *worklet)
{
    hv_add_seq(&worklet->given, 1);
    hv_sched_wake(&worklet->entity);
}

static void give_by_timer(struct hv_timer *timer, void *context)
{
    (void)timer;
    give(context);
}

/* In the guest until rung or, at latest, the end of the slice. */
static void visit_guest(struct worklet *worklet, struct hv_worker *worker, hv_ns slice_end)
{
    hv_ns soon = hv_ns_add(hv_clock_now(&host), 20000);

    hv_worker_set_deadline(worker, &worklet->bell,
                           hv_ns_before(soon, slice_end) ? soon : slice_end);
    hv_qsbr_offline(hv_worker_reader(worker));
    if (hv_doorbell_enter(&worklet->bell) == 0) {
        while (!hv_load_relaxed(&worklet->bell.exit_request)) {
            sched_yield();
        }
        hv_doorbell_leave(&worklet->bell);
    }
    hv_qsbr_online(hv_worker_reader(worker));
    hv_worker_clear_deadline(worker);
    (void)hv_doorbell_take(&worklet->bell);
    hv_worker_run_timers(worker);
}

static unsigned next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(*state >> 33);
}

/* To any of its group, itself as well. */
static void yield_somehow(struct worklet *worklet, struct hv_worker *worker)
{
    struct hv_sched_entity *me = &worklet->entity;
    uint64_t random = worklet->plain * 2654435761u + worklet->index;
    struct hv_sched_entity *target = me->group->member[next_random(&random) % (ENTITIES / 2)];

    hv_sched_note_mode(me, next_random(&random) % 2);
    switch (next_random(&random) % 4) {
    case 0:
        (void)hv_sched_yield_to(worker, me, target);
        break;
    case 1:
        hv_sched_note_ipi(shared.sched, me, target->index);
        (void)hv_sched_kick_boost(worker, me, target);
        break;
    case 2:
        (void)hv_sched_on_spin(worker, me);
        break;
    default:
        break;
    }
}

static enum hv_sched_verdict run(void *context, struct hv_worker *worker, hv_ns slice_end)
{
    struct worklet *worklet = context;
    uint64_t doing;
    bool more;

    hv_race_name_thread(1 + hv_worker_index(worker));
    hv_add_relaxed(&shared.twice, hv_add_seq(&worklet->inside, 1) > 0);
    (void)hv_doorbell_take(&worklet->bell);
    doing = hv_load_seq(&worklet->given);
    worklet->plain++;
    /* With a thread of its own nobody but a ring would end it. */
    if (worklet->plain % 8 == 0 && hv_sched_policy(shared.sched) == HV_SCHED_POLICY_CREDIT) {
        visit_guest(worklet, worker, slice_end);
    }
    if (shared.yielding) {
        yield_somehow(worklet, worker);
    }
    hv_store_seq(&worklet->done, doing);
    HV_RACE("test.run.done");
    /* Now and then go on although there may be nothing: both verdicts must be right. */
    more = worklet->plain % 16 == 1;
    hv_sub_seq(&worklet->inside, 1);
    return more ? HV_SCHED_YIELD : HV_SCHED_BLOCK;
}

static void wake_many(unsigned index, void *context)
{
    unsigned entities = *(unsigned *)context;
    uint64_t random = index + 1;

    hv_race_name_thread(1 + WORKERS + index);
    for (unsigned i = 0; i < threads_rounds(2000); i++) {
        struct worklet *worklet = &shared.worklets[next_random(&random) % entities];

        if (next_random(&random) % 4 == 0) {
            hv_timer_arm(&worklet->timer,
                         hv_ns_add(hv_clock_now(&host), next_random(&random) % 50000));
        } else {
            give(worklet);
        }
        if (i % 8 == 0) {
            sched_yield();
        }
    }
}

static bool start(enum hv_sched_policy policy)
{
    const struct hv_sched_config config = {.workers = WORKERS, .policy = policy, .clock = &host};
    bool good;

    hv_clock_init_host(&host);
    shared.twice = 0;
    shared.yielding = false;
    hv_group_init(&shared.groups[0], NULL);
    hv_group_init(&shared.groups[1], NULL);
    good = hv_sched_create(&config, &shared.sched) == 0;
    for (unsigned i = 0; good && i < ENTITIES; i++) {
        struct worklet *worklet = &shared.worklets[i];

        *worklet = (struct worklet){.index = i};
        hv_doorbell_init(&worklet->bell);
        worklet->entity.run = run;
        worklet->entity.context = worklet;
        worklet->entity.bell = &worklet->bell;
        worklet->entity.group = &shared.groups[i % 2];
        worklet->entity.index = i / 2;
        good = hv_sched_entity_init(shared.sched, &worklet->entity, i) == 0;
        hv_timer_init(&worklet->timer, hv_sched_timer_queue(shared.sched, i), give_by_timer,
                      worklet, HV_RANK_RUNQUEUE);
    }
    return good;
}

static void stop(void)
{
    for (unsigned i = 0; i < ENTITIES; i++) {
        /* The timer first: its callback wakes. */
        hv_timer_finish(&shared.worklets[i].timer);
        hv_sched_retire(shared.sched, &shared.worklets[i].entity);
    }
    hv_sched_destroy(shared.sched);
    hv_group_finish(&shared.groups[0]);
    hv_group_finish(&shared.groups[1]);
}

/* The last thread changes the groups' shares meanwhile. */
static void wake_or_tune(unsigned index, void *context)
{
    uint64_t random = index;

    if (index < WAKERS) {
        wake_many(index, context);
        return;
    }
    for (unsigned i = 0; i < threads_rounds(500); i++) {
        struct hv_sched_parameters parameters = {
            .weight = 1 + next_random(&random) % HV_SCHED_WEIGHT_MAX,
            .cap_percent = next_random(&random) % 4 ? 0 : 50 + next_random(&random) % 100,
            .affinity = {{next_random(&random) % (1u << WORKERS)}},
        };

        hv_add_relaxed(&shared.twice, hv_sched_set_parameters(shared.sched, &shared.groups[i % 2],
                                                              &parameters, NULL, 0) < 0);
        sched_yield();
    }
}

static void stress_wakes(enum hv_sched_policy policy, bool yielding)
{
    unsigned entities = ENTITIES;

    TAP_OK(start(policy));
    shared.yielding = yielding;
    threads_run(WAKERS + (yielding && policy == HV_SCHED_POLICY_CREDIT), wake_or_tune, &entities);
    for (unsigned i = 0; i < ENTITIES; i++) {
        struct worklet *worklet = &shared.worklets[i];

        TAP_AWAIT(!hv_timer_armed(&worklet->timer));
        TAP_AWAIT(hv_load_seq(&worklet->done) == hv_load_seq(&worklet->given));
    }
    TAP_EQ(shared.twice, 0);
    stop();
}

static void test_wakes(void)
{
    stress_wakes(HV_SCHED_POLICY_CREDIT, false);
}

static void test_wakes_host(void)
{
    stress_wakes(HV_SCHED_POLICY_HOST, true);
}

static void test_wakes_shuffled(void)
{
    hv_race_shuffle(tap_rng() | 1);
    stress_wakes(HV_SCHED_POLICY_CREDIT, false);
    hv_race_end();
}

static void test_yields(void)
{
    stress_wakes(HV_SCHED_POLICY_CREDIT, true);
}

static void test_yields_shuffled(void)
{
    hv_race_shuffle(tap_rng() | 1);
    stress_wakes(HV_SCHED_POLICY_CREDIT, true);
    hv_race_end();
}

/* Wakers go on for the first half while the second is taken away under their hands. */
static void wake_or_retire(unsigned index, void *context)
{
    (void)context;
    if (index < WAKERS) {
        unsigned entities = ENTITIES;

        wake_many(index, &entities);
        return;
    }
    for (unsigned i = ENTITIES / 2; i < ENTITIES; i++) {
        struct worklet *worklet = &shared.worklets[i];

        /* The memory stays, so that late wakes find a retired entity. */
        hv_sched_retire(shared.sched, &worklet->entity);
        hv_add_relaxed(&shared.twice, hv_load_seq(&worklet->inside) > 0);
        /* A plain access, as freeing would be: nobody runs it any more. */
        worklet->plain = 0;
    }
}

static void test_retire(void)
{
    TAP_OK(start(HV_SCHED_POLICY_CREDIT));
    threads_run(WAKERS + 1, wake_or_retire, NULL);
    for (unsigned i = 0; i < ENTITIES; i++) {
        struct worklet *worklet = &shared.worklets[i];

        TAP_AWAIT(!hv_timer_armed(&worklet->timer));
        if (i < ENTITIES / 2) {
            TAP_AWAIT(hv_load_seq(&worklet->done) == hv_load_seq(&worklet->given));
        } else {
            TAP_EQ(worklet->plain, 0);
        }
    }
    TAP_EQ(shared.twice, 0);
    stop();
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"stress.sched.wakes", test_wakes},
        {"stress.sched.wakes-shuffled", test_wakes_shuffled},
        {"stress.sched.wakes-host", test_wakes_host},
        {"stress.sched.yields", test_yields},
        {"stress.sched.yields-shuffled", test_yields_shuffled},
        {"stress.sched.retire", test_retire},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
