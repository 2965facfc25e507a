/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sync/race: a script parks whom it names, where and when it says, and nobody else. */
#include "sync/race.h"

#include "lib/threads.h"
#include "sync/atomic.h"

static _Atomic uint32_t passed[4];

static void walk(unsigned index, void *context)
{
    unsigned laps = *(unsigned *)context;

    hv_race_name_thread(index + 1);
    for (unsigned i = 0; i < laps; i++) {
        HV_RACE("test.a");
        hv_add_seq(&passed[index], 1);
        HV_RACE("test.b");
        hv_add_seq(&passed[index], 1);
    }
}

static void start(void)
{
    for (unsigned i = 0; i < HV_ARRAY_LEN(passed); i++) {
        passed[i] = 0;
    }
}

static void test_off(void)
{
    unsigned laps = 3;

    start();
    threads_run(2, walk, &laps);
    TAP_EQ(passed[0], 6);
    TAP_EQ(passed[1], 6);
}

static void test_script(void)
{
    struct threads threads;
    unsigned laps = 2;

    start();
    hv_race_begin();
    hv_race_stop(1, "test.b", 0);
    hv_race_stop(2, "test.a", 1);
    threads_start(&threads, 3, walk, &laps);
    TAP_OK(hv_race_await(1, "test.b"));
    TAP_OK(hv_race_await(2, "test.a"));
    /* The first at the first b, the second at the second a, the third free. */
    TAP_AWAIT(hv_load_seq(&passed[2]) == 4);
    TAP_EQ(passed[0], 1);
    TAP_EQ(passed[1], 2);
    hv_race_stop(1, "test.a", 0);
    hv_race_release(1, "test.b");
    TAP_OK(hv_race_await(1, "test.a"));
    TAP_EQ(passed[0], 2);
    hv_race_end();
    threads_join(&threads);
    TAP_EQ(passed[0], 4);
    TAP_EQ(passed[1], 4);
}

/* Lap by lap: the next stop at the same point is placed before this one is released. */
static void test_step(void)
{
    struct threads threads;
    unsigned laps = 4;

    start();
    hv_race_begin();
    hv_race_stop(1, "test.a", 0);
    threads_start(&threads, 1, walk, &laps);
    TAP_OK(hv_race_await(1, "test.a"));
    for (unsigned lap = 0; lap < 3; lap++) {
        TAP_EQ(passed[0], 2 * lap);
        hv_race_stop(1, "test.a", 0);
        hv_race_release(1, "test.a");
        TAP_OK(hv_race_await(1, "test.a"));
    }
    hv_race_end();
    threads_join(&threads);
    TAP_EQ(passed[0], 8);
}

static void test_unreached(void)
{
    unsigned laps = 1;

    start();
    hv_race_begin();
    hv_race_stop(1, "test.a", 0);
    /* Taken back before anybody came. */
    hv_race_release(1, "test.a");
    threads_run(1, walk, &laps);
    TAP_EQ(passed[0], 2);
    TAP_OK(!hv_race_await(1, "test.a"));
    hv_race_end();
}

static void test_shuffle(void)
{
    unsigned laps = 100;

    start();
    hv_race_shuffle(tap_rng());
    threads_run(3, walk, &laps);
    hv_race_end();
    TAP_EQ(passed[0] + passed[1] + passed[2], 600);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"sync.race.off", test_off},         {"sync.race.script", test_script},
        {"sync.race.step", test_step},       {"sync.race.unreached", test_unreached},
        {"sync.race.shuffle", test_shuffle},
    };
    return tap_run(argc, argv, cases, HV_CONFIG_RACE_POINTS ? HV_ARRAY_LEN(cases) : 1);
}
