/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What is done to free memory in the background: two duties, a thread each.
 *
 *     scrub    dirty extents are made zero ahead of their use, until the pool that is kept is clean.
 *              Rests while others want its CPU: see below.
 *     return   of what is free and backed beyond the pool, the host gets back what nobody needed for
 *              a whole quiet period: the fewest extents that were free at any moment of it. Domains
 *              that come and go within the period find their memory warm; to touch it anew costs ten
 *              times as much as to return it.
 *
 * They are not one thread, because one of them is in no hurry and the other holds, in madvise(), the
 * address space's lock. They cannot fight either: one stops where the pool is clean, the other returns
 * dirty extents first and stops where the pool begins.
 *
 * The scrubber has no lower priority than its neighbours, though it works for nobody: for a moment in
 * each extent it holds a shard's lock, or the mappers', and a thread that runs only on an idle CPU
 * (SCHED_IDLE, which it could not even leave for that moment without privilege), or for a sixtieth of
 * the time (nice 19), would keep a vCPU waiting that long. So it looks whether others wanted the CPU
 * while it had it, and then rests with nothing in its hands.
 *
 * A duty without work sleeps until free memory comes or goes; one that waits out a period is not
 * woken meanwhile, so that a destroyer wakes each once and not for each extent.
 */
#pragma once

#include "base/clock.h"

struct hv_heap;
struct hv_upkeep;

struct hv_upkeep_policy {
    uint64_t keep_bytes; /* free memory that stays backed and is scrubbed */
    uint64_t quiet_ns;
};

/** 5 s, and the larger of 512 MiB and a tenth of the heap. */
struct hv_upkeep_policy hv_upkeep_default(const struct hv_heap *heap);

/**
 * Start both threads.
 *
 * @heap, @clock  borrowed for its life. With a simulated clock, hv_upkeep_clock_moved() after each
 *                advance.
 *
 * Returns 0 and *upkeep_out; -ENOMEM; -EAGAIN from the host.
 */
HV_MUST_CHECK int hv_upkeep_create(struct hv_heap *heap, const struct hv_clock *clock,
                                   const struct hv_upkeep_policy *policy,
                                   struct hv_upkeep **upkeep_out);
/** Stop and join them: after at most one extent, or one batch of them. NULL is accepted. */
void hv_upkeep_destroy(struct hv_upkeep *upkeep);

void hv_upkeep_clock_moved(struct hv_upkeep *upkeep);
