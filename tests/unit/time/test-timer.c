/* SPDX-License-Identifier: GPL-3.0-or-later */
/* time/timer on a simulated clock, in one thread: order, moves, ends, bounds, failures. */
#include "time/timer.h"

#include <signal.h>

#include "base/alloc.h"
#include "lib/tap.h"

static struct hv_clock sim;
static struct hv_doorbell bell;
static struct hv_timer_queue queue, other;

/* What fired, in order. */
static struct {
    unsigned count;
    struct hv_timer *timers[64];
    uint64_t at[64];
} fired;

static void note(struct hv_timer *timer, void *context)
{
    (void)context;
    if (fired.count < HV_ARRAY_LEN(fired.timers)) {
        fired.timers[fired.count] = timer;
        fired.at[fired.count] = hv_clock_now(&sim).v;
    }
    fired.count++;
}

static void start(void)
{
    fired.count = 0;
    hv_clock_init_simulated(&sim, (hv_ns){1000});
    hv_doorbell_init(&bell);
    hv_timer_queue_init(&queue, &sim, &bell, 0);
    hv_timer_queue_init(&other, &sim, NULL, 1);
}

static void end(void)
{
    hv_timer_queue_finish(&queue);
    hv_timer_queue_finish(&other);
}

static void make(struct hv_timer *timer, hv_timer_callback *callback, void *context)
{
    hv_timer_init(timer, &queue, callback, context, HV_RANK_VPT);
}

/* Advance to each next deadline, as a worker does, until @end. */
static void run_until(struct hv_timer_queue *from, uint64_t end_ns)
{
    for (;;) {
        uint64_t next = hv_timer_queue_next(from).v;
        uint64_t now = hv_clock_now(&sim).v;

        if (next > end_ns) {
            hv_clock_advance(&sim, end_ns - now);
            return;
        }
        if (next > now) {
            hv_clock_advance(&sim, next - now);
        }
        hv_timer_queue_run(from, hv_clock_now(&sim));
        hv_timer_queue_check(from);
    }
}

static void test_order(void)
{
    struct hv_timer timers[20];

    start();
    for (unsigned i = 0; i < 20; i++) {
        make(&timers[i], note, NULL);
        hv_timer_arm(&timers[i], (hv_ns){2000 + i * 7 % 20 * 10});
        hv_timer_queue_check(&queue);
    }
    run_until(&queue, 10000);
    TAP_EQ(fired.count, 20);
    for (unsigned i = 0; i < 20; i++) {
        TAP_EQ(fired.at[i], 2000 + i * 10);
        TAP_OK(!hv_timer_armed(fired.timers[i]));
    }
    for (unsigned i = 0; i < 20; i++) {
        hv_timer_finish(&timers[i]);
    }
    TAP_EQ(hv_timer_queue_next(&queue).v, UINT64_MAX);
    end();
}

static void test_move(void)
{
    struct hv_timer a, b;

    start();
    make(&a, note, NULL);
    make(&b, note, NULL);
    hv_timer_arm(&a, (hv_ns){2000});
    hv_timer_arm(&b, (hv_ns){3000});
    TAP_EQ(hv_timer_queue_next(&queue).v, 2000);
    hv_timer_arm(&a, (hv_ns){4000});
    TAP_EQ(hv_timer_queue_next(&queue).v, 3000);
    hv_timer_arm(&b, (hv_ns){5000});
    TAP_EQ(hv_timer_queue_next(&queue).v, 4000);
    hv_timer_arm(&b, (hv_ns){1500});
    hv_timer_disarm(&a);
    TAP_OK(!hv_timer_armed(&a));
    hv_timer_disarm(&a);
    run_until(&queue, 10000);
    TAP_EQ(fired.count, 1);
    TAP_EQ(fired.at[0], 1500);
    hv_timer_arm(&a, HV_NS_NEVER);
    TAP_OK(!hv_timer_armed(&a));
    hv_timer_arm(&a, (hv_ns){20000});
    hv_timer_arm(&a, HV_NS_NEVER);
    TAP_OK(!hv_timer_armed(&a));
    hv_timer_finish(&a);
    hv_timer_finish(&b);
    end();
}

static void test_past(void)
{
    struct hv_timer timer;

    start();
    make(&timer, note, NULL);
    hv_timer_arm(&timer, (hv_ns){0});
    TAP_EQ(hv_timer_queue_run(&queue, hv_clock_now(&sim)), 1);
    TAP_EQ(fired.count, 1);
    hv_timer_arm(&timer, (hv_ns){1001});
    TAP_EQ(hv_timer_queue_run(&queue, (hv_ns){1000}), 0);
    TAP_EQ(hv_timer_queue_run(&queue, (hv_ns){1001}), 1);
    hv_timer_finish(&timer);
    end();
}

