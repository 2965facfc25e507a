/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Host and simulated time: see clock.h. */
#include "base/clock.h"

#include <stdatomic.h>
#include <time.h>

/* 2026-01-01T00:00:00Z, where simulated wall clocks start. */
#define SIMULATED_WALL_S UINT64_C(1767225600)

void hv_clock_init_host(struct hv_clock *clock)
{
    clock->kind = HV_CLOCK_KIND_HOST;
    atomic_init(&clock->simulated_ns, 0);
}

void hv_clock_init_simulated(struct hv_clock *clock, hv_ns start)
{
    clock->kind = HV_CLOCK_KIND_SIMULATED;
    atomic_init(&clock->simulated_ns, start.v);
}

hv_ns hv_clock_host_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (hv_ns){(uint64_t)now.tv_sec * HV_NS_PER_S + (uint64_t)now.tv_nsec};
}

hv_ns hv_clock_now(const struct hv_clock *clock)
{
    if (clock->kind == HV_CLOCK_KIND_HOST) {
        return hv_clock_host_now();
    }
    /* Acquire: who sees a moment sees what was done before it; pairs with hv_clock_advance(). */
    return (hv_ns){atomic_load_explicit(&clock->simulated_ns, memory_order_acquire)};
}

void hv_clock_advance(struct hv_clock *clock, uint64_t span_ns)
{
    atomic_fetch_add_explicit(&clock->simulated_ns, span_ns, memory_order_release);
}

uint64_t hv_clock_wall_ns(const struct hv_clock *clock)
{
    struct timespec now;

    if (clock->kind == HV_CLOCK_KIND_SIMULATED) {
        return SIMULATED_WALL_S * HV_NS_PER_S + hv_clock_now(clock).v;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * HV_NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t hv_clock_wall_s(const struct hv_clock *clock)
{
    return hv_clock_wall_ns(clock) / HV_NS_PER_S;
}
