/* SPDX-License-Identifier: GPL-3.0-or-later */
/* base/clock: the simulated clock is exact, the host's goes on and never back. */
#include "base/clock.h"

#include "lib/tap.h"

static void test_simulated(void)
{
    struct hv_clock clock;

    hv_clock_init_simulated(&clock, (hv_ns){500});
    TAP_EQ(hv_clock_now(&clock).v, 500);
    TAP_EQ(hv_clock_now(&clock).v, 500);
    hv_clock_advance(&clock, 0);
    TAP_EQ(hv_clock_now(&clock).v, 500);
    hv_clock_advance(&clock, 250);
    TAP_EQ(hv_clock_now(&clock).v, 750);
}

static void test_simulated_wall(void)
{
    struct hv_clock clock;

    hv_clock_init_simulated(&clock, (hv_ns){0});
    /* date -u -d 2026-01-01T00:00:00Z +%s */
    TAP_EQ(hv_clock_wall_s(&clock), 1767225600);
    hv_clock_advance(&clock, 2 * HV_NS_PER_S - 1);
    TAP_EQ(hv_clock_wall_s(&clock), 1767225601);
    hv_clock_advance(&clock, 1);
    TAP_EQ(hv_clock_wall_s(&clock), 1767225602);
}

static void test_host(void)
{
    struct hv_clock clock;
    hv_ns last;

    hv_clock_init_host(&clock);
    last = hv_clock_now(&clock);
    TAP_OK(last.v > 0);
    for (unsigned i = 0; i < 1000; i++) {
        hv_ns now = hv_clock_now(&clock);

        TAP_OK(!hv_ns_before(now, last));
        last = now;
    }
    /* 2023-11-14: any host that compiled this is later. */
    TAP_OK(hv_clock_wall_s(&clock) > UINT64_C(1700000000));
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"base.clock.simulated", test_simulated},
        {"base.clock.simulated-wall", test_simulated_wall},
        {"base.clock.host", test_host},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