static void test_bell(void)
{
    struct hv_timer a, b;

    start();
    make(&a, note, NULL);
    make(&b, note, NULL);
    hv_timer_arm(&a, (hv_ns){5000});
    TAP_EQ(hv_doorbell_take(&bell), HV_REQUEST_TIMER);
    /* Later than what the worker waits for: let it sleep. */
    hv_timer_arm(&b, (hv_ns){6000});
    hv_timer_arm(&a, (hv_ns){5500});
    hv_timer_disarm(&a);
    TAP_EQ(hv_doorbell_take(&bell), 0);
    hv_timer_arm(&a, (hv_ns){5999});
    TAP_EQ(hv_doorbell_take(&bell), HV_REQUEST_TIMER);
    hv_timer_finish(&a);
    hv_timer_finish(&b);
    end();
}

struct periodic {
    struct hv_timer timer;
    uint64_t period, due, ticks, late;
};

static void tick(struct hv_timer *timer, void *context)
{
    struct periodic *periodic = context;

    periodic->ticks++;
    periodic->late += hv_clock_now(&sim).v - periodic->due;
    periodic->due += periodic->period;
    hv_timer_arm(timer, (hv_ns){periodic->due});
}

/* An hour of the ticks of 92 vCPUs at different rates, exact to the nanosecond. */
static void test_an_hour(void)
{
    static struct periodic all[92];
    const uint64_t end_ns = 3600 * HV_NS_PER_S;

    start();
    for (unsigned i = 0; i < HV_ARRAY_LEN(all); i++) {
        all[i] = (struct periodic){.period = (1 + i) * 997 * HV_NS_PER_MS};
        all[i].due = 1000 + all[i].period;
        make(&all[i].timer, tick, &all[i]);
        hv_timer_arm(&all[i].timer, (hv_ns){all[i].due});
    }
    run_until(&queue, end_ns);
    for (unsigned i = 0; i < HV_ARRAY_LEN(all); i++) {
        TAP_EQ(all[i].ticks, (end_ns - 1000) / all[i].period);
        TAP_EQ(all[i].late, 0);
        hv_timer_finish(&all[i].timer);
    }
    end();
}

static void arm_in_past(struct hv_timer *timer, void *context)
{
    note(timer, context);
    hv_timer_arm(timer, (hv_ns){0});
}

static void test_bounded(void)
{
    struct hv_timer a, b;

    start();
    make(&a, arm_in_past, NULL);
    make(&b, note, NULL);
    hv_timer_arm(&a, (hv_ns){500});
    hv_timer_arm(&b, (hv_ns){5000});
    TAP_EQ(hv_timer_queue_run(&queue, hv_clock_now(&sim)), 2);
    TAP_OK(hv_timer_armed(&a));
    TAP_OK(hv_timer_armed(&b));
    hv_timer_finish(&a);
    hv_timer_finish(&b);
    end();
}

static void test_killed(void)
{
    struct hv_timer timer;

    start();
    make(&timer, note, NULL);
    hv_timer_arm(&timer, (hv_ns){2000});
    hv_timer_kill(&timer);
    TAP_OK(!hv_timer_armed(&timer));
    hv_timer_arm(&timer, (hv_ns){2000});
    TAP_OK(!hv_timer_armed(&timer));
    hv_timer_kill(&timer);
    run_until(&queue, 3000);
    TAP_EQ(fired.count, 0);
    hv_timer_revive(&timer);
    TAP_OK(!hv_timer_armed(&timer));
    hv_timer_arm(&timer, (hv_ns){4000});
    run_until(&queue, 5000);
    TAP_EQ(fired.count, 1);
    hv_timer_finish(&timer);
    hv_timer_finish(&timer);
    end();
}

/* A queue has no memory of its own: with none left, timers are made, armed and moved all the same. */
static void test_no_memory(void)
{
    static struct hv_timer timers[40];
    int64_t live = hv_alloc_live();

    hv_alloc_fail_at(1);
    start();
    for (unsigned i = 0; i < HV_ARRAY_LEN(timers); i++) {
        make(&timers[i], note, NULL);
        hv_timer_arm(&timers[i], (hv_ns){5000 - i});
        hv_timer_rehome(&timers[i], &other);
        hv_timer_queue_check(&queue);
        hv_timer_queue_check(&other);
    }
    TAP_EQ(hv_alloc_live(), live);
    run_until(&other, 6000);
    TAP_EQ(fired.count, 40);
    for (unsigned i = 0; i < HV_ARRAY_LEN(timers); i++) {
        hv_timer_finish(&timers[i]);
    }
    end();
    /* The failure that was asked for is still to come: nobody has allocated. */
    TAP_OK(hv_alloc(1, 1) == NULL);
    hv_alloc_fail_at(0);
}

