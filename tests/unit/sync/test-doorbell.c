/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sync/doorbell: modes, requests, sleep, acknowledgement; the races by script. */
#include "sync/doorbell.h"

#include <signal.h>

#include "base/clock.h"
#include "lib/threads.h"
#include "sync/lock.h"
#include "sync/race.h"

static struct hv_doorbell bell;
static _Atomic uint32_t result, finished;

static void start(void)
{
    hv_doorbell_init(&bell);
    result = finished = 0;
}

static hv_ns in_ten_seconds(void)
{
    return hv_ns_add(hv_clock_host_now(), 10 * HV_NS_PER_S);
}

static void test_requests(void)
{
    start();
    TAP_EQ(hv_doorbell_take(&bell), 0);
    hv_doorbell_ring(&bell, HV_REQUEST_FLUSH);
    hv_doorbell_ring(&bell, HV_REQUEST_STOP);
    TAP_EQ(bell.exit_request, 1);
    TAP_EQ(hv_doorbell_take(&bell), HV_REQUEST_FLUSH | HV_REQUEST_STOP);
    TAP_EQ(bell.exit_request, 0);
    TAP_EQ(hv_doorbell_take(&bell), 0);
}

static void test_enter(void)
{
    start();
    TAP_OK(!hv_doorbell_in_guest(&bell));
    TAP_EQ(hv_doorbell_enter(&bell), 0);
    TAP_OK(hv_doorbell_in_guest(&bell));
    hv_doorbell_ring(&bell, HV_REQUEST_EVENT);
    TAP_OK(hv_doorbell_in_guest(&bell));
    hv_doorbell_leave(&bell);
    TAP_OK(!hv_doorbell_in_guest(&bell));
    /* The bit stands until taken: no entry. */
    TAP_EQ(hv_doorbell_enter(&bell), HV_REQUEST_EVENT);
    TAP_OK(!hv_doorbell_in_guest(&bell));
    TAP_EQ(hv_doorbell_take(&bell), HV_REQUEST_EVENT);
    TAP_EQ(hv_doorbell_enter(&bell), 0);
}

static void count_interrupt(void *context)
{
    hv_add_seq((_Atomic uint32_t *)context, 1);
}

static void test_interrupt(void)
{
    start();
    bell.interrupt = count_interrupt;
    bell.interrupt_context = (void *)&result;
    hv_doorbell_ring(&bell, HV_REQUEST_EVENT);
    TAP_EQ(result, 0);
    TAP_EQ(hv_doorbell_take(&bell), HV_REQUEST_EVENT);
    TAP_EQ(hv_doorbell_enter(&bell), 0);
    hv_doorbell_ring(&bell, HV_REQUEST_EVENT);
    TAP_EQ(result, 1);
}

static void test_sleep(void)
{
    start();
    TAP_EQ(hv_doorbell_sleep(&bell, (hv_ns){0}), 0);
    TAP_EQ(hv_doorbell_sleep(&bell, hv_ns_add(hv_clock_host_now(), 1000)), 0);
    hv_doorbell_ring(&bell, HV_REQUEST_TIMER);
    TAP_EQ(hv_doorbell_sleep(&bell, HV_NS_NEVER), HV_REQUEST_TIMER);
    TAP_EQ(bell.mode, HV_DOORBELL_MODE_OUTSIDE);
}

static void sleep_named(unsigned index, void *context)
{
    (void)context;
    hv_race_name_thread(index + 2);
    hv_store_seq(&result, hv_doorbell_sleep(&bell, in_ten_seconds()));
}

static void test_sleep_rung(void)
{
    struct threads threads;

    start();
    threads_start(&threads, 1, sleep_named, NULL);
    TAP_AWAIT(hv_load_seq(&bell.mode) == HV_DOORBELL_MODE_ASLEEP);
    hv_doorbell_ring(&bell, HV_REQUEST_EVENT);
    threads_join(&threads);
    TAP_EQ(result, HV_REQUEST_EVENT);
}

/* Rung between the mode and the look at the requests, and before the kernel is asked. */
static void test_sleep_late_ring(void)
{
    struct threads threads;

    start();
    hv_race_begin();
    hv_race_stop(2, "doorbell.sleep.published", 0);
    threads_start(&threads, 1, sleep_named, NULL);
    TAP_OK(hv_race_await(2, "doorbell.sleep.published"));
    hv_doorbell_ring(&bell, HV_REQUEST_EVENT);
    hv_race_end();
    threads_join(&threads);
    TAP_EQ(result, HV_REQUEST_EVENT);
}

static void enter_named(unsigned index, void *context)
{
    (void)context;
    hv_race_name_thread(index + 2);
    hv_store_seq(&result, hv_doorbell_enter(&bell));
}

static void test_enter_late_ring(void)
{
    struct threads threads;

    start();
    hv_race_begin();
    hv_race_stop(2, "doorbell.enter.published", 0);
    threads_start(&threads, 1, enter_named, NULL);
    TAP_OK(hv_race_await(2, "doorbell.enter.published"));
    hv_doorbell_ring(&bell, HV_REQUEST_FLUSH);
    TAP_OK(hv_doorbell_in_guest(&bell));
    hv_race_end();
    threads_join(&threads);
    TAP_EQ(result, HV_REQUEST_FLUSH);
    TAP_OK(!hv_doorbell_in_guest(&bell));
}

