/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The hypervisor's one source of time: the host's monotonic clock, or a simulated one that moves
 * only when a test or a simulation says so. Timers, guest clocks, the scheduler and the scrubber
 * all read it, so that hours of ticks of many vCPUs run in a second, bit-exact.
 *
 * A guest's own clock (time/guest-clock.h) is a third kind, derived from one of those: who reads a
 * clock need not know whose it is. Only who sets a timer does, since timers go by the source.
 */
#pragma once

#include <hv/types.h>

enum hv_clock_kind {
    HV_CLOCK_KIND_HOST,
    HV_CLOCK_KIND_SIMULATED,
    HV_CLOCK_KIND_DERIVED,
};

struct hv_clock;

/* Of a derived clock, by whoever embeds it. */
struct hv_clock_ops {
    hv_ns (*now)(const struct hv_clock *clock);
    /** As hv_clock_source_moment(). */
    hv_ns (*source_moment)(const struct hv_clock *clock, hv_ns moment);
};

struct hv_clock {
    /* Set at creation. */
    enum hv_clock_kind kind;
    const struct hv_clock *source; /* derived clocks only; borrowed */
    const struct hv_clock_ops *ops;
    /* Atomic, simulated clocks only: the moment, how long the host has slept, and by how much its
     * wall clock was set (modulo 2^64). */
    _Atomic uint64_t simulated_ns, simulated_asleep_ns, simulated_wall_ns;
};

/** A clock that follows CLOCK_MONOTONIC. */
void hv_clock_init_host(struct hv_clock *clock);

/** A clock that stands at @start until hv_clock_advance(). */
void hv_clock_init_simulated(struct hv_clock *clock, hv_ns start);

/** One that works by @ops from @source, and is told apart by nobody. */
void hv_clock_init_derived(struct hv_clock *clock, const struct hv_clock *source,
                           const struct hv_clock_ops *ops);

/** The present moment. Monotonic. Context: any thread, any lock of rank < HV_RANK_LEAF. */
hv_ns hv_clock_now(const struct hv_clock *clock);

/**
 * What the source of a derived clock shows at @moment of it, as things are now; 0 for one before the
 * source began, HV_NS_NEVER for itself. Of other clocks: @moment.
 */
hv_ns hv_clock_source_moment(const struct hv_clock *clock, hv_ns moment);

/**
 * How long the host has been asleep since it started, which its monotonic clock leaves out
 * (CLOCK_BOOTTIME less CLOCK_MONOTONIC), to 1 ms; never more than it was. Of a derived clock: of its
 * source.
 */
uint64_t hv_clock_asleep_ns(const struct hv_clock *clock);

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

/** Move a simulated clock on by @span_ns. */
void hv_clock_advance(struct hv_clock *clock, uint64_t span_ns);
/** What hosts do now and then. A simulated clock's host sleeps for @span_ns: its wall clock goes on… */
void hv_clock_sleep(struct hv_clock *clock, uint64_t span_ns);
/** …somebody sets its wall clock, by @step_ns, which may be negative… */
void hv_clock_set_wall(struct hv_clock *clock, int64_t step_ns);
/** …and its monotonic clock breaks its word. */
void hv_clock_step_back(struct hv_clock *clock, uint64_t span_ns);

/**
 * Time since 1970 by the host's wall clock, for the first setting of an RTC and of what guests tell
 * the time by. A simulated clock counts from 2026-01-01T00:00:00Z; a derived one has its source's.
 */
uint64_t hv_clock_wall_ns(const struct hv_clock *clock);
/** The same in whole seconds. */
uint64_t hv_clock_wall_s(const struct hv_clock *clock);
