/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Histograms of lock classes and of contended locks: see lock-profile.h.
 *
 * All of it is zero and untouched until used, and stands where nothing can fail: a lock cannot run
 * out of memory for its statistics, nor may it ask for any under a rank that forbids that. Of the
 * 10 MB of address space a machine with two workers touches about 200 KB.
 */
#include "sync/lock-profile.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/clock.h"
#include "base/cycles.h"
#include "sync/lock-private.h"

struct stripe {
    /* Of the writers (or of a mutex), and of readers. */
    struct hv_histogram span[HV_LOCK_CLASSES][2][HV_LOCK_SPANS];
};

static struct {
    /* Atomic: set once each, from the front; the last stands for all that found no room. */
    _Atomic(const char *) names[HV_LOCK_CLASSES];
    _Atomic uint32_t prepared;
    /* Atomic: one taking in so many, 0 for HV_LOCK_SAMPLING; and the least of these. */
    _Atomic uint32_t sampling[HV_LOCK_CLASSES];
    _Atomic uint32_t least_sampling;
    /* Atomic: bit for each detail that belongs to a side. */
    _Atomic uint64_t used[HV_LOCK_DETAILS / 64];
    HV_ALIGNED(HV_PAGE_SIZE) struct stripe stripes[HV_LOCK_STRIPES];
    struct hv_lock_detail details[HV_LOCK_DETAILS];
} profile = {
    .names = {[0] = HV_LOCK_REGISTRY_NAME, [HV_LOCK_CLASSES - 1] = "other"},
};

_Thread_local struct hv_lock_sampler hv_lock_sampler = {.countdown = HV_LOCK_SAMPLING};

static _Thread_local struct {
    const struct hv_lock_owner *owner;
    unsigned vcpu;
} waiter;

void hv_lock_set_waiter(const struct hv_lock_owner *owner, unsigned vcpu)
{
    waiter.owner = owner;
    waiter.vcpu = vcpu;
}

/* ---- classes ---- */

/* Once a process, before the first lock is taken. */
static void prepare(void)
{
    if (hv_load_relaxed(&profile.prepared) == 0) {
        hv_store_relaxed(&profile.prepared, 1);
        /* A few counters each must not become 2 MiB of memory, zeroed under some lock. A host
         * without huge pages refuses: all the better. */
        (void)madvise(profile.stripes, sizeof(profile.stripes), MADV_NOHUGEPAGE);
        hv_cycles_calibrate();
    }
}

unsigned hv_lock_class_find(const char *name)
{
    prepare();
    for (unsigned i = 0; i < HV_LOCK_CLASSES - 1; i++) {
        const char *there = NULL;

        if (hv_cas_seq(&profile.names[i], &there, name) || strcmp(there, name) == 0) {
            return i;
        }
    }
    return HV_LOCK_CLASSES - 1;
}

/* ---- sampling ---- */

#define SAMPLING_NEVER UINT32_MAX

static uint32_t sampling_of(unsigned class_index)
{
    uint32_t every = hv_load_seq(&profile.sampling[class_index]);

    return every ? every : HV_LOCK_SAMPLING;
}

/* Whoever has set a number stores the least of all, and looks again: the last store is right. */
static void settle_sampling(void)
{
    uint32_t stored = 0;

    for (;;) {
        uint32_t least = HV_LOCK_SAMPLING;

        for (unsigned i = 0; i < HV_LOCK_CLASSES; i++) {
            uint32_t every = sampling_of(i);

            least = every < least ? every : least;
        }
        if (least == stored) {
            return;
        }
        hv_store_seq(&profile.least_sampling, least);
        stored = least;
    }
}

int hv_lock_set_sampling(const char *name, uint32_t one_in)
{
    if (one_in > HV_LOCK_SAMPLING_MAX) {
        return -EINVAL;
    }
    for (unsigned i = 0; i < HV_LOCK_CLASSES; i++) {
        const char *there = hv_load_seq(&profile.names[i]);

        if (there && strcmp(there, name) == 0) {
            hv_store_seq(&profile.sampling[i], one_in ? one_in : SAMPLING_NEVER);
            settle_sampling();
            return 0;
        }
    }
    return -ENOENT;
}

