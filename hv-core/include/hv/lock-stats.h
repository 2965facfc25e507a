/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * More of the locks than a list of figures: whole distributions, and how often they are sampled.
 */
#pragma once

#include <hv/domain.h>

enum hv_lock_histogram_span {
    HV_LOCK_HISTOGRAM_WAIT,
    HV_LOCK_HISTOGRAM_HOLD,
    HV_LOCK_HISTOGRAM_ACQUIRE,
};

/*
 * Spans in buckets: each power of two of nanoseconds is cut into 32 equal parts, so that a bucket is
 * never wider than 1/32 of its values.
 *
 *     value ns     0 … 31 | 32 … 63 | 64 … 127 | … | 2^35 … 2^36 - 1, and all above in the last
 *     bucket       0 … 31 | 32 … 63 | 64 … 95  | … | 992 … 1023
 *     width             1 |       1 |        2 | … | 2^30
 */
#define HV_LOCK_HISTOGRAM_BUCKETS 1024u

struct hv_lock_histogram {
    size_t row; /* the lock's <i> in the list of figures beside it */
    enum hv_lock_histogram_span span;
    uint64_t total_ns, max_ns; /* over all spans */
    uint32_t buckets;          /* up to the last that is not 0: at least one */
    uint32_t counts[HV_LOCK_HISTOGRAM_BUCKETS];
};

/* Two lists, of one look at all locks. */
struct hv_lock_lists {
    struct hv_stat *stats;
    size_t stat_max;
    struct hv_lock_histogram *histograms;
    size_t histogram_max;
    /* Results: how many there are; at most as many as there is room for were written. */
    size_t stat_count, histogram_count;
};

/**
 * hv_core_get_lock_stats(), and with it the distributions that its quantiles are of, but those that
 * are empty: of the lock, once it was contended; until then, of its class. Takes no core lock.
 */
void hv_core_get_lock_lists(struct hv_core *core, struct hv_lock_lists *lists);

/**
 * Sample how long one taking in @one_in of the locks of a class takes, and how long they are held: 1
 * each, 0 none; 64 is what there is without. Of all cores of the process.
 *
 * @class_name  as lock.<i>.class says.
 *
 * Returns 0; -EINVAL beyond 1,000,000; -ENOENT when no lock of that class was ever made.
 */
HV_MUST_CHECK int hv_core_set_lock_sampling(struct hv_core *core, const char *class_name,
                                            uint32_t one_in);
