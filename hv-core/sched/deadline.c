/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The deadline thread: see deadline.h for why no deadline is overslept. */
#include "sched/deadline.h"

#include <errno.h>
#include <pthread.h>

#include "base/alloc.h"
#include "sync/thread.h"
#include "sync/lock.h"
#include "sync/race.h"

struct slot {
    HV_ALIGNED(HV_CACHE_LINE) struct hv_lock lock; /* HV_RANK_DOORBELL */
    /* Guarded by &lock. */
    struct hv_doorbell *bell;
    hv_ns when; /* HV_NS_NEVER once rung */
};

struct hv_deadline {
    /* The thread's own. */
    struct hv_doorbell bell;
    _Atomic uint64_t wakes;
    /* Atomic. */
    _Atomic uint64_t wake_at;
    _Atomic uint32_t stopping;
    /* Set at creation. */
    const struct hv_clock *clock;
    pthread_t thread;
    unsigned count;
    struct slot slots[];
};

/* Ring the slot if it is due. Returns when it will be, or HV_NS_NEVER. */
static hv_ns serve(struct slot *slot, hv_ns now)
{
    hv_ns when;

    hv_lock_take(&slot->lock);
    if (slot->bell && !hv_ns_before(now, slot->when)) {
        hv_doorbell_ring(slot->bell, HV_REQUEST_TIMER);
        slot->when = HV_NS_NEVER;
    }
    when = slot->when;
    hv_lock_drop(&slot->lock);
    return when;
}

static void *deadline_main(void *data)
{
    struct hv_deadline *deadline = data;

    for (;;) {
        hv_ns earliest = HV_NS_NEVER;
        hv_ns now;

        (void)hv_doorbell_take(&deadline->bell);
        if (hv_load_seq(&deadline->stopping)) {
            return NULL;
        }
        hv_store_seq(&deadline->wake_at, UINT64_MAX);
        now = hv_clock_now(deadline->clock);
        for (unsigned i = 0; i < deadline->count; i++) {
            hv_ns when = serve(&deadline->slots[i], now);

            earliest = hv_ns_before(when, earliest) ? when : earliest;
        }
        HV_RACE("deadline.looked");
        hv_store_seq(&deadline->wake_at, earliest.v);
        /* A simulated clock moves by a call, which rings. */
        (void)hv_doorbell_sleep(
            &deadline->bell, deadline->clock->kind == HV_CLOCK_KIND_HOST ? earliest : HV_NS_NEVER);
        hv_count(&deadline->wakes, 1);
    }
}

static void free_deadline(struct hv_deadline *deadline)
{
    for (unsigned i = 0; i < deadline->count; i++) {
        hv_lock_finish(&deadline->slots[i].lock);
    }
    hv_free(deadline);
}

int hv_deadline_create(unsigned slots, const struct hv_clock *clock,
                       struct hv_deadline **deadline_out)
{
    struct hv_deadline *deadline;
    int error;

    *deadline_out = NULL;
    deadline =
        hv_alloc_aligned(HV_CACHE_LINE, sizeof(struct hv_deadline) + slots * sizeof(struct slot));
    if (!deadline) {
        return -ENOMEM;
    }
    hv_doorbell_init(&deadline->bell);
    hv_store_relaxed(&deadline->wake_at, UINT64_MAX);
    deadline->clock = clock;
    deadline->count = slots;
    for (unsigned i = 0; i < slots; i++) {
        hv_lock_init(&deadline->slots[i].lock, HV_RANK_DOORBELL, "deadline.slot", i);
        deadline->slots[i].when = HV_NS_NEVER;
    }
    error = hv_thread_start(&deadline->thread, "hv-deadline", deadline_main, deadline);
    if (error < 0) {
        free_deadline(deadline);
        return error;
    }
    *deadline_out = deadline;
    return 0;
}

void hv_deadline_destroy(struct hv_deadline *deadline)
{
    if (!deadline) {
        return;
    }
    hv_store_seq(&deadline->stopping, 1);
    hv_doorbell_ring(&deadline->bell, HV_REQUEST_STOP);
    pthread_join(deadline->thread, NULL);
    free_deadline(deadline);
}

void hv_deadline_set(struct hv_deadline *deadline, unsigned index, struct hv_doorbell *bell,
                     hv_ns when)
{
    struct slot *slot = &deadline->slots[index];

    hv_lock_take(&slot->lock);
    slot->bell = bell;
    slot->when = when;
    hv_lock_drop(&slot->lock);
    HV_RACE("deadline.set");
    if (when.v < hv_load_seq(&deadline->wake_at)) {
        hv_doorbell_ring(&deadline->bell, HV_REQUEST_TIMER);
    }
}

void hv_deadline_clear(struct hv_deadline *deadline, unsigned index)
{
    struct slot *slot = &deadline->slots[index];

    hv_lock_take(&slot->lock);
    slot->bell = NULL;
    slot->when = HV_NS_NEVER;
    hv_lock_drop(&slot->lock);
}

void hv_deadline_kick(struct hv_deadline *deadline, unsigned index)
{
    struct slot *slot = &deadline->slots[index];

    hv_lock_take(&slot->lock);
    if (slot->bell) {
        hv_doorbell_ring(slot->bell, HV_REQUEST_TIMER);
    }
    hv_lock_drop(&slot->lock);
}

uint64_t hv_deadline_wakes(const struct hv_deadline *deadline)
{
    return hv_load_relaxed(&deadline->wakes);
}

void hv_deadline_clock_moved(struct hv_deadline *deadline)
{
    hv_doorbell_ring(&deadline->bell, HV_REQUEST_TIMER);
}
