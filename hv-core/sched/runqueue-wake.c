/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Run queues: who is woken goes where, and whom it interrupts. See runqueue.h. */
#include "sched/runqueue-private.h"

#include "sync/race.h"

void runqueue_notify(const struct hv_runqueue *queue)
{
    if (queue->set->notify) {
        queue->set->notify(queue->set->context, queue->index);
    }
}

/* False when it is not idle, or another was faster. */
static bool claim(struct hv_runqueue *queue)
{
    uint32_t idle = 1;

    return hv_load_seq(&queue->idle) && hv_cas_seq(&queue->idle, &idle, 0);
}

struct hv_runqueue *runqueue_claim(struct hv_runqueue *home, const struct hv_sched_group *group)
{
    struct hv_runqueues *set = home->set;

    for (unsigned i = 0; i < set->count; i++) {
        struct hv_runqueue *queue = &set->queue[(home->index + i) % set->count];

        if (hv_group_allows(group, queue->index) && claim(queue)) {
            return queue;
        }
    }
    return NULL;
}

void runqueue_end_alone(struct hv_runqueue *queue, hv_ns now)
{
    const struct hv_sched_tuning *tuning = &queue->set->tuning;
    uint64_t until = hv_load_seq(&queue->alone_until);
    uint64_t since = until - tuning->alone_ns;
    uint64_t ran = now.v > since ? now.v - since : 0;

    /* One that was brought forward ends no later than this, too. */
    if (until <= now.v + tuning->slice_ns) {
        return;
    }
    /* The value tells the slice: a later one's is later. */
    if (hv_cas_seq(&queue->alone_until, &until,
                   now.v + tuning->slice_ns - ran % tuning->slice_ns)) {
        runqueue_notify(queue);
    }
}

struct hv_runqueue *runqueue_find_taker(struct hv_runqueue *home,
                                        const struct hv_sched_group *group)
{
    struct hv_runqueue *idler = runqueue_claim(home, group);

    if (!idler) {
        hv_ns now = hv_clock_now(home->set->clock);

        for (unsigned i = 0; i < home->set->count; i++) {
            runqueue_end_alone(&home->set->queue[i], now);
        }
    }
    return idler;
}

void runqueue_preempt_locked(struct hv_runqueue *queue, hv_ns when)
{
    hv_lock_assert_held(&queue->lock);
    if (when.v < hv_load_relaxed(&queue->preempt_at)) {
        hv_store_seq(&queue->preempt_at, when.v);
        runqueue_notify(queue);
    }
}

/* By how much who runs there is older than @key, less the least of a slice; negative: not at all. */
static int64_t older_by(const struct hv_runqueue *queue, hv_vtime key, hv_ns now)
{
    hv_vrate rate = {hv_load_relaxed(&queue->run_rate)};
    uint64_t since = hv_load_relaxed(&queue->run_since);
    uint64_t least = hv_credit_cost(rate, queue->set->tuning.slice_min_ns);
    uint64_t ran = now.v > since ? now.v - since : 0;

    if (!hv_load_seq(&queue->busy)) {
        return -1;
    }
    return (int64_t)(hv_load_relaxed(&queue->run_vtime) + hv_credit_cost(rate, ran) - least -
                     key.v);
}

/* The pCPU of those that it may interrupt that runs the oldest, home with a head start; else where it
 * waits. */
static struct hv_runqueue *choose_busy(struct hv_runqueue *home,
                                       const struct hv_sched_entity *entity, hv_ns now)
{
    struct hv_runqueues *set = home->set;
    struct hv_runqueue *best = NULL;
    int64_t best_by = 0;

    for (unsigned i = 0; i < set->count; i++) {
        struct hv_runqueue *queue = &set->queue[(home->index + i) % set->count];
        int64_t by;

        if (!hv_group_allows(entity->group, queue->index)) {
            continue;
        }
        by = older_by(queue, entity->vtime, now);
        if (by > 0 && queue == home) {
            hv_vrate rate = {hv_load_relaxed(&queue->run_rate)};

            by += (int64_t)hv_credit_cost(rate, set->tuning.home_ns);
        }
        if (!best || by > best_by) {
            best = queue;
            best_by = by > 0 ? by : 0;
        }
    }
    return best ? best : home;
}

/* It was away: where does it go on, in virtual time? Its home is locked. */
static void return_locked(struct hv_runqueues *set, struct hv_sched_entity *entity, hv_ns now)
{
    hv_vrate rate = hv_group_rate(entity->group);
    struct runqueue_standing youngest;

    if (!runqueue_youngest(set, entity->group, true, now, &youngest)) {
        youngest.vtime.v = hv_load_relaxed(&set->vtime);
    }
    entity->vtime = hv_credit_return(entity->vtime, youngest.vtime, rate, set->tuning.slice_ns);
}

