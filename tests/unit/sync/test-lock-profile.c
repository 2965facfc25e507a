/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sync/lock-profile: what is sampled, what a contended lock gets, and how that is given back. */
#include "sync/lock-profile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/threads.h"
#include "sync/lock-private.h"
#include "sync/lock-registry.h"
#include "sync/race.h"

static struct hv_lock lock;
/* Static, being a page. */
static struct hv_histogram sum;

static void read_class(const struct hv_lock *of, enum hv_lock_span span)
{
    memset(&sum, 0, sizeof(sum));
    hv_lock_class_sum(&of->head, &of->head.side, span, &sum);
}

static uint64_t sampled(const struct hv_lock *of, enum hv_lock_span span)
{
    read_class(of, span);
    return hv_histogram_count(&sum);
}

static void take_often(struct hv_lock *of, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        hv_lock_take(of);
        hv_lock_drop(of);
    }
}

static void test_sampled(void)
{
    const unsigned times = 64000;
    uint64_t holds;

    hv_lock_init(&lock, HV_RANK_HEAP, "test.sampled", 0);
    take_often(&lock, times);
    holds = sampled(&lock, HV_LOCK_SPAN_HOLD);
    /* About each 64th. */
    TAP_OK(holds >= times / 80 && holds <= times / 50);
    TAP_OK(sum.max_ns > 0);
    TAP_EQ(sampled(&lock, HV_LOCK_SPAN_ACQUIRE), holds);
    TAP_EQ(sampled(&lock, HV_LOCK_SPAN_WAIT), 0);
    TAP_OK(lock.head.side.detail == NULL);
    TAP_EQ(hv_lock_counters(&lock)->acquired, times);
    hv_lock_finish(&lock);
}

/* Two locks of a name are one class; another name is another. */
static void test_classes(void)
{
    struct hv_lock second, other;
    uint64_t before;

    hv_lock_init(&lock, HV_RANK_HEAP, "test.class", 0);
    hv_lock_init(&second, HV_RANK_HEAP, "test.class", 1);
    hv_lock_init(&other, HV_RANK_HEAP, "test.other", 0);
    take_often(&lock, 1000);
    before = sampled(&second, HV_LOCK_SPAN_HOLD);
    TAP_OK(before > 0);
    take_often(&second, 1000);
    TAP_OK(sampled(&lock, HV_LOCK_SPAN_HOLD) > before);
    TAP_EQ(sampled(&other, HV_LOCK_SPAN_HOLD), 0);
    hv_lock_finish(&lock);
    hv_lock_finish(&second);
    hv_lock_finish(&other);
}

/* A pair is sampled one at a time, and both of its locks in the long run. */
static void test_pair(void)
{
    struct hv_lock second;

    hv_lock_init(&lock, HV_RANK_HEAP, "test.pair-low", 0);
    hv_lock_init(&second, HV_RANK_HEAP, "test.pair-high", 1);
    for (unsigned i = 0; i < 4096; i++) {
        hv_lock_take_pair(&lock, &second);
        hv_lock_drop(&lock);
        hv_lock_drop(&second);
    }
    TAP_OK(sampled(&lock, HV_LOCK_SPAN_HOLD) > 16);
    TAP_OK(sampled(&second, HV_LOCK_SPAN_HOLD) > 16);
    hv_lock_finish(&lock);
    hv_lock_finish(&second);
}

