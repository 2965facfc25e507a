/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The host CPU's time-stamp counter, for spans so short that asking the kernel's clock would be
 * most of them: 20 ns against 50 where both were measured.
 *
 * Only for statistics. A thread that changes CPUs on a host whose counters disagree gets a wrong
 * span, which is why no decision may rest on one; a span that ran backwards is given as 0.
 */
#pragma once

#include <hv/types.h>

static inline uint64_t hv_cycles_now(void)
{
    return __builtin_ia32_rdtsc();
}

/**
 * Find out how fast the counter runs, once a process; takes 100 µs the first time. Without it
 * hv_cycles_to_ns() gives 0. Context: any thread, again and again.
 */
void hv_cycles_calibrate(void);

/** The span from one moment of hv_cycles_now() to a later one, in ns; at most 64 s or so. */
uint64_t hv_cycles_span_ns(uint64_t from, uint64_t to);
