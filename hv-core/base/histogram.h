/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Distribution of spans from 1 ns to 64 s in log-linear buckets: each power of two is cut into 32
 * equal parts, so that a bucket is never wider than 1/32 of its values. Values below 32 stand each
 * in a bucket of its own, values from 2^36 ns on (68.7 s) in the last.
 *
 *     value        0 … 31 | 32 … 63 | 64 … 127 | … | 2^35 … 2^36 - 1
 *     bucket       0 … 31 | 32 … 63 | 64 … 95  | … | 992 … 1023
 *     width             1 |       1 |        2 | … | 2^30
 *
 * One thread records (or threads under one lock, or all of them by the shared form); any thread may
 * read, merge or ask meanwhile and gets values that were true one after another, not at one
 * instant. Counts stop at 2^32 - 1.
 *
 * Source: the bucket scheme of G. Tene's HdrHistogram.
 */
#pragma once

#include <hv/types.h>

#define HV_HISTOGRAM_SUB_BITS 5
#define HV_HISTOGRAM_MAX_BITS 36
#define HV_HISTOGRAM_BUCKETS \
    ((size_t)(HV_HISTOGRAM_MAX_BITS - HV_HISTOGRAM_SUB_BITS + 1) << HV_HISTOGRAM_SUB_BITS)

/* Zero-initialised it is empty. */
struct hv_histogram {
    /* In front: with the buckets up to some µs on one page of those that stay untouched. */
    _Atomic uint64_t total_ns;
    _Atomic uint64_t max_ns;
    _Atomic uint32_t counts[HV_HISTOGRAM_BUCKETS];
};

/** Bucket of a value, below HV_HISTOGRAM_BUCKETS. */
size_t hv_histogram_bucket(uint64_t value_ns);

/** Greatest value that falls into @bucket (for the last one: that is not clamped). */
uint64_t hv_histogram_bucket_top(size_t bucket);

/** Count one span. Context: the histogram's one writer; any lock. */
void hv_histogram_record(struct hv_histogram *histogram, uint64_t value_ns);

/** As above, where several threads record: a locked operation each for count and total. */
void hv_histogram_record_shared(struct hv_histogram *histogram, uint64_t value_ns);

/** Add the counts of @from to @to, whose writer the caller is. */
void hv_histogram_merge(struct hv_histogram *to, const struct hv_histogram *from);

/**
 * Leave in @histogram what came after @before, an earlier copy of it: what a reader needs who wants
 * figures from some moment on, while the recording goes on from the beginning. The greatest span of
 * that time is then known to its bucket only.
 */
void hv_histogram_subtract(struct hv_histogram *histogram, const struct hv_histogram *before);

/** How many spans were counted. */
uint64_t hv_histogram_count(const struct hv_histogram *histogram);

/**
 * The span that @per_million of all spans do not exceed: 500000 is the median, 999000 is p99.9.
 *
 * Returns the top of its bucket, at most 1/32 above the exact value, and never above the greatest
 * span recorded; 0 when nothing was.
 */
uint64_t hv_histogram_quantile(const struct hv_histogram *histogram, uint32_t per_million);
