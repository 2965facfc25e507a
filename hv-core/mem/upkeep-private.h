/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One turn of each duty, apart from its thread, for tests to take. */
#pragma once

#include "mem/heap-private.h"
#include "mem/upkeep.h"

#include <pthread.h>

struct hv_upkeep_thread {
    struct hv_upkeep *upkeep;
    enum hv_duty duty;
    bool started;
    pthread_t id;
};

struct hv_upkeep {
    /* Set at creation. */
    struct hv_heap *heap;
    const struct hv_clock *clock;
    uint64_t keep_extents;
    uint64_t quiet_ns;
    struct hv_upkeep_thread threads[HV_DUTIES];
    /* Atomic. */
    _Atomic uint32_t stopping;
    /* The returner's own. */
    bool watching; /* a quiet period runs, until: */
    hv_ns quiet_at;
    uint64_t surplus; /* extents nobody needed in the last one, not yet returned */
    /* The scrubber's own. */
    uint64_t preemptions; /* of its thread, so far */
    uint64_t pause_ns;    /* the last rest it took for others; 0: none since it was alone */
};

void hv_upkeep_init(struct hv_upkeep *upkeep, struct hv_heap *heap, const struct hv_clock *clock,
                    const struct hv_upkeep_policy *policy);

/**
 * Do one extent, or one batch, if there is something to do.
 *
 * Returns when to come again: @now or before, at once; HV_NS_NEVER, when `backed` of the heap or its
 * clean part has changed.
 */
hv_ns hv_upkeep_scrub(struct hv_upkeep *upkeep, hv_ns now);
hv_ns hv_upkeep_return(struct hv_upkeep *upkeep, hv_ns now);

/**
 * What hv_upkeep_scrub() said, at @next, or after a pause: when the scrubber's thread had to let others
 * have the CPU since the last call it rests for 1 ms, each time twice as long up to 64 ms, until it
 * was alone.
 *
 * @preemptions  hv_thread_preemptions() of the scrubber.
 */
hv_ns hv_upkeep_pace(struct hv_upkeep *upkeep, hv_ns next, hv_ns now, uint64_t preemptions);
