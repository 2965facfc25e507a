/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The two duties and their threads: see upkeep.h for what they do and why they are two. */
#include "mem/upkeep.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "mem/upkeep-private.h"
#include "sync/race.h"
#include "sync/thread.h"

#define KEEP_LEAST     (512 * HV_MIB)
#define KEEP_SHARE     10 /* of the heap: a tenth */
#define QUIET_NS       (5 * HV_NS_PER_S)
/* Who had an extent given up is to get it before the scrubber does. */
#define AFTER_WISH_NS  (10 * HV_NS_PER_MS)
/* How long a scrubber rests that others wanted the CPU of: an extent takes it a third to one ms. */
#define PAUSE_LEAST_NS HV_NS_PER_MS
#define PAUSE_MOST_NS  (64 * HV_NS_PER_MS)

struct hv_upkeep_policy hv_upkeep_default(const struct hv_heap *heap)
{
    uint64_t share = hv_arena_frames(heap->arena) * HV_PAGE_SIZE / KEEP_SHARE;

    return (struct hv_upkeep_policy){
        .keep_bytes = share > KEEP_LEAST ? share : KEEP_LEAST,
        .quiet_ns = QUIET_NS,
    };
}

void hv_upkeep_init(struct hv_upkeep *upkeep, struct hv_heap *heap, const struct hv_clock *clock,
                    const struct hv_upkeep_policy *policy)
{
    *upkeep = (struct hv_upkeep){
        .heap = heap,
        .clock = clock,
        .keep_extents = policy->keep_bytes / HV_EXTENT_SIZE,
        .quiet_ns = policy->quiet_ns,
    };
    for (unsigned i = 0; i < HV_DUTIES; i++) {
        upkeep->threads[i].upkeep = upkeep;
        upkeep->threads[i].duty = (enum hv_duty)i;
    }
}

/* ---- the duties ---- */

static uint64_t clean_extents(const struct hv_heap *heap)
{
    uint64_t extents = 0;

    for (unsigned i = 0; i < heap->shard_count; i++) {
        extents += hv_load_relaxed(&heap->shards[i].clean_extents);
    }
    return extents;
}

hv_ns hv_upkeep_scrub(struct hv_upkeep *upkeep, hv_ns now)
{
    /* `backed` first: what its writer did before is seen, too. */
    if (hv_load_seq(&upkeep->heap->backed) == 0 ||
        clean_extents(upkeep->heap) >= upkeep->keep_extents) {
        return HV_NS_NEVER;
    }
    switch (hv_heap_scrub_spare(upkeep->heap)) {
    case HV_SCRUBBED_EXTENT:
        return now;
    case HV_SCRUBBED_GAVE_UP:
        return hv_ns_add(now, AFTER_WISH_NS);
    case HV_SCRUBBED_NONE:
        break;
    }
    return HV_NS_NEVER;
}

hv_ns hv_upkeep_pace(struct hv_upkeep *upkeep, hv_ns next, hv_ns now, uint64_t preemptions)
{
    bool others = preemptions != upkeep->preemptions;

    upkeep->preemptions = preemptions;
    if (!others) {
        upkeep->pause_ns = 0;
        return next;
    }
    upkeep->pause_ns = upkeep->pause_ns == 0 ? PAUSE_LEAST_NS : 2 * upkeep->pause_ns;
    if (upkeep->pause_ns > PAUSE_MOST_NS) {
        upkeep->pause_ns = PAUSE_MOST_NS;
    }
    return hv_ns_before(next, hv_ns_add(now, upkeep->pause_ns)) ? hv_ns_add(now, upkeep->pause_ns)
                                                                : next;
}

static uint64_t beyond_pool(const struct hv_upkeep *upkeep, uint64_t extents)
{
    return extents > upkeep->keep_extents ? extents - upkeep->keep_extents : 0;
}

/* Begin a quiet period, if there is anything that could be returned at its end. */
static hv_ns watch(struct hv_upkeep *upkeep, hv_ns now)
{
    upkeep->watching = beyond_pool(upkeep, hv_load_seq(&upkeep->heap->backed)) > 0;
    if (!upkeep->watching) {
        return HV_NS_NEVER;
    }
    (void)hv_heap_fewest_backed(upkeep->heap);
    upkeep->quiet_at = hv_ns_add(now, upkeep->quiet_ns);
    return upkeep->quiet_at;
}

/* Return a batch of the surplus; what has been taken meanwhile out of the pool is put back into it
 * first. */
static void return_some(struct hv_upkeep *upkeep)
{
    uint64_t spare = beyond_pool(upkeep, hv_load_seq(&upkeep->heap->backed));
    uint64_t most = upkeep->surplus < spare ? upkeep->surplus : spare;
    uint64_t batch = most < HV_HEAP_TRIM_BATCH ? most : HV_HEAP_TRIM_BATCH;
    uint64_t returned = hv_heap_trim(upkeep->heap, batch);

    /* Fewer than asked for: the rest is being used, or the host will not have it. */
    upkeep->surplus = returned < batch ? 0 : most - returned;
}