/* Below @limit. By a linear congruence, whose upper bits are good enough for that. */
static uint32_t random_below(struct hv_lock_sampler *sampler, uint32_t limit)
{
    sampler->random = sampler->random * UINT32_C(1664525) + UINT32_C(1013904223);
    return (uint32_t)((uint64_t)sampler->random * limit >> 32);
}

/* One taking in @every looks up: is this one of its class's? */
static bool is_chosen(struct hv_lock_sampler *sampler, const struct hv_lock_head *head,
                      uint32_t every)
{
    uint32_t wanted = sampling_of(head->class_index);

    if (wanted == SAMPLING_NEVER) {
        return false;
    }
    return wanted <= every || random_below(sampler, wanted) < every;
}

void hv_lock_class_sum(const struct hv_lock_head *head, const struct hv_lock_side *side,
                       enum hv_lock_span span, struct hv_histogram *sum)
{
    bool readers = side->kind == HV_LOCK_KIND_READ;

    for (unsigned i = 0; i < HV_LOCK_STRIPES; i++) {
        hv_histogram_merge(sum, &profile.stripes[i].span[head->class_index][readers][span]);
    }
}

static void book_class(const struct hv_lock_sample *sample, enum hv_lock_span span, uint64_t ns)
{
    struct stripe *stripe = &profile.stripes[hv_thread_id() % HV_LOCK_STRIPES];

    hv_histogram_record_shared(&stripe->span[sample->class_index][sample->readers][span], ns);
}

/* ---- contended locks ---- */

static struct hv_lock_detail *claim_detail(void)
{
    for (unsigned i = 0; i < HV_ARRAY_LEN(profile.used); i++) {
        uint64_t used = hv_load_relaxed(&profile.used[i]);

        while (~used != 0) {
            unsigned bit = (unsigned)__builtin_ctzll(~used);

            /* Pairs with the release of the bit: the one before has cleared it. */
            if (hv_cas_seq(&profile.used[i], &used, used | UINT64_C(1) << bit)) {
                return &profile.details[i * 64 + bit];
            }
        }
    }
    return NULL;
}

static void release_detail(const struct hv_lock_detail *detail)
{
    size_t index = (size_t)(detail - profile.details);

    hv_and_seq(&profile.used[index / 64], ~(UINT64_C(1) << index % 64));
}

void hv_lock_side_detail(struct hv_lock_side *side)
{
    struct hv_lock_detail *none = NULL;
    struct hv_lock_detail *detail = hv_load_relaxed(&side->detail) == NULL ? claim_detail() : NULL;

    /* A reader beside us may be faster. */
    if (detail && !hv_cas_seq(&side->detail, &none, detail)) {
        release_detail(detail);
    }
}

void hv_lock_side_finish(struct hv_lock_side *side)
{
    struct hv_lock_detail *detail = hv_load_relaxed(&side->detail);

    if (detail) {
        hv_store_relaxed(&side->detail, NULL);
        memset(detail, 0, sizeof(*detail));
        release_detail(detail);
    }
}

/* ---- booking ---- */

static void raise_max(_Atomic uint64_t *max, uint64_t value)
{
    uint64_t old = hv_load_relaxed(max);

    while (value > old && !hv_cas_weak_seq(max, &old, value)) {
    }
}

/* Who holds a mutex, or writes, is alone. Readers are not, and pay for locked operations. */
static void add(_Atomic uint64_t *counter, uint64_t more, bool alone)
{
    if (alone) {
        hv_count(counter, more);
    } else {
        hv_add_relaxed(counter, more);
    }
}

static void book_wait(const struct hv_lock_sample *sample)
{
    struct hv_lock_detail *detail = sample->detail;

    if (!detail) {
        book_class(sample, HV_LOCK_SPAN_WAIT, sample->wait_ns);
        return;
    }
    hv_histogram_record_shared(&detail->span[HV_LOCK_SPAN_WAIT], sample->wait_ns);
    if (sample->own) {
        hv_add_relaxed(&detail->vcpu_wait_ns[waiter.vcpu], sample->wait_ns);
    }
}