/* It is in @queue now: shall the one who runs there make way? */
static void maybe_preempt_locked(struct hv_runqueue *queue, const struct hv_sched_entity *entity,
                                 hv_ns now)
{
    if (older_by(queue, entity->vtime, now) > 0) {
        hv_ns allowed = hv_ns_add((hv_ns){hv_load_relaxed(&queue->run_since)},
                                  queue->set->tuning.rate_limit_ns);

        runqueue_preempt_locked(queue, hv_ns_before(now, allowed) ? allowed : now);
    }
}

/*
 * Put a blocked entity, whose home is locked, where it will run soonest, and unlock. Returns the
 * pCPU to be notified, or NULL when none needs to be.
 */
HV_NO_TSA static struct hv_runqueue *place_blocked(struct hv_runqueue *home,
                                                   struct hv_sched_entity *entity)
{
    struct hv_runqueue *idler = runqueue_claim(home, entity->group);
    hv_ns now = hv_clock_now(home->set->clock);
    struct hv_runqueue *chosen;

    HV_RACE("sched.wake.placing");
    return_locked(home->set, entity, now);
    chosen = idler ? idler : choose_busy(home, entity, now);
    if (chosen != home) {
        hv_count(&entity->counters.migrations, 1);
        hv_store_release(&entity->home, chosen);
        hv_lock_drop(&home->lock);
        HV_RACE("sched.wake.moved");
        home = runqueue_lock_home(entity);
        /* Nobody's lock was held for a moment: it may have been woken, or retired, by another. */
        if (entity->state != HV_SCHED_STATE_BLOCKED) {
            hv_lock_drop(&home->lock);
            return idler;
        }
    }
    hv_count(&entity->counters.wakes, 1);
    runqueue_change_state(entity, HV_SCHED_STATE_READY, now);
    runqueue_insert_locked(home, entity);
    maybe_preempt_locked(home, entity, now);
    hv_lock_drop(&home->lock);
    HV_RACE("sched.wake.pushed");
    /* All had work: one may have run out of it since. */
    return idler ? idler : runqueue_find_taker(home, entity->group);
}

HV_NO_TSA void hv_runqueue_wake(struct hv_sched_entity *entity)
{
    struct hv_runqueue *home = runqueue_lock_home(entity);
    struct hv_runqueue *idler = NULL;

    switch (entity->state) {
    case HV_SCHED_STATE_BLOCKED:
        idler = place_blocked(home, entity);
        break;
    case HV_SCHED_STATE_RUNNING:
        /* Pairs with the halt poll, which looks without the lock. */
        hv_store_seq(&entity->wake_pending, true);
        hv_lock_drop(&home->lock);
        break;
    case HV_SCHED_STATE_READY:
    case HV_SCHED_STATE_RETIRED:
        hv_lock_drop(&home->lock);
        break;
    }
    if (idler) {
        runqueue_notify(idler);
    }
}

void hv_runqueue_tick(struct hv_runqueue *queue)
{
    hv_ns now = hv_clock_now(queue->set->clock);

    if (hv_ns_before(now, hv_runqueue_next(queue))) {
        return;
    }
    hv_lock_take(&queue->lock);
    hv_store_seq(&queue->park_until, UINT64_MAX);
    /* All budgets begin anew at the same moment. */
    while (hv_list_linked(&queue->parked)) {
        struct hv_sched_entity *entity =
            hv_list_entry(queue->parked.next, struct hv_sched_entity, link);
        struct hv_runqueue *idler;

        runqueue_remove_locked(queue, entity);
        return_locked(queue->set, entity, now);
        runqueue_insert_locked(queue, entity);
        idler = runqueue_find_taker(queue, entity->group);
        if (idler) {
            runqueue_notify(idler);
        } else {
            maybe_preempt_locked(queue, entity, now);
        }
    }
    hv_lock_drop(&queue->lock);
}

HV_NO_TSA void hv_runqueue_settle(struct hv_sched_entity *entity)
{
    struct hv_runqueue *home = runqueue_lock_home(entity);
    hv_ns now = hv_clock_now(home->set->clock);
    struct hv_runqueue *idler = NULL;

    if (entity->state == HV_SCHED_STATE_RUNNING) {
        if (!hv_group_allows(entity->group, home->index)) {
            runqueue_preempt_locked(home, now);
        }
        /* It may have a cap now, of which this slice has reserved nothing. */
        runqueue_end_alone(home, now);
    } else if (entity->state == HV_SCHED_STATE_READY) {
        idler = runqueue_find_taker(home, entity->group);
    }
    hv_lock_drop(&home->lock);
    if (idler) {
        runqueue_notify(idler);
    }
}