hv_ns hv_upkeep_return(struct hv_upkeep *upkeep, hv_ns now)
{
    if (upkeep->surplus == 0) {
        if (!upkeep->watching) {
            return watch(upkeep, now);
        }
        if (hv_ns_before(now, upkeep->quiet_at)) {
            return upkeep->quiet_at;
        }
        upkeep->surplus = beyond_pool(upkeep, hv_heap_fewest_backed(upkeep->heap));
        upkeep->watching = false;
        /* Frames in magazines keep extents from being whole. Those count in the next period. */
        (void)hv_magazines_drain(upkeep->heap);
    }
    if (upkeep->surplus > 0) {
        return_some(upkeep);
    }
    return now;
}

/* ---- the threads ---- */

static hv_ns (*const turns[HV_DUTIES])(struct hv_upkeep *upkeep, hv_ns now) = {
    [HV_DUTY_SCRUB] = hv_upkeep_scrub,
    [HV_DUTY_RETURN] = hv_upkeep_return,
};

static const char *const names[HV_DUTIES] = {
    [HV_DUTY_SCRUB] = "hv-scrub",
    [HV_DUTY_RETURN] = "hv-return",
};

/* Announce that there is nothing to do, and look again. Returns when to come. */
static hv_ns wait_for_work(struct hv_upkeep *upkeep, enum hv_duty duty, hv_ns now)
{
    hv_ns next;

    /* Pairs with wake_duties(): who changes `backed` after our look rings. */
    hv_or_seq(&upkeep->heap->duties_asleep, HV_BIT(duty) & UINT32_MAX);
    HV_RACE("upkeep.announced");
    next = turns[duty](upkeep, now);
    if (next.v != HV_NS_NEVER.v) {
        hv_and_seq(&upkeep->heap->duties_asleep, ~HV_BIT(duty) & UINT32_MAX);
    }
    return next;
}

static void *duty_main(void *data)
{
    const struct hv_upkeep_thread *thread = data;
    struct hv_upkeep *upkeep = thread->upkeep;
    struct hv_doorbell *bell = &upkeep->heap->duty_bell[thread->duty];

    if (thread->duty == HV_DUTY_SCRUB) {
        hv_thread_be_batch();
        upkeep->preemptions = hv_thread_preemptions();
    }
    for (;;) {
        hv_ns now, next;

        (void)hv_doorbell_take(bell);
        if (hv_load_seq(&upkeep->stopping)) {
            return NULL;
        }
        now = hv_clock_now(upkeep->clock);
        next = turns[thread->duty](upkeep, now);
        /* What wants the CPU does so by the host's clock. */
        if (thread->duty == HV_DUTY_SCRUB && upkeep->clock->kind == HV_CLOCK_KIND_HOST) {
            /* It has taken a while; and longer, when it lost its CPU. */
            now = hv_clock_now(upkeep->clock);
            next = hv_upkeep_pace(upkeep, next, now, hv_thread_preemptions());
        }
        if (next.v == HV_NS_NEVER.v) {
            next = wait_for_work(upkeep, thread->duty, now);
        }
        if (hv_ns_before(now, next)) {
            /* A simulated clock moves by a call, which rings. */
            (void)hv_doorbell_sleep(bell,
                                    upkeep->clock->kind == HV_CLOCK_KIND_HOST ? next : HV_NS_NEVER);
        }
    }
}

int hv_upkeep_create(struct hv_heap *heap, const struct hv_clock *clock,
                     const struct hv_upkeep_policy *policy, struct hv_upkeep **upkeep_out)
{
    struct hv_upkeep *upkeep = hv_alloc(1, sizeof(*upkeep));
    int err = 0;

    *upkeep_out = NULL;
    if (!upkeep) {
        return -ENOMEM;
    }
    hv_upkeep_init(upkeep, heap, clock, policy);
    for (unsigned i = 0; i < HV_DUTIES && !err; i++) {
        struct hv_upkeep_thread *thread = &upkeep->threads[i];

        err = hv_thread_start(&thread->id, names[i], duty_main, thread);
        thread->started = !err;
    }
    if (err) {
        hv_upkeep_destroy(upkeep);
        return err;
    }
    *upkeep_out = upkeep;
    return 0;
}

static void ring_both(struct hv_upkeep *upkeep, uint32_t requests)
{
    for (unsigned i = 0; i < HV_DUTIES; i++) {
        hv_doorbell_ring(&upkeep->heap->duty_bell[i], requests);
    }
}

void hv_upkeep_destroy(struct hv_upkeep *upkeep)
{
    if (!upkeep) {
        return;
    }
    hv_store_seq(&upkeep->stopping, 1);
    ring_both(upkeep, HV_REQUEST_STOP);
    for (unsigned i = 0; i < HV_DUTIES; i++) {
        if (upkeep->threads[i].started) {
            pthread_join(upkeep->threads[i].id, NULL);
        }
    }
    hv_store_seq(&upkeep->heap->duties_asleep, 0);
    hv_free(upkeep);
}

void hv_upkeep_clock_moved(struct hv_upkeep *upkeep)
{
    ring_both(upkeep, HV_REQUEST_TIMER);
}