static void book_sampled(const struct hv_lock_sample *sample, enum hv_lock_span span, uint64_t ns)
{
    book_class(sample, span, ns);
    if (sample->detail) {
        hv_histogram_record_shared(&sample->detail->span[span], ns);
    }
}

/* What is to be booked of a holding that ends, or of a wait. */
static struct hv_lock_sample sample_of(const struct hv_lock_head *head,
                                       const struct hv_lock_side *side)
{
    return (struct hv_lock_sample){
        .class_index = head->class_index,
        .readers = side->kind == HV_LOCK_KIND_READ,
        .own = head->owner && head->owner == waiter.owner,
        .detail = hv_load_acquire(&side->detail),
    };
}

void hv_lock_note_wait(const struct hv_lock_head *head, struct hv_lock_side *side,
                       const struct hv_lock_wait *wait)
{
    struct hv_lock_counters *counters = &side->counters;
    struct hv_lock_sampler *sampler = &hv_lock_sampler;
    bool alone = side->kind != HV_LOCK_KIND_READ;
    /* A writer who waited for other writers, and now for readers: one taking. */
    bool again = sampler->side == side && sampler->waited;

    hv_lock_side_detail(side);
    add(&counters->contended, again ? 0 : 1, alone);
    add(&counters->parked, wait->parked, alone);
    add(&counters->wait_ns, wait->span_ns, alone);
    raise_max(&counters->wait_max_ns, wait->span_ns);
    raise_max(&counters->waiters_max, wait->waiters);
    if (!sampler->side) {
        *sampler = (struct hv_lock_sampler){
            .countdown = sampler->countdown,
            .random = sampler->random,
            .side = side,
            .waited = true,
            .wait_ns = wait->span_ns,
        };
    } else if (sampler->side == side) {
        sampler->wait_ns = wait->span_ns + (again ? sampler->wait_ns : 0);
        sampler->waited = true;
    } else {
        struct hv_lock_sample sample = sample_of(head, side);

        sample.wait_ns = wait->span_ns;
        book_wait(&sample);
    }
}

void hv_lock_sample_begin(const struct hv_lock_head *head, const struct hv_lock_side *side,
                          uint64_t before)
{
    struct hv_lock_sampler *sampler = &hv_lock_sampler;
    uint32_t every = hv_load_relaxed(&profile.least_sampling);
    uint64_t now = hv_cycles_now();

    every = every ? every : HV_LOCK_SAMPLING;
    /* Not each 64th: that would see the same one of a pair of locks for ever. 1 to 127. */
    sampler->countdown = 1 + random_below(sampler, 2 * every - 1);
    if (!is_chosen(sampler, head, every)) {
        return;
    }
    if (!sampler->side) {
        sampler->side = side;
        sampler->waited = false;
    }
    /* One at a time: another lock's that is under way goes on. */
    if (sampler->side == side) {
        sampler->taken = now;
        sampler->before = before;
    }
}

void hv_lock_sample_end(const struct hv_lock_head *head, const struct hv_lock_side *side,
                        struct hv_lock_sample *sample_out)
{
    struct hv_lock_sampler *sampler = &hv_lock_sampler;

    *sample_out = sample_of(head, side);
    sample_out->waited = sampler->waited;
    sample_out->wait_ns = sampler->wait_ns;
    if (sampler->taken) {
        sample_out->held = true;
        sample_out->hold_ns = hv_cycles_span_ns(sampler->taken, hv_cycles_now());
        sample_out->acquired = sampler->before != 0;
        sample_out->acquire_ns = hv_cycles_span_ns(sampler->before, sampler->taken);
    }
    sampler->side = NULL;
    sampler->taken = 0;
}

void hv_lock_sample_book(const struct hv_lock_sample *sample)
{
    if (sample->waited) {
        book_wait(sample);
    }
    if (sample->held) {
        book_sampled(sample, HV_LOCK_SPAN_HOLD, sample->hold_ns);
    }
    if (sample->acquired) {
        book_sampled(sample, HV_LOCK_SPAN_ACQUIRE, sample->acquire_ns);
    }
}