/* A class as often as it is wanted, and the others as ever. */
static void test_sampling(void)
{
    const unsigned times = 64000;
    struct hv_lock other;
    uint64_t before, between;

    hv_lock_init(&lock, HV_RANK_HEAP, "test.wanted", 0);
    hv_lock_init(&other, HV_RANK_HEAP, "test.unwanted", 0);
    TAP_EQ(hv_lock_set_sampling("test.nobody", 1), (uint64_t)-ENOENT);
    TAP_EQ(hv_lock_set_sampling("test.wanted", HV_LOCK_SAMPLING_MAX + 1), (uint64_t)-EINVAL);
    TAP_EQ(hv_lock_set_sampling("test.wanted", 1), 0);
    /* Until the thread looks up next. */
    take_often(&lock, 2 * HV_LOCK_SAMPLING);
    before = sampled(&lock, HV_LOCK_SPAN_HOLD);
    take_often(&lock, 1000);
    TAP_EQ(sampled(&lock, HV_LOCK_SPAN_HOLD), before + 1000);
    take_often(&other, times);
    between = sampled(&other, HV_LOCK_SPAN_HOLD);
    TAP_OK(between >= times / 80 && between <= times / 50);
    TAP_EQ(hv_lock_set_sampling("test.wanted", 10), 0);
    before = sampled(&lock, HV_LOCK_SPAN_HOLD);
    take_often(&lock, times);
    between = sampled(&lock, HV_LOCK_SPAN_HOLD) - before;
    TAP_OK(between >= times / 12 && between <= times / 8);
    TAP_EQ(hv_lock_set_sampling("test.wanted", 640), 0);
    before = sampled(&lock, HV_LOCK_SPAN_HOLD);
    take_often(&lock, times);
    between = sampled(&lock, HV_LOCK_SPAN_HOLD) - before;
    TAP_OK(between >= times / 1000 && between <= times / 400);
    TAP_EQ(hv_lock_set_sampling("test.wanted", 0), 0);
    before = sampled(&lock, HV_LOCK_SPAN_HOLD);
    take_often(&lock, times);
    TAP_EQ(sampled(&lock, HV_LOCK_SPAN_HOLD), before);
    TAP_EQ(hv_lock_counters(&lock)->acquired, 3 * times + 2 * HV_LOCK_SAMPLING + 1000);
    TAP_EQ(hv_lock_set_sampling("test.wanted", HV_LOCK_SAMPLING), 0);
    hv_lock_finish(&lock);
    hv_lock_finish(&other);
}

static struct {
    struct hv_lock_owner owner;
    _Atomic uint32_t may_drop;
} play;

static void take_for_vcpu(unsigned index, void *context)
{
    (void)context;
    hv_race_name_thread(index + 2);
    hv_lock_set_waiter(&play.owner, 5);
    hv_lock_take(&lock);
    hv_lock_drop(&lock);
    hv_lock_set_waiter(NULL, 0);
}

static void wait_once(void)
{
    struct threads threads;

    hv_race_begin();
    hv_race_stop(2, "lock.park.sleeps", 0);
    hv_lock_take(&lock);
    threads_start(&threads, 1, take_for_vcpu, NULL);
    TAP_OK(hv_race_await(2, "lock.park.sleeps"));
    hv_race_end();
    hv_lock_drop(&lock);
    threads_join(&threads);
}

static void test_contended(void)
{
    struct hv_lock_detail *detail;

    hv_lock_owner_init(&play.owner, "web");
    hv_lock_owner_use(&play.owner);
    hv_lock_init(&lock, HV_RANK_HEAP, "test.contended", 0);
    hv_lock_owner_use(NULL);
    wait_once();
    detail = hv_load_relaxed(&lock.head.side.detail);
    TAP_OK(detail != NULL);
    TAP_EQ(hv_histogram_count(&detail->span[HV_LOCK_SPAN_WAIT]), 1);
    TAP_EQ(detail->span[HV_LOCK_SPAN_WAIT].total_ns, hv_lock_counters(&lock)->wait_ns);
    TAP_EQ(detail->vcpu_wait_ns[5], hv_lock_counters(&lock)->wait_ns);
    TAP_EQ(detail->vcpu_wait_ns[4], 0);
    /* From now on its samples are its own, too. */
    take_often(&lock, 1000);
    TAP_OK(hv_histogram_count(&detail->span[HV_LOCK_SPAN_HOLD]) > 0);
    TAP_OK(hv_histogram_count(&detail->span[HV_LOCK_SPAN_ACQUIRE]) > 0);
    hv_lock_finish(&lock);
    TAP_EQ(hv_histogram_count(&detail->span[HV_LOCK_SPAN_WAIT]), 0);
    TAP_EQ(detail->vcpu_wait_ns[5], 0);
    hv_lock_owner_finish(&play.owner);
}

