/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Grids, missed ticks, the floor on periods, late callbacks, pauses. */
#include "platform/tick.h"
#include "platform/vpt.h"

#include "lib/tap.h"

struct bench {
    struct hv_clock clock;
    struct hv_doorbell bell;
    struct hv_timer_queue queue;
    struct hv_vpt_set *set;
    struct hv_vpt vpt;
    unsigned ticks, late, kicks;
    bool masked; /* nobody takes its interrupts */
    uint64_t last_ns;
};

static struct bench bench;

static void kick(void *context, unsigned vcpu)
{
    ((struct bench *)context)->kicks++;
    TAP_EQ(vcpu, 0);
}

static void expired(void *context)
{
    struct bench *b = context;

    if (hv_vpt_expire(&b->vpt, hv_clock_now(&b->clock))) {
        hv_vpt_issue(&b->vpt);
        if (!b->masked) {
            hv_vpt_accept(&b->vpt, 0, NULL);
        }
        hv_vpt_check(&b->vpt);
        b->ticks++;
        b->last_ns = hv_clock_now(&b->clock).v;
    } else {
        b->late++;
    }
}

/* A merging one: what the grid does is the same under all policies. */
static void start(uint64_t now_ns)
{
    const struct hv_vpt_policy merge = {.kind = HV_TICK_MERGE};
    struct hv_timer_queue *queues[] = {&bench.queue};
    const struct hv_vpt_set_config set = {
        .vcpus = 1, .queues = queues, .kick = kick, .context = &bench};

    bench = (struct bench){0};
    hv_clock_init_simulated(&bench.clock, (hv_ns){now_ns});
    hv_doorbell_init(&bench.bell);
    hv_timer_queue_init(&bench.queue, &bench.clock, &bench.bell, 0);
    TAP_EQ(hv_vpt_set_create(&set, &bench.set), 0);
    hv_vpt_init(&bench.vpt, bench.set, HV_VPT_PIT, 0, expired, &bench);
    hv_vpt_set_policy(&bench.vpt, &merge);
}

static void finish(void)
{
    hv_vpt_finish(&bench.vpt);
    hv_vpt_set_destroy(bench.set);
    hv_timer_queue_finish(&bench.queue);
}

/* What is due fires, and the vCPU comes to it. */
static void run(void)
{
    hv_timer_queue_run(&bench.queue, hv_clock_now(&bench.clock));
    hv_vpt_update(bench.set, 0);
}

static void run_until(uint64_t end_ns)
{
    while (hv_timer_queue_next(&bench.queue).v <= end_ns) {
        uint64_t now = hv_clock_now(&bench.clock).v;
        uint64_t next = hv_timer_queue_next(&bench.queue).v;

        hv_clock_advance(&bench.clock, next > now ? next - now : 0);
        run();
    }
    hv_clock_advance(&bench.clock, end_ns - hv_clock_now(&bench.clock).v);
}

static void test_ticks(void)
{
    static const uint32_t rates[] = {1, 18, 32768, 1193182, 3579545, 25000000, 1000000000};

    for (size_t i = 0; i < HV_ARRAY_LEN(rates); i++) {
        for (unsigned j = 0; j < 1000; j++) {
            uint64_t ticks = tap_rng() % ((uint64_t)rates[i] * 100000000);
            uint64_t ns = hv_ticks_to_ns(ticks, rates[i]);

            /* The first nanosecond that has them. */
            TAP_EQ(hv_ticks_from_ns(ns, rates[i]), ticks);
            if (ns > 0) {
                TAP_OK(hv_ticks_from_ns(ns - 1, rates[i]) < ticks);
            }
        }
    }
}

static void test_one_shot(void)
{
    start(5000);
    hv_vpt_start(&bench.vpt, (hv_ns){7000}, 0);
    TAP_EQ(hv_vpt_remaining_ns(&bench.vpt, hv_clock_now(&bench.clock)), 2000);
    run_until(6999);
    TAP_EQ(bench.ticks, 0);
    run_until(100000);
    TAP_EQ(bench.ticks, 1);
    TAP_EQ(bench.last_ns, 7000);
    TAP_EQ(hv_vpt_remaining_ns(&bench.vpt, hv_clock_now(&bench.clock)), UINT64_MAX);
    /* In the past: at once. */
    hv_vpt_start(&bench.vpt, (hv_ns){50}, 0);
    run();
    TAP_EQ(bench.ticks, 2);
    finish();
}

static void test_grid_is_exact(void)
{
    const uint32_t hz = 1193182;
    const uint64_t year_ns = UINT64_C(365) * 86400 * HV_NS_PER_S;

    /* Origin before the clock's zero, as after a load. */
    start(1000);
    hv_vpt_start_grid(&bench.vpt, (uint64_t)0 - 12345, 1193, hz);
    for (unsigned i = 1; i <= 1000; i++) {
        uint64_t due = hv_ticks_to_ns((uint64_t)i * 1193, hz) - 12345;

        TAP_EQ(bench.vpt.due_ns, due);
        run_until(due);
        TAP_EQ(bench.ticks, i);
    }
    /* After a year asleep the next tick still is a point of the grid. */
    hv_clock_advance(&bench.clock, year_ns);
    run();
    TAP_EQ(bench.ticks, 1001);
    TAP_EQ(hv_ticks_from_ns(bench.vpt.due_ns + 12345, hz) % 1193, 0);
    TAP_OK(hv_vpt_remaining_ns(&bench.vpt, hv_clock_now(&bench.clock)) <= HV_NS_PER_MS);
    finish();
}

