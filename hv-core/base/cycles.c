/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How fast the time-stamp counter runs: see cycles.h. */
#include "base/cycles.h"

#include <stdatomic.h>

#include "base/clock.h"

/* Nanoseconds a cycle in units of 2^-22: below 2^24 from 250 MHz on. */
#define SCALE_SHIFT    22
/* Longest span, in cycles: its product with the scale fits 64 bits. */
#define SPAN_MAX       (UINT64_C(1) << 38)
/* Two looks at both clocks so far apart that the error of a look, 50 ns, is 1 in 2000. */
#define CALIBRATION_NS (100 * HV_NS_PER_US)
#define LOOKS          5

static struct {
    /* Atomic: the scale, 0 while it is not known. Whoever measures first; a second measurement
     * does no harm. */
    _Atomic uint64_t scale;
} cycles;

struct look {
    uint64_t cycles, ns;
};

/* Both clocks at one moment: the look during which least time passed, so that no switch to another
 * thread lies between the two. */
static struct look look_at_both(void)
{
    uint64_t shortest = UINT64_MAX;
    struct look best = {0, 0};

    for (unsigned i = 0; i < LOOKS; i++) {
        uint64_t before = hv_cycles_now();
        uint64_t ns = hv_clock_host_now().v;
        uint64_t span = hv_cycles_now() - before;

        if (span < shortest) {
            shortest = span;
            best = (struct look){before + span / 2, ns};
        }
    }
    return best;
}

void hv_cycles_calibrate(void)
{
    struct look start, end;

    if (atomic_load_explicit(&cycles.scale, memory_order_relaxed) != 0) {
        return;
    }
    start = look_at_both();
    do {
        end = look_at_both();
    } while (end.ns - start.ns < CALIBRATION_NS);
    if (end.cycles > start.cycles) {
        atomic_store_explicit(&cycles.scale,
                              ((end.ns - start.ns) << SCALE_SHIFT) / (end.cycles - start.cycles),
                              memory_order_relaxed);
    }
}

uint64_t hv_cycles_span_ns(uint64_t from, uint64_t to)
{
    uint64_t span = to > from ? to - from : 0;

    span = span < SPAN_MAX ? span : SPAN_MAX;
    return (span * atomic_load_explicit(&cycles.scale, memory_order_relaxed)) >> SCALE_SHIFT;
}