/* A vCPU of one machine that waits for a lock of another, or of the core, is not booked. */
static void test_stranger(void)
{
    struct hv_lock_detail *detail;

    hv_lock_owner_init(&play.owner, "web");
    hv_lock_init(&lock, HV_RANK_HEAP, "test.stranger", 0);
    wait_once();
    detail = hv_load_relaxed(&lock.head.side.detail);
    TAP_OK(detail != NULL);
    TAP_EQ(detail->vcpu_wait_ns[5], 0);
    hv_lock_finish(&lock);
    hv_lock_owner_finish(&play.owner);
}

/* More contended locks than there are histograms: counted all the same, and timed by class. */
static void test_pool(void)
{
    static struct hv_lock many[HV_LOCK_DETAILS + 1];
    const struct hv_lock_wait wait = {.span_ns = 1000, .waiters = 1};
    struct hv_lock *last = &many[HV_LOCK_DETAILS];

    for (unsigned i = 0; i < HV_ARRAY_LEN(many); i++) {
        hv_lock_init(&many[i], HV_RANK_HEAP, "test.pool", i);
        hv_lock_take(&many[i]);
        hv_lock_note_wait(&many[i].head, &many[i].head.side, &wait);
        hv_lock_drop(&many[i]);
        TAP_EQ(many[i].head.side.detail != NULL, i < HV_LOCK_DETAILS);
    }
    TAP_EQ(hv_lock_counters(last)->contended, 1);
    TAP_EQ(hv_lock_counters(last)->wait_ns, 1000);
    TAP_EQ(sampled(last, HV_LOCK_SPAN_WAIT), 1);
    hv_lock_finish(&many[7]);
    hv_lock_take(last);
    hv_lock_note_wait(&last->head, &last->head.side, &wait);
    hv_lock_drop(last);
    TAP_OK(last->head.side.detail != NULL);
    TAP_EQ(hv_histogram_count(&last->head.side.detail->span[HV_LOCK_SPAN_WAIT]), 1);
    for (unsigned i = 0; i < HV_ARRAY_LEN(many); i++) {
        if (i != 7) {
            hv_lock_finish(&many[i]);
        }
    }
}

/* The last case: what it adds to the classes stays. */
static void test_too_many_classes(void)
{
    static char names[HV_LOCK_CLASSES + 1][16];
    unsigned last = 0;

    for (unsigned i = 0; i < HV_ARRAY_LEN(names); i++) {
        snprintf(names[i], sizeof(names[i]), "test.many-%u", i);
        last = hv_lock_class_find(names[i]);
    }
    TAP_EQ(last, HV_LOCK_CLASSES - 1);
    TAP_EQ(hv_lock_class_find(names[0]), hv_lock_class_find("test.many-0"));
    TAP_OK(hv_lock_class_find(names[0]) != last);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"sync.lock-profile.sampled", test_sampled},
        {"sync.lock-profile.classes", test_classes},
        {"sync.lock-profile.pair", test_pair},
        {"sync.lock-profile.sampling", test_sampling},
        {"sync.lock-profile.pool", test_pool},
        {"sync.lock-profile.too-many-classes", test_too_many_classes},
    };
    static const struct tap_case scripted[] = {
        {"sync.lock-profile.sampled", test_sampled},
        {"sync.lock-profile.classes", test_classes},
        {"sync.lock-profile.pair", test_pair},
        {"sync.lock-profile.sampling", test_sampling},
        {"sync.lock-profile.contended", test_contended},
        {"sync.lock-profile.stranger", test_stranger},
        {"sync.lock-profile.pool", test_pool},
        {"sync.lock-profile.too-many-classes", test_too_many_classes},
    };

    if (!HV_CONFIG_RACE_POINTS) {
        return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
    }
    return tap_run(argc, argv, scripted, HV_ARRAY_LEN(scripted));
}
