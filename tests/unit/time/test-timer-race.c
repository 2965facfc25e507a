/* SPDX-License-Identifier: GPL-3.0-or-later */
/* time/timer in two threads, by script: kill, rehome and arm against a callback and each other. */
#include "time/timer.h"

#include <stdio.h>

#include "lib/threads.h"
#include "sync/race.h"

static struct hv_clock sim;
static struct hv_timer_queue queue, other;
static _Atomic uint32_t fired, in_callback, done;

static void note(struct hv_timer *timer, void *context)
{
    (void)timer;
    (void)context;
    hv_add_seq(&fired, 1);
}

static void start(struct hv_timer *timer, hv_timer_callback *callback)
{
    fired = in_callback = done = 0;
    hv_clock_init_simulated(&sim, (hv_ns){1000});
    hv_timer_queue_init(&queue, &sim, NULL, 0);
    hv_timer_queue_init(&other, &sim, NULL, 1);
    hv_timer_init(timer, &queue, callback, NULL, HV_RANK_VPT);
    hv_race_begin();
}

static void end(struct hv_timer *timer)
{
    hv_timer_finish(timer);
    hv_timer_queue_finish(&queue);
    hv_timer_queue_finish(&other);
}

/* In what follows thread 1 runs the queue, thread 2 acts. */

static void long_callback(struct hv_timer *timer, void *context)
{
    hv_store_seq(&in_callback, 1);
    HV_RACE("test.callback");
    note(timer, context);
    hv_timer_arm(timer, (hv_ns){2000});
    hv_store_seq(&in_callback, 0);
}

static void run_or_kill(unsigned index, void *context)
{
    struct hv_timer *timer = context;

    hv_race_name_thread(index + 1);
    if (index == 0) {
        hv_timer_queue_run(&queue, (hv_ns){1000});
    } else {
        HV_RACE("test.act");
        hv_timer_kill(timer);
        /* Whatever happens to the timer now, the callback must not see it. */
        hv_store_seq(&done, 1 + hv_load_seq(&in_callback));
        timer->callback = NULL;
    }
}

/* Let thread 2 act while thread 1 stands at @point; and come to @waits, if that is not NULL. */
static bool act_at(struct threads *threads, struct hv_timer *timer, threads_body *body,
                   const char *point, const char *waits)
{
    start(timer, long_callback);
    hv_timer_arm(timer, (hv_ns){0});
    hv_race_stop(1, point, 0);
    hv_race_stop(2, "test.act", 0);
    if (waits) {
        hv_race_stop(2, waits, 0);
    }
    threads_start(threads, 2, body, timer);
    if (!hv_race_await(1, point)) {
        return false;
    }
    hv_race_release(2, "test.act");
    return !waits || hv_race_await(2, waits);
}

static void test_kill_running(void)
{
    struct threads threads;
    struct hv_timer timer;

    TAP_OK(act_at(&threads, &timer, run_or_kill, "test.callback", "timer.kill.waits"));
    TAP_EQ(done, 0);
    hv_race_end();
    threads_join(&threads);
    /* Waited for the callback; and its arming itself was in vain. */
    TAP_EQ(done, 1);
    TAP_EQ(fired, 1);
    TAP_OK(!hv_timer_armed(&timer));
    end(&timer);
}

/* Killed when popped, before the callback has begun: it runs once more, and kill waits for it. */
static void test_kill_popped(void)
{
    struct threads threads;
    struct hv_timer timer;

    TAP_OK(act_at(&threads, &timer, run_or_kill, "timer.run.popped", "timer.kill.waits"));
    hv_race_end();
    threads_join(&threads);
    TAP_EQ(done, 1);
    end(&timer);
}

static void run_or_rehome(unsigned index, void *context)
{
    struct hv_timer *timer = context;

    hv_race_name_thread(index + 1);
    if (index == 0) {
        hv_timer_queue_run(&queue, (hv_ns){1000});
    } else {
        HV_RACE("test.act");
        hv_timer_rehome(timer, &other);
        hv_timer_arm(timer, (hv_ns){0});
        hv_store_seq(&done, 1);
    }
}

/* Rehomed and armed while its callback runs: the other queue must not run it at the same time. */
static void test_rehome_running(void)
{
    struct threads threads;
    struct hv_timer timer;

    TAP_OK(act_at(&threads, &timer, run_or_rehome, "test.callback", NULL));
    TAP_AWAIT(hv_timer_armed(&timer));
    TAP_EQ(hv_timer_queue_next(&other).v, UINT64_MAX);
    TAP_EQ(hv_timer_queue_run(&other, (hv_ns){1000}), 0);
    hv_race_end();
    threads_join(&threads);
    TAP_EQ(done, 1);
    TAP_EQ(hv_timer_queue_next(&other).v, 2000);
    TAP_EQ(queue.owned, 0);
    hv_timer_queue_check(&other);
    end(&timer);
}

static void arm_named(unsigned index, void *context)
{
    hv_race_name_thread(index + 2);
    hv_timer_arm(context, (hv_ns){1500});
}

/* Moved between an arming's look at the queue and its lock. */
static void test_arm_moved(void)
{
    struct threads threads;
    struct hv_timer timer;

    start(&timer, note);
    hv_race_stop(2, "timer.home.read", 0);
    threads_start(&threads, 1, arm_named, &timer);
    TAP_OK(hv_race_await(2, "timer.home.read"));
    hv_timer_rehome(&timer, &other);
    hv_race_end();
    threads_join(&threads);
    TAP_EQ(hv_timer_queue_next(&queue).v, UINT64_MAX);
    TAP_EQ(hv_timer_queue_next(&other).v, 1500);
    end(&timer);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"time.timer-race.kill-running", test_kill_running},
        {"time.timer-race.kill-popped", test_kill_popped},
        {"time.timer-race.rehome-running", test_rehome_running},
        {"time.timer-race.arm-moved", test_arm_moved},
    };

    if (!HV_CONFIG_RACE_POINTS) {
        puts("1..0 # SKIP Race points are not compiled in.");
        return 0;
    }
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