static void test_rehome(void)
{
    struct hv_timer armed, idle;

    start();
    make(&armed, note, NULL);
    make(&idle, note, NULL);
    hv_timer_arm(&armed, (hv_ns){2000});
    hv_timer_rehome(&armed, &other);
    hv_timer_rehome(&idle, &other);
    TAP_EQ(hv_timer_queue_next(&queue).v, UINT64_MAX);
    TAP_EQ(hv_timer_queue_next(&other).v, 2000);
    TAP_OK(hv_timer_armed(&armed));
    hv_timer_arm(&idle, (hv_ns){1500});
    TAP_EQ(hv_timer_queue_next(&other).v, 1500);
    hv_timer_queue_check(&queue);
    hv_timer_queue_check(&other);
    /* To where it is. */
    hv_timer_rehome(&idle, &other);
    TAP_EQ(other.owned, 2);
    TAP_EQ(queue.owned, 0);
    run_until(&other, 3000);
    TAP_EQ(fired.count, 2);
    TAP_OK(fired.timers[0] == &idle);
    hv_timer_finish(&armed);
    hv_timer_finish(&idle);
    end();
}

static void rehome_twice(struct hv_timer *timer, void *context)
{
    note(timer, context);
    hv_timer_arm(timer, (hv_ns){3000});
    /* There, back again, and there: it moves once, when this returns. */
    hv_timer_rehome(timer, &other);
    hv_timer_rehome(timer, &queue);
    hv_timer_rehome(timer, &other);
    hv_timer_rehome(timer, &other);
    TAP_EQ(queue.owned, 1);
}

static void test_rehome_itself(void)
{
    struct hv_timer timer;

    start();
    make(&timer, rehome_twice, NULL);
    hv_timer_arm(&timer, (hv_ns){2000});
    run_until(&queue, 2500);
    TAP_EQ(queue.owned, 0);
    TAP_EQ(other.owned, 1);
    TAP_EQ(hv_timer_queue_next(&other).v, 3000);
    hv_timer_queue_check(&other);
    hv_timer_finish(&timer);
    end();
}

static void killer_of_itself(struct hv_timer *timer, void *context)
{
    (void)context;
    hv_timer_kill(timer);
}

static void kill_itself(void)
{
    struct hv_timer timer;

    start();
    make(&timer, killer_of_itself, NULL);
    hv_timer_arm(&timer, (hv_ns){0});
    hv_timer_queue_run(&queue, (hv_ns){1000});
}

static void kill_under_lock(void)
{
    struct hv_timer timer;
    struct hv_lock lock;

    start();
    make(&timer, note, NULL);
    hv_lock_init(&lock, HV_RANK_VPT, "vpt", 0);
    hv_lock_take(&lock);
    hv_timer_kill(&timer);
}

static void run_under_lock(void)
{
    struct hv_lock lock;

    start();
    hv_lock_init(&lock, HV_RANK_LIFECYCLE, "lifecycle", 0);
    hv_lock_take(&lock);
    hv_timer_queue_run(&queue, (hv_ns){1000});
}

static void finish_used(void)
{
    struct hv_timer timer;

    start();
    make(&timer, note, NULL);
    hv_timer_queue_finish(&queue);
}

static void test_misuse(void)
{
    TAP_DIES(finish_used, SIGABRT, "owned");
    if (HV_CONFIG_ASSERT) {
        TAP_DIES(kill_itself, SIGABRT, "hv_thread_id()");
    }
    if (HV_CONFIG_RANKS) {
        TAP_DIES(kill_under_lock, SIGABRT, "a timer's callback (rank 35)");
        TAP_DIES(run_under_lock, SIGABRT, "a timer's callback may block");
    }
}

static void test_kill_below_rank(void)
{
    struct hv_timer timer;
    struct hv_lock device;

    start();
    make(&timer, note, NULL);
    /* A vpt callback takes ranks from 35 on: its device's lock may be held (rank 30). */
    hv_lock_init(&device, HV_RANK_DEVICE, "device", 0);
    hv_lock_take(&device);
    hv_timer_kill(&timer);
    hv_lock_drop(&device);
    hv_timer_finish(&timer);
    end();
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"time.timer.order", test_order},     {"time.timer.move", test_move},
        {"time.timer.past", test_past},       {"time.timer.bell", test_bell},
        {"time.timer.an-hour", test_an_hour}, {"time.timer.bounded", test_bounded},
        {"time.timer.killed", test_killed},   {"time.timer.no-memory", test_no_memory},
        {"time.timer.rehome", test_rehome},   {"time.timer.rehome-itself", test_rehome_itself},
        {"time.timer.misuse", test_misuse},   {"time.timer.kill-below-rank", test_kill_below_rank},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
