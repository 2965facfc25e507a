/* SPDX-License-Identifier: GPL-3.0-or-later */
/* base/cycles: the scale against the kernel's clock, and spans that are none. */
#include "base/cycles.h"

#include "base/clock.h"
#include "lib/tap.h"

static void test_scale(void)
{
    uint64_t outer_ns, inner_ns, outer, inner_end, start;

    hv_cycles_calibrate();
    hv_cycles_calibrate();
    outer_ns = hv_clock_host_now().v;
    start = hv_cycles_now();
    inner_ns = hv_clock_host_now().v;
    while (hv_clock_host_now().v - inner_ns < 5 * HV_NS_PER_MS) {
    }
    inner_ns = hv_clock_host_now().v - inner_ns;
    inner_end = hv_cycles_now();
    outer_ns = hv_clock_host_now().v - outer_ns;
    outer = hv_cycles_span_ns(start, inner_end);
    /* It lies between two spans of the clock, whoever took the CPU away in between. */
    TAP_OK(outer >= inner_ns - inner_ns / 50);
    TAP_OK(outer <= outer_ns + outer_ns / 50);
}

static void test_edges(void)
{
    hv_cycles_calibrate();
    TAP_EQ(hv_cycles_span_ns(1000, 1000), 0);
    TAP_EQ(hv_cycles_span_ns(1000, 999), 0);
    /* Too long a span is a long one, not a wrapped one. */
    TAP_EQ(hv_cycles_span_ns(0, UINT64_MAX), hv_cycles_span_ns(0, UINT64_C(1) << 38));
    TAP_OK(hv_cycles_span_ns(0, UINT64_MAX) > HV_NS_PER_S);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"base.cycles.scale", test_scale},
        {"base.cycles.edges", test_edges},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
