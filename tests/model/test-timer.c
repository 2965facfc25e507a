/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * time/timer against an array that is searched from end to end: the same random operations, the
 * same firings, the same next deadline after every step.
 */
#include "time/timer.h"

#include "lib/tap.h"

#define TIMERS 200
#define STEPS  20000

static struct hv_clock sim;
static struct hv_timer_queue queue;
static struct hv_timer timers[TIMERS];

/* The oracle: deadlines by timer, UINT64_MAX when not armed. */
static struct {
    uint64_t deadline[TIMERS];
    bool killed[TIMERS];
    bool wrong;
} model;

static uint64_t model_next(void)
{
    uint64_t next = UINT64_MAX;

    for (unsigned i = 0; i < TIMERS; i++) {
        next = model.deadline[i] < next ? model.deadline[i] : next;
    }
    return next;
}

static void model_arm(unsigned index, uint64_t deadline)
{
    model.deadline[index] = model.killed[index] ? UINT64_MAX : deadline;
}

static void fire(struct hv_timer *timer, void *context)
{
    unsigned index = (unsigned)(timer - timers);
    uint64_t due = model.deadline[index];

    (void)context;
    /* It is due, and no other is due before it. */
    model.wrong |= due > hv_clock_now(&sim).v || due != model_next();
    model_arm(index, UINT64_MAX);
    if (tap_rng() % 2 == 0) {
        uint64_t again = hv_clock_now(&sim).v + 1 + tap_rng() % 1000;

        model_arm(index, again);
        hv_timer_arm(timer, (hv_ns){again});
    }
}

/* Deadlines close together, so that many are equal. */
static uint64_t some_deadline(void)
{
    return hv_clock_now(&sim).v + tap_rng() % 1000 / 10 * 10;
}

static void step(unsigned index)
{
    uint64_t deadline;

    switch (tap_rng() % 10) {
    case 0:
        hv_timer_disarm(&timers[index]);
        model_arm(index, UINT64_MAX);
        break;
    case 1:
        hv_timer_kill(&timers[index]);
        model.killed[index] = true;
        model_arm(index, UINT64_MAX);
        break;
    case 2:
        hv_timer_revive(&timers[index]);
        model.killed[index] = false;
        break;
    case 3:
        hv_clock_advance(&sim, tap_rng() % 100);
        hv_timer_queue_run(&queue, hv_clock_now(&sim));
        break;
    default:
        deadline = some_deadline();
        hv_timer_arm(&timers[index], (hv_ns){deadline});
        model_arm(index, deadline);
    }
}

static void test_random(void)
{
    hv_clock_init_simulated(&sim, (hv_ns){0});
    hv_timer_queue_init(&queue, &sim, NULL, 0);
    for (unsigned i = 0; i < TIMERS; i++) {
        hv_timer_init(&timers[i], &queue, fire, NULL, HV_RANK_VPT);
        model.deadline[i] = UINT64_MAX;
    }
    for (unsigned i = 0; i < STEPS; i++) {
        unsigned index = (unsigned)(tap_rng() % TIMERS);

        step(index);
        TAP_OK(!model.wrong);
        TAP_EQ(hv_timer_queue_next(&queue).v, model_next());
        TAP_EQ(hv_timer_armed(&timers[index]), model.deadline[index] != UINT64_MAX);
        if (i % 100 == 0) {
            hv_timer_queue_check(&queue);
        }
    }
    for (unsigned i = 0; i < TIMERS; i++) {
        hv_timer_finish(&timers[i]);
    }
    hv_timer_queue_finish(&queue);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {{"model.timer.random", test_random}};

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
