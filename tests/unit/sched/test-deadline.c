/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sched/deadline: rings when due, when kicked, not when cleared; the thread wakes for nothing else. */
#include "sched/deadline.h"

#include <errno.h>

#include "base/alloc.h"
#include "lib/threads.h"
#include "sync/lock.h"
#include "sync/race.h"

#define SLOTS 3

static struct hv_clock sim, host;
static struct hv_doorbell bells[SLOTS];
static struct hv_deadline *deadline;

static bool start(const struct hv_clock *clock)
{
    hv_clock_init_simulated(&sim, (hv_ns){1000});
    hv_clock_init_host(&host);
    for (unsigned i = 0; i < SLOTS; i++) {
        hv_doorbell_init(&bells[i]);
    }
    return hv_deadline_create(SLOTS, clock, &deadline) == 0;
}

static void end(void)
{
    hv_deadline_destroy(deadline);
}

static bool rung(unsigned index)
{
    return hv_load_seq(&bells[index].requests) == HV_REQUEST_TIMER;
}

static void advance(uint64_t span_ns)
{
    hv_clock_advance(&sim, span_ns);
    hv_deadline_clock_moved(deadline);
}

static void test_due(void)
{
    TAP_OK(start(&sim));
    hv_deadline_set(deadline, 0, &bells[0], (hv_ns){2000});
    hv_deadline_set(deadline, 1, &bells[1], (hv_ns){3000});
    hv_deadline_set(deadline, 2, &bells[2], HV_NS_NEVER);
    advance(999);
    advance(1);
    TAP_AWAIT(rung(0));
    TAP_OK(!rung(1));
    TAP_EQ(hv_doorbell_take(&bells[0]), HV_REQUEST_TIMER);
    advance(1000);
    TAP_AWAIT(rung(1));
    /* One ring a deadline; and never is never. */
    TAP_OK(!rung(0));
    TAP_OK(!rung(2));
    end();
}

static void test_past(void)
{
    TAP_OK(start(&sim));
    hv_deadline_set(deadline, 1, &bells[1], (hv_ns){1});
    TAP_AWAIT(rung(1));
    end();
}

static void test_kick(void)
{
    TAP_OK(start(&sim));
    hv_deadline_kick(deadline, 0);
    TAP_OK(!rung(0));
    hv_deadline_set(deadline, 0, &bells[0], HV_NS_NEVER);
    hv_deadline_kick(deadline, 0);
    TAP_OK(rung(0));
    TAP_OK(!rung(1));
    end();
}

/* A worker's doorbell passes its ring on to here: any lock may be held then. */
static void test_kick_under_leaf(void)
{
    struct hv_lock leaf;

    TAP_OK(start(&sim));
    hv_lock_init(&leaf, HV_RANK_LEAF, "test.leaf", 0);
    hv_deadline_set(deadline, 0, &bells[0], HV_NS_NEVER);
    hv_lock_take(&leaf);
    hv_deadline_kick(deadline, 0);
    hv_lock_drop(&leaf);
    TAP_OK(rung(0));
    hv_lock_finish(&leaf);
    end();
}

static void test_clear(void)
{
    TAP_OK(start(&sim));
    hv_deadline_set(deadline, 0, &bells[0], (hv_ns){2000});
    hv_deadline_set(deadline, 1, &bells[1], (hv_ns){2000});
    hv_deadline_clear(deadline, 0);
    hv_deadline_kick(deadline, 0);
    advance(5000);
    /* The thread looks at slot 0 first: when 1 is rung, 0 has been passed over. */
    TAP_AWAIT(rung(1));
    TAP_OK(!rung(0));
    end();
}

/* On the host's clock, where the thread really sleeps: a later set that is earlier must wake it. */
static void test_earlier(void)
{
    TAP_OK(start(&host));
    hv_deadline_set(deadline, 0, &bells[0], hv_ns_add(hv_clock_host_now(), 3600 * HV_NS_PER_S));
    for (unsigned i = 0; i < 50; i++) {
        hv_deadline_set(deadline, 1, &bells[1], hv_ns_add(hv_clock_host_now(), 20000));
        TAP_AWAIT(rung(1));
        (void)hv_doorbell_take(&bells[1]);
    }
    TAP_OK(!rung(0));
    end();
}

/* Rung in guest mode, a bell interrupts on the ringer's thread: there it gets a number. */
static void name_ringer(void *context)
{
    (void)context;
    hv_race_name_thread(5);
}

/* Set when the thread has looked at the slot already, and not said yet until when it sleeps. */
static void test_set_late(void)
{
    TAP_OK(start(&host));
    bells[0].interrupt = name_ringer;
    TAP_EQ(hv_doorbell_enter(&bells[0]), 0);
    hv_race_begin();
    hv_race_stop(5, "deadline.looked", 0);
    /* Far enough off for the thread to have slept until then. */
    hv_deadline_set(deadline, 0, &bells[0], hv_ns_add(hv_clock_host_now(), 20 * HV_NS_PER_MS));
    TAP_OK(hv_race_await(5, "deadline.looked"));
    hv_deadline_set(deadline, 1, &bells[1], hv_ns_add(hv_clock_host_now(), HV_NS_PER_MS));
    hv_race_end();
    TAP_AWAIT(rung(1));
    end();
}

