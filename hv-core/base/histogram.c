/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Log-linear buckets: see histogram.h for the layout. */
#include "base/histogram.h"

#include <stdatomic.h>

#define SUB_BUCKETS      ((uint64_t)1 << HV_HISTOGRAM_SUB_BITS)
#define PER_MILLION      UINT64_C(1000000)
/* Where shared counts stop. */
#define SHARED_COUNT_MAX (UINT32_MAX - (UINT32_C(1) << 20))

HV_STATIC_ASSERT(HV_HISTOGRAM_BUCKETS == 1024, "counts fill one page");

/* One writer: a plain add, in a form that readers may look at. */
static void add_count(_Atomic uint32_t *count, uint32_t more)
{
    uint32_t old = atomic_load_explicit(count, memory_order_relaxed);

    atomic_store_explicit(count, more > UINT32_MAX - old ? UINT32_MAX : old + more,
                          memory_order_relaxed);
}

static void add_total(_Atomic uint64_t *total, uint64_t more)
{
    atomic_store_explicit(total, atomic_load_explicit(total, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

static void raise_max(_Atomic uint64_t *max, uint64_t value)
{
    if (value > atomic_load_explicit(max, memory_order_relaxed)) {
        atomic_store_explicit(max, value, memory_order_relaxed);
    }
}

size_t hv_histogram_bucket(uint64_t value_ns)
{
    unsigned shift;

    if (value_ns < SUB_BUCKETS) {
        return value_ns;
    }
    if (value_ns >> HV_HISTOGRAM_MAX_BITS) {
        return HV_HISTOGRAM_BUCKETS - 1;
    }
    /* The top six bits stay: one that says which power of two, five for its part. */
    shift = 63u - (unsigned)__builtin_clzll(value_ns) - HV_HISTOGRAM_SUB_BITS;
    return (shift * SUB_BUCKETS) + (value_ns >> shift);
}

uint64_t hv_histogram_bucket_top(size_t bucket)
{
    uint64_t shift = bucket < SUB_BUCKETS ? 0 : bucket / SUB_BUCKETS - 1;
    uint64_t part = bucket - shift * SUB_BUCKETS;

    return ((part + 1) << shift) - 1;
}

/* Buckets up to the greatest value; the others are empty, but for a span that is just being recorded.
 * Most histograms end early. */
static size_t buckets_used(const struct hv_histogram *histogram)
{
    return hv_histogram_bucket(atomic_load_explicit(&histogram->max_ns, memory_order_relaxed)) + 1;
}

void hv_histogram_record(struct hv_histogram *histogram, uint64_t value_ns)
{
    add_count(&histogram->counts[hv_histogram_bucket(value_ns)], 1);
    add_total(&histogram->total_ns, value_ns);
    raise_max(&histogram->max_ns, value_ns);
}

void hv_histogram_record_shared(struct hv_histogram *histogram, uint64_t value_ns)
{
    _Atomic uint32_t *count = &histogram->counts[hv_histogram_bucket(value_ns)];
    uint64_t max = atomic_load_explicit(&histogram->max_ns, memory_order_relaxed);

    /* Short of the end by more than there are threads: none of them wraps it. */
    if (atomic_load_explicit(count, memory_order_relaxed) < SHARED_COUNT_MAX) {
        atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&histogram->total_ns, value_ns, memory_order_relaxed);
    while (value_ns > max &&
           !atomic_compare_exchange_weak_explicit(&histogram->max_ns, &max, value_ns,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

void hv_histogram_merge(struct hv_histogram *to, const struct hv_histogram *from)
{
    for (size_t i = 0, used = buckets_used(from); i < used; i++) {
        uint32_t more = atomic_load_explicit(&from->counts[i], memory_order_relaxed);

        if (more > 0) {
            add_count(&to->counts[i], more);
        }
    }
    add_total(&to->total_ns, atomic_load_explicit(&from->total_ns, memory_order_relaxed));
    raise_max(&to->max_ns, atomic_load_explicit(&from->max_ns, memory_order_relaxed));
}

void hv_histogram_subtract(struct hv_histogram *histogram, const struct hv_histogram *before)
{
    uint64_t total = atomic_load_explicit(&histogram->total_ns, memory_order_relaxed);
    uint64_t max = atomic_load_explicit(&histogram->max_ns, memory_order_relaxed);
    uint64_t top = 0;

    for (size_t i = 0; i < HV_HISTOGRAM_BUCKETS; i++) {
        uint32_t less = atomic_load_explicit(&before->counts[i], memory_order_relaxed);
        uint32_t left = atomic_load_explicit(&histogram->counts[i], memory_order_relaxed) - less;

        if (less > 0) {
            atomic_store_explicit(&histogram->counts[i], left, memory_order_relaxed);
        }
        top = left > 0 ? hv_histogram_bucket_top(i) : top;
    }
    atomic_store_explicit(&histogram->total_ns,
                          total - atomic_load_explicit(&before->total_ns, memory_order_relaxed),
                          memory_order_relaxed);
    /* A new greatest of all is the greatest since, too; else only its bucket is known. */
    if (max == atomic_load_explicit(&before->max_ns, memory_order_relaxed)) {
        atomic_store_explicit(&histogram->max_ns, top < max ? top : max, memory_order_relaxed);
    }
}

uint64_t hv_histogram_count(const struct hv_histogram *histogram)
{
    uint64_t count = 0;

    for (size_t i = 0, used = buckets_used(histogram); i < used; i++) {
        count += atomic_load_explicit(&histogram->counts[i], memory_order_relaxed);
    }
    return count;
}

/* ceil(count * per_million / 10^6) in two parts: 2^42 counts times 10^6 would just fit, more not. */
static uint64_t rank_of(uint64_t count, uint64_t per_million)
{
    uint64_t whole = count / PER_MILLION * per_million;
    uint64_t rest = count % PER_MILLION * per_million;
    uint64_t rank = whole + (rest + PER_MILLION - 1) / PER_MILLION;

    return rank > 0 ? rank : 1;
}

uint64_t hv_histogram_quantile(const struct hv_histogram *histogram, uint32_t per_million)
{
    uint64_t max = atomic_load_explicit(&histogram->max_ns, memory_order_relaxed);
    uint64_t count = hv_histogram_count(histogram);
    uint64_t rank, seen = 0;

    if (count == 0) {
        return 0;
    }
    rank = rank_of(count, per_million < PER_MILLION ? per_million : PER_MILLION);
    for (size_t i = 0; i < HV_HISTOGRAM_BUCKETS - 1; i++) {
        seen += atomic_load_explicit(&histogram->counts[i], memory_order_relaxed);
        if (seen >= rank) {
            uint64_t top = hv_histogram_bucket_top(i);

            return top < max ? top : max;
        }
    }
    /* The last bucket also holds what was clamped: only the greatest value is sure. */
    return max;
}