static void wait_as_3(unsigned index, void *context)
{
    (void)context;
    hv_race_name_thread(index + 3);
    hv_doorbell_wait(&bell, hv_doorbell_acknowledged(&bell));
    hv_add_seq(&finished, 1);
}

/* An entry that is refused was seen as IN_GUEST for a moment, by one that waits for its end. */
static void test_enter_refused(void)
{
    struct threads owner, waiter;

    start();
    hv_race_begin();
    hv_race_stop(2, "doorbell.enter.published", 0);
    hv_race_stop(3, "doorbell.wait.sleeps", 0);
    threads_start(&owner, 1, enter_named, NULL);
    TAP_OK(hv_race_await(2, "doorbell.enter.published"));
    hv_doorbell_ring(&bell, HV_REQUEST_FLUSH);
    threads_start(&waiter, 1, wait_as_3, NULL);
    TAP_OK(hv_race_await(3, "doorbell.wait.sleeps"));
    hv_race_end();
    TAP_AWAIT(hv_load_seq(&finished) == 1);
    threads_join(&owner);
    threads_join(&waiter);
    TAP_EQ(result, HV_REQUEST_FLUSH);
}

static void take_named(unsigned index, void *context)
{
    (void)context;
    hv_race_name_thread(index + 2);
    hv_store_seq(&result, hv_doorbell_take(&bell));
}

/* Rung in the middle of taking: the bit is either taken or polled for, never lost to both. */
static void test_take_late_ring(void)
{
    struct threads threads;

    start();
    hv_race_begin();
    hv_race_stop(2, "doorbell.take.cleared", 0);
    threads_start(&threads, 1, take_named, NULL);
    TAP_OK(hv_race_await(2, "doorbell.take.cleared"));
    hv_doorbell_ring(&bell, HV_REQUEST_CODE);
    hv_race_end();
    threads_join(&threads);
    TAP_EQ(result, HV_REQUEST_CODE);
    TAP_EQ(bell.requests, 0);
}

static void wait_named(unsigned index, void *context)
{
    uint32_t since = hv_doorbell_acknowledged(&bell);

    (void)context;
    hv_race_name_thread(index + 2);
    hv_add_seq(&result, 1);
    hv_doorbell_wait(&bell, since);
    hv_add_seq(&finished, 1);
}

static void test_wait_outside(void)
{
    start();
    hv_doorbell_wait(&bell, hv_doorbell_acknowledged(&bell));
    TAP_EQ(hv_doorbell_enter(&bell), 0);
    /* Acknowledged since: no wait. */
    hv_doorbell_wait(&bell, hv_doorbell_acknowledged(&bell) - 1);
    TAP_EQ(bell.waiters, 0);
}

static void wait_for(void (*end)(struct hv_doorbell *))
{
    struct threads threads;

    start();
    TAP_EQ(hv_doorbell_enter(&bell), 0);
    hv_race_begin();
    for (unsigned i = 2; i < 4; i++) {
        hv_race_stop(i, "doorbell.wait.sleeps", 0);
    }
    threads_start(&threads, 2, wait_named, NULL);
    for (unsigned i = 2; i < 4; i++) {
        TAP_OK(hv_race_await(i, "doorbell.wait.sleeps"));
    }
    /* One has it before it sleeps, one perhaps in its sleep. */
    hv_race_release(3, "doorbell.wait.sleeps");
    TAP_EQ(finished, 0);
    end(&bell);
    TAP_AWAIT(hv_load_seq(&finished) == 1);
    hv_race_end();
    threads_join(&threads);
    TAP_EQ(finished, 2);
    TAP_EQ(bell.waiters, 0);
}

static void test_wait_acknowledged(void)
{
    wait_for(hv_doorbell_acknowledge);
    TAP_OK(hv_doorbell_in_guest(&bell));
}

static void test_wait_left(void)
{
    wait_for(hv_doorbell_leave);
    TAP_OK(!hv_doorbell_in_guest(&bell));
}

static void wait_under_lock(void)
{
    struct hv_lock lock;

    hv_lock_init(&lock, HV_RANK_DEVICE, "device", 0);
    hv_lock_take(&lock);
    hv_doorbell_wait(&bell, 0);
}

static void test_wait_rank(void)
{
    if (!HV_CONFIG_RANKS) {
        tap_skip("Ranks are not compiled in.");
        return;
    }
    start();
    TAP_DIES(wait_under_lock, SIGABRT, "acknowledgement (rank 29)");
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"sync.doorbell.requests", test_requests},
        {"sync.doorbell.enter", test_enter},
        {"sync.doorbell.interrupt", test_interrupt},
        {"sync.doorbell.sleep", test_sleep},
        {"sync.doorbell.sleep-rung", test_sleep_rung},
        {"sync.doorbell.wait-outside", test_wait_outside},
        {"sync.doorbell.wait-rank", test_wait_rank},
        /* From here on by script. */
        {"sync.doorbell.sleep-late-ring", test_sleep_late_ring},
        {"sync.doorbell.enter-late-ring", test_enter_late_ring},
        {"sync.doorbell.enter-refused", test_enter_refused},
        {"sync.doorbell.take-late-ring", test_take_late_ring},
        {"sync.doorbell.wait-acknowledged", test_wait_acknowledged},
        {"sync.doorbell.wait-left", test_wait_left},
    };
    return tap_run(argc, argv, cases, HV_CONFIG_RACE_POINTS ? HV_ARRAY_LEN(cases) : 7);
}