/* What is set far off wakes nobody, however often. */
static void test_quiet(void)
{
    TAP_OK(start(&host));
    for (unsigned i = 0; i < 50; i++) {
        hv_deadline_set(deadline, 0, &bells[0],
                        hv_ns_add(hv_clock_host_now(), (3600 - i) * HV_NS_PER_S));
        hv_deadline_clear(deadline, 0);
        hv_deadline_rest(deadline, 0);
    }
    hv_deadline_set(deadline, 1, &bells[1], hv_ns_add(hv_clock_host_now(), 20000));
    TAP_AWAIT(rung(1));
    TAP_AWAIT(hv_deadline_alarm(deadline).v == UINT64_MAX);
    TAP_EQ(hv_deadline_wakes(deadline), 1);
    end();
}

/* Who rests takes back what it has set, and leaves what others have. */
static void test_rest(void)
{
    TAP_OK(start(&sim));
    hv_deadline_rest(deadline, 0);
    TAP_EQ(hv_deadline_alarm(deadline).v, UINT64_MAX);
    hv_deadline_set(deadline, 0, &bells[0], (hv_ns){2000});
    TAP_EQ(hv_deadline_alarm(deadline).v, 2000);
    hv_deadline_set(deadline, 1, &bells[1], (hv_ns){3000});
    TAP_EQ(hv_deadline_alarm(deadline).v, 2000);
    hv_deadline_clear(deadline, 1);
    hv_deadline_rest(deadline, 1);
    TAP_EQ(hv_deadline_alarm(deadline).v, 2000);
    hv_deadline_set(deadline, 1, &bells[1], (hv_ns){4000});
    /* It has put its own off meanwhile. */
    hv_deadline_set(deadline, 0, &bells[0], (hv_ns){5000});
    hv_deadline_clear(deadline, 0);
    hv_deadline_rest(deadline, 0);
    TAP_EQ(hv_deadline_alarm(deadline).v, 4000);
    hv_deadline_clear(deadline, 1);
    hv_deadline_rest(deadline, 1);
    TAP_EQ(hv_deadline_alarm(deadline).v, UINT64_MAX);
    TAP_EQ(hv_deadline_wakes(deadline), 0);
    end();
}

static void rest_named(unsigned index, void *context)
{
    (void)index;
    (void)context;
    hv_race_name_thread(1);
    hv_deadline_rest(deadline, 0);
}

/* Another sets its deadline when who rests has found that there is none: the alarm stays set. */
static void test_rest_late(void)
{
    struct threads threads;

    TAP_OK(start(&host));
    hv_deadline_set(deadline, 0, &bells[0], hv_ns_add(hv_clock_host_now(), 3600 * HV_NS_PER_S));
    hv_deadline_clear(deadline, 0);
    hv_race_begin();
    hv_race_stop(1, "deadline.looked", 0);
    threads_start(&threads, 1, rest_named, NULL);
    TAP_OK(hv_race_await(1, "deadline.looked"));
    /* Far enough off for the other to have silenced it. */
    hv_deadline_set(deadline, 1, &bells[1], hv_ns_add(hv_clock_host_now(), 50 * HV_NS_PER_MS));
    hv_race_end();
    threads_join(&threads);
    TAP_AWAIT(rung(1));
    end();
}

static void destroy_named(unsigned index, void *context)
{
    (void)index;
    (void)context;
    hv_race_name_thread(1);
    hv_deadline_destroy(deadline);
}

/* It is to end when the thread has looked, and found a deadline that was cleared since. */
static void test_destroy_late(void)
{
    struct threads threads;

    TAP_OK(start(&host));
    bells[0].interrupt = name_ringer;
    TAP_EQ(hv_doorbell_enter(&bells[0]), 0);
    hv_race_begin();
    hv_race_stop(5, "deadline.looked", 0);
    hv_race_stop(1, "deadline.stopping", 0);
    hv_deadline_set(deadline, 1, &bells[1], hv_ns_add(hv_clock_host_now(), 3600 * HV_NS_PER_S));
    hv_deadline_set(deadline, 0, &bells[0], hv_ns_add(hv_clock_host_now(), HV_NS_PER_MS));
    TAP_OK(hv_race_await(5, "deadline.looked"));
    hv_deadline_clear(deadline, 0);
    hv_deadline_clear(deadline, 1);
    threads_start(&threads, 1, destroy_named, NULL);
    TAP_OK(hv_race_await(1, "deadline.stopping"));
    hv_race_end();
    threads_join(&threads);
    deadline = NULL;
    end();
}

static void test_no_memory(void)
{
    int64_t live = hv_alloc_live();

    hv_alloc_fail_at(1);
    TAP_EQ(hv_deadline_create(SLOTS, &sim, &deadline), -ENOMEM);
    hv_alloc_fail_at(0);
    TAP_OK(!deadline);
    hv_deadline_destroy(NULL);
    TAP_EQ(hv_alloc_live(), live);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"sched.deadline.due", test_due},
        {"sched.deadline.past", test_past},
        {"sched.deadline.kick", test_kick},
        {"sched.deadline.kick-under-leaf", test_kick_under_leaf},
        {"sched.deadline.clear", test_clear},
        {"sched.deadline.earlier", test_earlier},
        {"sched.deadline.quiet", test_quiet},
        {"sched.deadline.rest", test_rest},
        {"sched.deadline.no-memory", test_no_memory},
        /* By script. */
        {"sched.deadline.set-late", test_set_late},
        {"sched.deadline.rest-late", test_rest_late},
        {"sched.deadline.destroy-late", test_destroy_late},
    };
    return tap_run(argc, argv, cases, HV_CONFIG_RACE_POINTS ? HV_ARRAY_LEN(cases) : 9);
}
