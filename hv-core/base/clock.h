/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The hypervisor's one source of time: the host's monotonic clock, or a simulated one that moves
 * only when a test or a simulation says so. Timers, guest clocks, the scheduler and the scrubber
 * all read it, so that hours of ticks of many vCPUs run in a second, bit-exact.
 */
#pragma once

#include <hv/types.h>

enum hv_clock_kind {
    HV_CLOCK_KIND_HOST,
    HV_CLOCK_KIND_SIMULATED,
};

struct hv_clock {
    /* Set at creation. */
    enum hv_clock_kind kind;
    /* Atomic: the simulated moment in ns (simulated clocks only). */
    _Atomic uint64_t simulated_ns;
};

/** A clock that follows CLOCK_MONOTONIC. */
void hv_clock_init_host(struct hv_clock *clock);

/** A clock that stands at @start until hv_clock_advance(). */
void hv_clock_init_simulated(struct hv_clock *clock, hv_ns start);

/** The present moment. Monotonic. Context: any thread, any lock. */
hv_ns hv_clock_now(const struct hv_clock *clock);

/**
 * CLOCK_MONOTONIC itself: for spans that are the host's whatever the guests' clock, such as the
 * time waited for a lock.
 */
hv_ns hv_clock_host_now(void);

/** How many a second @count (below 2^44) in @span_ns are; 0 for a span of less than 1 us. */
static inline uint64_t hv_rate_per_s(uint64_t count, uint64_t span_ns)
{
    uint64_t span_us = span_ns / HV_NS_PER_US;

    return span_us > 0 ? count * 1000000 / span_us : 0;
}

/** Move a simulated clock on by @span_ns; it never goes back. */
void hv_clock_advance(struct hv_clock *clock, uint64_t span_ns);

/**
 * Time since 1970 by the host's wall clock, for the first setting of an RTC and of what guests tell
 * the time by. A simulated clock counts from 2026-01-01T00:00:00Z.
 */
uint64_t hv_clock_wall_ns(const struct hv_clock *clock);
/** The same in whole seconds. */
uint64_t hv_clock_wall_s(const struct hv_clock *clock);
