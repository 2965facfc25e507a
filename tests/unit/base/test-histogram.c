/* SPDX-License-Identifier: GPL-3.0-or-later */
/* base/histogram: bucket edges, error bound of quantiles against a sorted array, merging. */
#include "base/histogram.h"

#include <stdlib.h>
#include <string.h>

#include "lib/threads.h"

#define LAST_EXACT ((UINT64_C(1) << HV_HISTOGRAM_MAX_BITS) - 1)

/* Two of them, static because they are a page each. */
static struct hv_histogram one, two;

static void start(void)
{
    memset(&one, 0, sizeof(one));
    memset(&two, 0, sizeof(two));
}

static void test_buckets(void)
{
    uint64_t next = 0;

    for (size_t bucket = 0; bucket < HV_HISTOGRAM_BUCKETS; bucket++) {
        uint64_t top = hv_histogram_bucket_top(bucket);

        TAP_EQ(hv_histogram_bucket(next), bucket);
        TAP_EQ(hv_histogram_bucket(top), bucket);
        /* No wider than 1/32 of its smallest value. */
        TAP_OK((top - next) * 32 <= next);
        next = top + 1;
    }
    TAP_EQ(next, LAST_EXACT + 1);
    TAP_EQ(hv_histogram_bucket(next), HV_HISTOGRAM_BUCKETS - 1);
    TAP_EQ(hv_histogram_bucket(UINT64_MAX), HV_HISTOGRAM_BUCKETS - 1);
}

static void test_empty(void)
{
    start();
    TAP_EQ(hv_histogram_count(&one), 0);
    TAP_EQ(hv_histogram_quantile(&one, 500000), 0);
}

static void test_small(void)
{
    start();
    for (uint64_t value = 1; value <= 10; value++) {
        hv_histogram_record(&one, value);
    }
    TAP_EQ(hv_histogram_count(&one), 10);
    TAP_EQ(one.total_ns, 55);
    TAP_EQ(one.max_ns, 10);
    TAP_EQ(hv_histogram_quantile(&one, 0), 1);
    TAP_EQ(hv_histogram_quantile(&one, 100000), 1);
    TAP_EQ(hv_histogram_quantile(&one, 100001), 2);
    TAP_EQ(hv_histogram_quantile(&one, 500000), 5);
    TAP_EQ(hv_histogram_quantile(&one, 990000), 10);
    TAP_EQ(hv_histogram_quantile(&one, 1000000), 10);
    TAP_EQ(hv_histogram_quantile(&one, UINT32_MAX), 10);
}

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

/* Never below the exact value, and less than 3.2 % above. */
static void test_quantile_error(void)
{
    static uint64_t values[10000];
    const uint32_t asked[] = {1000, 10000, 250000, 500000, 900000, 990000, 999000, 1000000};

    start();
    for (size_t i = 0; i < HV_ARRAY_LEN(values); i++) {
        /* Every order of magnitude is as likely. */
        values[i] = tap_rng() >> (64 - HV_HISTOGRAM_MAX_BITS + tap_rng() % 30);
        hv_histogram_record(&one, values[i]);
    }
    qsort(values, HV_ARRAY_LEN(values), sizeof(values[0]), compare);
    for (size_t i = 0; i < HV_ARRAY_LEN(asked); i++) {
        uint64_t exact = values[HV_ARRAY_LEN(values) * asked[i] / 1000000 - 1];
        uint64_t got = hv_histogram_quantile(&one, asked[i]);

        TAP_OK(got >= exact);
        TAP_OK((got - exact) * 32 <= exact);
    }
}

static void test_clamped(void)
{
    start();
    hv_histogram_record(&one, UINT64_C(200) * HV_NS_PER_S);
    hv_histogram_record(&one, 1);
    TAP_EQ(hv_histogram_quantile(&one, 1000000), UINT64_C(200) * HV_NS_PER_S);
    TAP_EQ(hv_histogram_quantile(&one, 500000), 1);
}

static void test_merge(void)
{
    start();
    for (uint64_t value = 0; value < 2000; value++) {
        hv_histogram_record(value % 3 ? &one : &two, value * value);
    }
    hv_histogram_merge(&two, &one);
    memset(&one, 0, sizeof(one));
    for (uint64_t value = 0; value < 2000; value++) {
        hv_histogram_record(&one, value * value);
    }
    TAP_EQ(memcmp(&one, &two, sizeof(one)), 0);
}

static void test_saturates(void)
{
    start();
    one.counts[7] = UINT32_MAX - 1;
    hv_histogram_record(&one, 7);
    hv_histogram_record(&one, 7);
    TAP_EQ(one.counts[7], UINT32_MAX);
    hv_histogram_merge(&one, &one);
    TAP_EQ(one.counts[7], UINT32_MAX);
    TAP_EQ(hv_histogram_quantile(&one, 1000000), 7);
}

static void record_both(unsigned index, void *context)
{
    (void)context;
    for (uint64_t value = 0; value < 5000; value++) {
        hv_histogram_record_shared(&one, value * (index + 1));
    }
}

static void test_shared(void)
{
    start();
    threads_run(4, record_both, NULL);
    for (unsigned index = 0; index < 4; index++) {
        for (uint64_t value = 0; value < 5000; value++) {
            hv_histogram_record(&two, value * (index + 1));
        }
    }
    TAP_EQ(memcmp(&one, &two, sizeof(one)), 0);
    one.counts[7] = UINT32_MAX - 1;
    hv_histogram_record_shared(&one, 7);
    TAP_EQ(one.counts[7], UINT32_MAX - 1);
}

static void test_subtract(void)
{
    static struct hv_histogram before;

    start();
    for (uint64_t value = 0; value < 1000; value++) {
        hv_histogram_record(&one, value * 7);
    }
    memcpy(&before, &one, sizeof(one));
    for (uint64_t value = 0; value < 500; value++) {
        hv_histogram_record(&one, value * 5);
        hv_histogram_record(&two, value * 5);
    }
    hv_histogram_subtract(&one, &before);
    TAP_EQ(memcmp(one.counts, two.counts, sizeof(one.counts)), 0);
    TAP_EQ(one.total_ns, two.total_ns);
    /* The greatest of before was greater: now known to its bucket. */
    TAP_OK(one.max_ns >= two.max_ns && (one.max_ns - two.max_ns) * 32 <= two.max_ns);
    TAP_EQ(hv_histogram_bucket(one.max_ns), hv_histogram_bucket(two.max_ns));
    memcpy(&before, &two, sizeof(two));
    hv_histogram_record(&two, 123456789);
    hv_histogram_subtract(&two, &before);
    TAP_EQ(two.max_ns, 123456789);
    TAP_EQ(hv_histogram_count(&two), 1);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"base.histogram.buckets", test_buckets},     {"base.histogram.empty", test_empty},
        {"base.histogram.small", test_small},         {"lp.hist", test_quantile_error},
        {"base.histogram.clamped", test_clamped},     {"base.histogram.merge", test_merge},
        {"base.histogram.saturates", test_saturates}, {"base.histogram.shared", test_shared},
        {"base.histogram.subtract", test_subtract},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
