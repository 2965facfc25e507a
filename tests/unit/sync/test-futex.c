/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sync/futex: it does not sleep on a moved word, nor past a deadline, and it wakes. */
#include "sync/futex.h"

#include "base/clock.h"
#include "lib/threads.h"
#include "sync/atomic.h"

static _Atomic uint32_t word, asleep, woken;

static void test_moved(void)
{
    word = 7;
    hv_futex_wait(&word, 8, HV_NS_NEVER);
    TAP_EQ(word, 7);
}

static void test_deadline(void)
{
    hv_ns soon = hv_ns_add(hv_clock_host_now(), HV_NS_PER_MS);

    word = 7;
    hv_futex_wait(&word, 7, (hv_ns){0});
    while (hv_ns_before(hv_clock_host_now(), soon)) {
        hv_futex_wait(&word, 7, soon);
    }
    TAP_OK(!hv_ns_before(hv_clock_host_now(), soon));
}

static void sleep_on_word(unsigned index, void *context)
{
    (void)index;
    (void)context;
    hv_add_seq(&asleep, 1);
    while (hv_load_seq(&word) == 0) {
        hv_futex_wait(&word, 0, HV_NS_NEVER);
    }
    hv_add_seq(&woken, 1);
}

static void test_wake(void)
{
    struct threads threads;

    word = asleep = woken = 0;
    threads_start(&threads, 3, sleep_on_word, NULL);
    TAP_AWAIT(hv_load_seq(&asleep) == 3);
    hv_store_seq(&word, 1);
    hv_futex_wake(&word, 3);
    threads_join(&threads);
    TAP_EQ(woken, 3);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"sync.futex.moved", test_moved},
        {"sync.futex.deadline", test_deadline},
        {"sync.futex.wake", test_wake},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