static void test_merge_law(void)
{
    const uint64_t period = 250 * HV_NS_PER_US;
    uint64_t begin = 1000000;
    uint64_t points = 0;

    start(begin);
    hv_vpt_start(&bench.vpt, (hv_ns){begin + period}, period);
    for (unsigned i = 0; i < 10000; i++) {
        uint64_t span = tap_rng() % (tap_rng() % 16 ? period : period * 20);

        hv_clock_advance(&bench.clock, span);
        run();
        points = (hv_clock_now(&bench.clock).v - begin) / period;
        TAP_EQ(hv_load_relaxed(&bench.vpt.counters.fired), points);
        TAP_EQ(bench.ticks + hv_load_relaxed(&bench.vpt.counters.merged), points);
        TAP_EQ((bench.vpt.due_ns - begin) % period, 0);
    }
    TAP_OK(hv_load_relaxed(&bench.vpt.counters.merged) > 0);
    finish();
}

static void test_floor(void)
{
    start(0);
    hv_vpt_start(&bench.vpt, (hv_ns){1}, 1);
    TAP_EQ(hv_load_relaxed(&bench.vpt.period_ns), HV_VPT_PERIOD_FLOOR_NS);
    run_until(HV_NS_PER_S);
    TAP_EQ(bench.ticks, 10000);
    hv_vpt_start_grid(&bench.vpt, 0, 1, 1193182);
    TAP_OK(hv_load_relaxed(&bench.vpt.period_ns) >= HV_VPT_PERIOD_FLOOR_NS);
    TAP_OK(hv_load_relaxed(&bench.vpt.period_ns) < HV_VPT_PERIOD_FLOOR_NS + 1000);
    TAP_EQ(hv_load_relaxed(&bench.vpt.counters.period_clamped), 2);
    /* One-shots have no floor. */
    hv_vpt_start(&bench.vpt, (hv_ns){HV_NS_PER_S + 10}, 0);
    TAP_EQ(hv_vpt_remaining_ns(&bench.vpt, hv_clock_now(&bench.clock)), 10);
    /* Just above it nothing is clamped. */
    hv_vpt_start(&bench.vpt, (hv_ns){2 * HV_NS_PER_S}, HV_VPT_PERIOD_FLOOR_NS);
    TAP_EQ(hv_load_relaxed(&bench.vpt.counters.period_clamped), 2);
    finish();
}

static void test_late_callback(void)
{
    start(0);
    hv_vpt_start(&bench.vpt, (hv_ns){1000}, 0);
    hv_clock_advance(&bench.clock, 1000);
    hv_vpt_start(&bench.vpt, (hv_ns){5000}, 0);
    expired(&bench); /* of the previous life */
    TAP_EQ(bench.ticks, 0);
    TAP_EQ(bench.late, 1);
    hv_vpt_stop(&bench.vpt);
    hv_clock_advance(&bench.clock, 10000);
    expired(&bench);
    TAP_EQ(bench.ticks, 0);
    TAP_EQ(bench.late, 2);
    finish();
}

static void test_pause(void)
{
    start(0);
    hv_vpt_start(&bench.vpt, (hv_ns){HV_NS_PER_MS}, HV_NS_PER_MS);
    hv_vpt_pause(&bench.vpt);
    run_until(10 * HV_NS_PER_MS + 5);
    TAP_EQ(bench.ticks, 0);
    /* Armed anew while paused: still nothing. */
    hv_vpt_start(&bench.vpt, (hv_ns){11 * HV_NS_PER_MS}, HV_NS_PER_MS);
    run_until(12 * HV_NS_PER_MS + 5);
    TAP_EQ(bench.ticks, 0);
    hv_vpt_resume(&bench.vpt);
    run();
    TAP_EQ(bench.ticks, 1);
    TAP_EQ(hv_load_relaxed(&bench.vpt.counters.merged), 1);
    TAP_EQ(bench.vpt.due_ns, 13 * HV_NS_PER_MS);
    finish();
}

/* Halted: the timer fires once more at most, into nothing, and is not armed again. */
static void test_halt(void)
{
    start(0);
    hv_vpt_start(&bench.vpt, (hv_ns){HV_NS_PER_MS}, HV_NS_PER_MS);
    run_until(2 * HV_NS_PER_MS + 5);
    TAP_EQ(bench.ticks, 2);
    hv_vpt_halt(&bench.vpt);
    run_until(10 * HV_NS_PER_MS + 5);
    TAP_EQ(bench.ticks, 2);
    TAP_EQ(hv_timer_queue_next(&bench.queue).v, UINT64_MAX);
    hv_vpt_pause(&bench.vpt);
    hv_vpt_resume(&bench.vpt);
    run();
    TAP_EQ(bench.ticks, 3);
    TAP_EQ(hv_load_relaxed(&bench.vpt.counters.merged), 7);
    run_until(12 * HV_NS_PER_MS + 5);
    TAP_EQ(bench.ticks, 5);
    finish();
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"platform.vpt.ticks", test_ticks},
        {"platform.vpt.one-shot", test_one_shot},
        {"platform.vpt.grid-is-exact", test_grid_is_exact},
        {"platform.vpt.merge-law", test_merge_law},
        {"platform.vpt.floor", test_floor},
        {"platform.vpt.late-callback", test_late_callback},
        {"platform.vpt.pause", test_pause},
        {"platform.vpt.halt", test_halt},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
