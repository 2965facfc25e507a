/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sync/qsbr: what a grace period waits for, and what it does not. */
#include "sync/qsbr.h"

#include <signal.h>

#include "lib/threads.h"
#include "sync/race.h"

static struct hv_qsbr qsbr;
static struct hv_qsbr_thread reader;
static _Atomic uint32_t finished;

struct block {
    struct hv_qsbr_call call;
    unsigned freed;
    unsigned *order;
};

static void note_freed(struct hv_qsbr_call *call)
{
    struct block *block = HV_CONTAINER_OF(call, struct block, call);

    block->freed = ++*block->order;
}

static void start(void)
{
    finished = 0;
    hv_qsbr_init(&qsbr);
    hv_qsbr_register(&qsbr, &reader);
}

static void end(void)
{
    hv_qsbr_offline(&reader);
    hv_qsbr_unregister(&reader);
    hv_qsbr_finish(&qsbr);
}

static void test_offline(void)
{
    start();
    /* Nobody reads: returns at once. */
    hv_qsbr_synchronize(&qsbr);
    TAP_OK(!hv_qsbr_is_online(&reader));
    hv_qsbr_quiescent(&reader);
    TAP_OK(!hv_qsbr_is_online(&reader));
    hv_qsbr_online(&reader);
    TAP_OK(hv_qsbr_is_online(&reader));
    end();
}

static void test_call(void)
{
    unsigned order = 0;
    struct block a = {.order = &order};
    struct block b = {.order = &order};

    start();
    hv_qsbr_online(&reader);
    hv_qsbr_call(&qsbr, &a.call, note_freed);
    TAP_EQ(hv_qsbr_reclaim(&qsbr, 10), 0);
    hv_qsbr_quiescent(&reader);
    hv_qsbr_call(&qsbr, &b.call, note_freed);
    /* Quiescent since the first, not since the second. */
    TAP_EQ(hv_qsbr_reclaim(&qsbr, 10), 1);
    TAP_EQ(a.freed, 1);
    TAP_EQ(b.freed, 0);
    hv_qsbr_offline(&reader);
    TAP_EQ(hv_qsbr_reclaim(&qsbr, 10), 1);
    TAP_EQ(b.freed, 2);
    end();
}

static void test_limit(void)
{
    unsigned order = 0;
    struct block blocks[5] = {0};

    start();
    for (unsigned i = 0; i < 5; i++) {
        blocks[i].order = &order;
        hv_qsbr_call(&qsbr, &blocks[i].call, note_freed);
    }
    TAP_EQ(hv_qsbr_reclaim(&qsbr, 2), 2);
    TAP_EQ(blocks[1].freed, 2);
    TAP_EQ(blocks[2].freed, 0);
    end();
    /* Finishing runs the rest, in order. */
    TAP_EQ(blocks[4].freed, 5);
}

static void finish_registered(void)
{
    start();
    hv_qsbr_finish(&qsbr);
}

static void unregister_online(void)
{
    start();
    hv_qsbr_online(&reader);
    hv_qsbr_unregister(&reader);
}

static void synchronize_locked(void)
{
    struct hv_lock lock;

    start();
    hv_lock_init(&lock, HV_RANK_LIFECYCLE, "lifecycle", 0);
    hv_lock_take(&lock);
    hv_qsbr_synchronize(&qsbr);
}

static void test_misuse(void)
{
    TAP_DIES(finish_registered, SIGABRT, "BUG");
    TAP_DIES(unregister_online, SIGABRT, "BUG");
    if (HV_CONFIG_RANKS) {
        TAP_DIES(synchronize_locked, SIGABRT, "a grace period may block");
    }
}

static void synchronize(unsigned index, void *context)
{
    (void)context;
    hv_race_name_thread(index + 2);
    hv_qsbr_synchronize(&qsbr);
    hv_add_seq(&finished, 1);
}

static void wait_and(void (*become_quiet)(struct hv_qsbr_thread *))
{
    struct threads threads;

    start();
    hv_qsbr_online(&reader);
    hv_race_begin();
    hv_race_stop(2, "qsbr.synchronize.waits", 0);
    hv_race_stop(3, "qsbr.synchronize.waits", 0);
    threads_start(&threads, 2, synchronize, NULL);
    TAP_OK(hv_race_await(2, "qsbr.synchronize.waits"));
    TAP_OK(hv_race_await(3, "qsbr.synchronize.waits"));
    hv_race_release(3, "qsbr.synchronize.waits");
    TAP_EQ(finished, 0);
    become_quiet(&reader);
    TAP_AWAIT(hv_load_seq(&finished) >= 1);
    hv_race_end();
    threads_join(&threads);
    TAP_EQ(finished, 2);
    end();
}

static void test_wait_quiescent(void)
{
    wait_and(hv_qsbr_quiescent);
}

static void test_wait_offline(void)
{
    wait_and(hv_qsbr_offline);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"sync.qsbr.offline", test_offline},
        {"sync.qsbr.call", test_call},
        {"sync.qsbr.limit", test_limit},
        {"sync.qsbr.misuse", test_misuse},
        /* From here on by script. */
        {"sync.qsbr.wait-quiescent", test_wait_quiescent},
        {"sync.qsbr.wait-offline", test_wait_offline},
    };
    return tap_run(argc, argv, cases, HV_CONFIG_RACE_POINTS ? HV_ARRAY_LEN(cases) : 4);
}
