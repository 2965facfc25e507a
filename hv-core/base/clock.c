/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Host, simulated and derived time: see clock.h. */
#include "base/clock.h"

#include <stdatomic.h>
#include <time.h>

/* 2026-01-01T00:00:00Z, where simulated wall clocks start. */
#define SIMULATED_WALL_S UINT64_C(1767225600)
/* Two clocks are read as one when reading both took no longer. */
#define CLOSE_NS         (100 * HV_NS_PER_US)
#define CLOSE_TRIES      16

void hv_clock_init_host(struct hv_clock *clock)
{
    *clock = (struct hv_clock){.kind = HV_CLOCK_KIND_HOST};
}

void hv_clock_init_simulated(struct hv_clock *clock, hv_ns start)
{
    *clock = (struct hv_clock){.kind = HV_CLOCK_KIND_SIMULATED, .simulated_ns = start.v};
}

void hv_clock_init_derived(struct hv_clock *clock, const struct hv_clock *source,
                           const struct hv_clock_ops *ops)
{
    *clock = (struct hv_clock){.kind = HV_CLOCK_KIND_DERIVED, .source = source, .ops = ops};
}

static uint64_t host_ns(clockid_t id)
{
    struct timespec now;

    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * HV_NS_PER_S + (uint64_t)now.tv_nsec;
}

hv_ns hv_clock_host_now(void)
{
    return (hv_ns){host_ns(CLOCK_MONOTONIC)};
}

hv_ns hv_clock_now(const struct hv_clock *clock)
{
    if (clock->kind == HV_CLOCK_KIND_HOST) {
        return hv_clock_host_now();
    }
    if (clock->kind == HV_CLOCK_KIND_DERIVED) {
        return clock->ops->now(clock);
    }
    /* Acquire: who sees a moment sees what was done before it; pairs with hv_clock_advance(). */
    return (hv_ns){atomic_load_explicit(&clock->simulated_ns, memory_order_acquire)};
}

hv_ns hv_clock_source_moment(const struct hv_clock *clock, hv_ns moment)
{
    return clock->kind == HV_CLOCK_KIND_DERIVED ? clock->ops->source_moment(clock, moment) : moment;
}

/* Whoever loses the CPU between the two clocks counts too little, and tries again. */
static uint64_t host_asleep_ns(void)
{
    uint64_t most = 0;

    for (unsigned i = 0; i < CLOSE_TRIES; i++) {
        uint64_t before = host_ns(CLOCK_MONOTONIC);
        uint64_t with_sleep = host_ns(CLOCK_BOOTTIME);
        uint64_t after = host_ns(CLOCK_MONOTONIC);

        if (with_sleep > after && with_sleep - after > most) {
            most = with_sleep - after;
        }
        if (after - before <= CLOSE_NS) {
            break;
        }
    }
    return most;
}

uint64_t hv_clock_asleep_ns(const struct hv_clock *clock)
{
    switch (clock->kind) {
    case HV_CLOCK_KIND_HOST:
        return host_asleep_ns();
    case HV_CLOCK_KIND_SIMULATED:
        return atomic_load_explicit(&clock->simulated_asleep_ns, memory_order_acquire);
    case HV_CLOCK_KIND_DERIVED:
        break;
    }
    return hv_clock_asleep_ns(clock->source);
}

void hv_clock_advance(struct hv_clock *clock, uint64_t span_ns)
{
    atomic_fetch_add_explicit(&clock->simulated_ns, span_ns, memory_order_release);
}

void hv_clock_sleep(struct hv_clock *clock, uint64_t span_ns)
{
    atomic_fetch_add_explicit(&clock->simulated_asleep_ns, span_ns, memory_order_release);
}

void hv_clock_set_wall(struct hv_clock *clock, int64_t step_ns)
{
    atomic_fetch_add_explicit(&clock->simulated_wall_ns, (uint64_t)step_ns, memory_order_release);
}

void hv_clock_step_back(struct hv_clock *clock, uint64_t span_ns)
{
    atomic_fetch_sub_explicit(&clock->simulated_ns, span_ns, memory_order_release);
}

uint64_t hv_clock_wall_ns(const struct hv_clock *clock)
{
    switch (clock->kind) {
    case HV_CLOCK_KIND_HOST:
        return host_ns(CLOCK_REALTIME);
    case HV_CLOCK_KIND_SIMULATED:
        return SIMULATED_WALL_S * HV_NS_PER_S + hv_clock_now(clock).v + hv_clock_asleep_ns(clock) +
               atomic_load_explicit(&clock->simulated_wall_ns, memory_order_acquire);
    case HV_CLOCK_KIND_DERIVED:
        break;
    }
    return hv_clock_wall_ns(clock->source);
}

uint64_t hv_clock_wall_s(const struct hv_clock *clock)
{
    return hv_clock_wall_ns(clock) / HV_NS_PER_S;
}
