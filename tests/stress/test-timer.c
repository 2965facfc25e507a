/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * time/timer: two workers run their queues while others arm, disarm, kill, revive and rehome the
 * same timers. After a kill the callback is not running, and no callback ever runs twice at once.
 */
#include "time/timer.h"

#include <sched.h>

#include "lib/threads.h"
#include "sync/race.h"

#define WORKERS 2
#define ACTORS  3
#define TIMERS  ACTORS
#define FIRED   500

static struct hv_clock host;

static struct {
    struct hv_timer_queue queues[WORKERS];
    struct hv_doorbell bells[WORKERS];
    /* Each timer has one actor, who alone kills and revives it; all arm and disarm all. */
    struct hv_timer timers[TIMERS];
    _Atomic uint32_t running[TIMERS];
    _Atomic uint32_t actors_left, twice, after_kill;
    _Atomic uint64_t fired;
} shared;

static void fire(struct hv_timer *timer, void *context)
{
    size_t index = (size_t)(timer - shared.timers);

    (void)context;
    hv_add_relaxed(&shared.twice, hv_add_seq(&shared.running[index], 1) > 0);
    HV_RACE("test.callback");
    hv_add_relaxed(&shared.fired, 1);
    if (hv_load_relaxed(&shared.fired) % 4 == 0) {
        hv_timer_arm(timer, hv_ns_add(hv_clock_now(&host), 1000));
    }
    hv_sub_seq(&shared.running[index], 1);
}

static void run_queue(unsigned index)
{
    for (;;) {
        /* Take first and look then: what was rung for is there to be seen. */
        (void)hv_doorbell_take(&shared.bells[index]);
        if (hv_load_seq(&shared.actors_left) == 0) {
            return;
        }
        hv_timer_queue_run(&shared.queues[index], hv_clock_now(&host));
        /* Sleep as a worker does; actors end by ringing. */
        (void)hv_doorbell_sleep(&shared.bells[index], hv_timer_queue_next(&shared.queues[index]));
    }
}

static unsigned next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(*state >> 33);
}

static void act(unsigned own)
{
    struct hv_timer *mine = &shared.timers[own];
    uint64_t random = own + 1;

    /* At least so many steps, and on until the workers have had a share worth the name. */
    for (unsigned i = 0; i < threads_rounds(4000) || hv_load_relaxed(&shared.fired) < FIRED; i++) {
        struct hv_timer *any = &shared.timers[next_random(&random) % TIMERS];
        unsigned action = next_random(&random) % 16;

        if (action == 0) {
            hv_timer_kill(mine);
            hv_add_relaxed(&shared.after_kill, hv_load_seq(&shared.running[own]) != 0);
            hv_timer_revive(mine);
        } else if (action < 3) {
            unsigned to = next_random(&random) % WORKERS;

            hv_timer_rehome(mine, &shared.queues[to]);
        } else if (action < 5) {
            hv_timer_disarm(any);
        } else {
            hv_timer_arm(any, hv_ns_add(hv_clock_now(&host), next_random(&random) % 4000));
        }
        if (i % 16 == 0) {
            sched_yield();
        }
    }
    hv_sub_seq(&shared.actors_left, 1);
    for (unsigned i = 0; i < WORKERS; i++) {
        hv_doorbell_ring(&shared.bells[i], HV_REQUEST_STOP);
    }
}

static void side(unsigned index, void *context)
{
    (void)context;
    hv_race_name_thread(index + 1);
    if (index < WORKERS) {
        run_queue(index);
    } else {
        act(index - WORKERS);
    }
}

static void stress(void)
{
    uint64_t owned = 0;

    hv_clock_init_host(&host);
    shared.actors_left = ACTORS;
    shared.twice = shared.after_kill = 0;
    shared.fired = 0;
    for (unsigned i = 0; i < WORKERS; i++) {
        hv_doorbell_init(&shared.bells[i]);
        hv_timer_queue_init(&shared.queues[i], &host, &shared.bells[i], i);
    }
    for (unsigned i = 0; i < TIMERS; i++) {
        hv_timer_init(&shared.timers[i], &shared.queues[0], fire, NULL, HV_RANK_VPT);
    }
    threads_run(WORKERS + ACTORS, side, NULL);
    tap_note("%" PRIu64 " fired", shared.fired);
    TAP_EQ(shared.twice, 0);
    TAP_EQ(shared.after_kill, 0);
    TAP_OK(shared.fired >= FIRED);
    for (unsigned i = 0; i < WORKERS; i++) {
        hv_timer_queue_check(&shared.queues[i]);
        owned += shared.queues[i].owned;
    }
    TAP_EQ(owned, TIMERS);
    for (unsigned i = 0; i < TIMERS; i++) {
        hv_timer_finish(&shared.timers[i]);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        hv_timer_queue_finish(&shared.queues[i]);
    }
}

static void test_plain(void)
{
    stress();
}

static void test_shuffled(void)
{
    hv_race_shuffle(tap_rng() | 1);
    stress();
    hv_race_end();
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"stress.timer.plain", test_plain},
        {"stress.timer.shuffled", test_shuffled},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
