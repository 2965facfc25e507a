/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The ticks of a counter of some frequency, and nanoseconds. Split so that no product leaves 64
 * bits for any frequency up to 4 GHz and any time a host can be up.
 */
#pragma once

#include <hv/types.h>

/** How many whole ticks @ns nanoseconds hold. */
static inline uint64_t hv_ticks_from_ns(uint64_t ns, uint32_t hz)
{
    return ns / HV_NS_PER_S * hz + ns % HV_NS_PER_S * hz / HV_NS_PER_S;
}

/** The first nanosecond at which @ticks have passed: rounded up, so that from_ns() gives them. */
static inline uint64_t hv_ticks_to_ns(uint64_t ticks, uint32_t hz)
{
    return ticks / hz * HV_NS_PER_S + (ticks % hz * HV_NS_PER_S + hz - 1) / hz;
}
