/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The deadline thread: see deadline.h for why no deadline is overslept. */
#include "sched/deadline.h"

#include <errno.h>
#include <pthread.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "sync/thread.h"
#include "sync/lock.h"
#include "sync/race.h"

struct slot {
    HV_ALIGNED(HV_CACHE_LINE) struct hv_lock lock; /* HV_RANK_DOORBELL */
    /* Guarded by &lock. */
    struct hv_doorbell *bell;
    hv_ns when; /* HV_NS_NEVER once rung */
    /* Its owner's: what it set last, and what it set the alarm for last. */
    hv_ns set, alarmed;
};

struct hv_deadline {
    HV_ALIGNED(HV_CACHE_LINE) struct hv_lock lock; /* HV_RANK_DOORBELL: of setting the alarm */
    /* Atomic: made a time with the lock held, and UINT64_MAX without. */
    _Atomic uint64_t alarm_at;
    _Atomic uint64_t wakes;
    _Atomic uint32_t stopping;
    /* Set at creation. */
    int alarm; /* a timerfd */
    const struct hv_clock *clock;
    pthread_t thread;
    unsigned count;
    struct slot slots[];
};

/* ---- the alarm ---- */

/* A moment long ago, which is not 0: that would be never. */
#define AT_ONCE ((hv_ns){1})

static void set_timer(struct hv_deadline *deadline, hv_ns when)
{
    const struct itimerspec spec = {
        .it_value = {(time_t)(when.v / HV_NS_PER_S), (long)(when.v % HV_NS_PER_S)},
    };

    HV_BUG_ON(timerfd_settime(deadline->alarm, TFD_TIMER_ABSTIME, &spec, NULL) < 0);
}

/* Let the thread wake at @when, unless it will wake before, or is to end. */
static void set_alarm(struct hv_deadline *deadline, hv_ns when)
{
    hv_lock_take(&deadline->lock);
    if (!hv_load_seq(&deadline->stopping) && when.v < hv_load_seq(&deadline->alarm_at)) {
        hv_store_seq(&deadline->alarm_at, when.v);
        if (deadline->clock->kind == HV_CLOCK_KIND_HOST) {
            set_timer(deadline, when.v ? when : AT_ONCE);
        } else if (!hv_ns_before(hv_clock_now(deadline->clock), when)) {
            /* A simulated clock moves by a call, which wakes the thread. */
            set_timer(deadline, AT_ONCE);
        }
    }
    hv_lock_drop(&deadline->lock);
}

/* Let it not wake, unless somebody has set the alarm meanwhile. A simulated clock may just have
 * moved, for which it is to wake. */
static void silence_alarm(struct hv_deadline *deadline)
{
    hv_lock_take(&deadline->lock);
    if (hv_load_seq(&deadline->alarm_at) == UINT64_MAX &&
        deadline->clock->kind == HV_CLOCK_KIND_HOST) {
        set_timer(deadline, (hv_ns){0});
    }
    hv_lock_drop(&deadline->lock);
}

/* ---- the thread ---- */

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

/* Ring what is due; returns when something will be, or HV_NS_NEVER. Then the alarm is to be set. */
static hv_ns look(struct hv_deadline *deadline)
{
    hv_ns earliest = HV_NS_NEVER;
    hv_ns now;

    hv_store_seq(&deadline->alarm_at, UINT64_MAX);
    now = hv_clock_now(deadline->clock);
    for (unsigned i = 0; i < deadline->count; i++) {
        hv_ns when = serve(&deadline->slots[i], now);

        earliest = hv_ns_before(when, earliest) ? when : earliest;
    }
    HV_RACE("deadline.looked");
    return earliest;
}

static void *deadline_main(void *data)
{
    struct hv_deadline *deadline = data;
    uint64_t expired;

    for (;;) {
        HV_BUG_ON(read(deadline->alarm, &expired, sizeof(expired)) < 0 && errno != EINTR);
        hv_count(&deadline->wakes, 1);
        if (hv_load_seq(&deadline->stopping)) {
            return NULL;
        }
        set_alarm(deadline, look(deadline));
    }
}

static void free_deadline(struct hv_deadline *deadline)
{
    for (unsigned i = 0; i < deadline->count; i++) {
        hv_lock_finish(&deadline->slots[i].lock);
    }
    hv_lock_finish(&deadline->lock);
    if (deadline->alarm >= 0) {
        close(deadline->alarm);
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
    hv_lock_init(&deadline->lock, HV_RANK_DOORBELL, "deadline.alarm", 0);
    hv_store_relaxed(&deadline->alarm_at, UINT64_MAX);
    deadline->clock = clock;
    deadline->count = slots;
    for (unsigned i = 0; i < slots; i++) {
        hv_lock_init(&deadline->slots[i].lock, HV_RANK_DOORBELL, "deadline.slot", i);
        deadline->slots[i].when = HV_NS_NEVER;
        deadline->slots[i].set = deadline->slots[i].alarmed = HV_NS_NEVER;
    }
    deadline->alarm = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    error = deadline->alarm >= 0 ? 0 : errno == ENOMEM ? -ENOMEM : -EAGAIN;
    if (error == 0) {
        error = hv_thread_start(&deadline->thread, "hv-deadline", deadline_main, deadline);
    }
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
    /* Under the lock: the thread, which may have looked already, does not put this alarm off. */
    hv_lock_take(&deadline->lock);
    hv_store_seq(&deadline->stopping, 1);
    set_timer(deadline, AT_ONCE);
    hv_lock_drop(&deadline->lock);
    HV_RACE("deadline.stopping");
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
    slot->set = when;
    if (when.v < hv_load_seq(&deadline->alarm_at)) {
        slot->alarmed = when;
        set_alarm(deadline, when);
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

void hv_deadline_rest(struct hv_deadline *deadline, unsigned index)
{
    const struct slot *slot = &deadline->slots[index];
    uint64_t alarm_at = hv_load_seq(&deadline->alarm_at);
    hv_ns earliest;

    if (alarm_at == UINT64_MAX || (alarm_at != slot->set.v && alarm_at != slot->alarmed.v)) {
        return;
    }
    earliest = look(deadline);
    if (earliest.v == UINT64_MAX) {
        silence_alarm(deadline);
    } else {
        set_alarm(deadline, earliest);
    }
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

hv_ns hv_deadline_alarm(const struct hv_deadline *deadline)
{
    return (hv_ns){hv_load_seq(&deadline->alarm_at)};
}

void hv_deadline_clock_moved(struct hv_deadline *deadline)
{
    set_timer(deadline, AT_ONCE);
}
