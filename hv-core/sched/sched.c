/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Run queues: picking, waking, stealing, retiring. See sched.h for states and invariants; the
 * threads themselves are in worker.c.
 *
 * An entity's state is guarded by the lock of the worker it is at home with. It changes homes by a
 * holder of the old home's lock alone, who writes everything else before `worker`: after that store
 * the others lock the new home. So stealing and placing never need two locks.
 */
#include "sched/sched.h"

#include "base/assert.h"
#include "sched/sched-private.h"
#include "sync/futex.h"
#include "sync/race.h"

#define EVERYBODY     (UINT32_MAX >> 1)
/* An entity of another worker must have waited for so much longer than our own to be taken. */
#define HEAD_START_NS HV_NS_PER_MS

/*
 * Lock the run queue the entity is at home in. It may move while we wait: then to the next.
 *
 * The second look is an acquire, too: the entity may have left and come back meanwhile, by one who
 * held the other home's lock and not this one.
 */
HV_NO_TSA static struct hv_worker *lock_home(struct hv_sched_entity *entity)
{
    for (;;) {
        struct hv_worker *worker = hv_load_acquire(&entity->worker);

        HV_RACE("sched.home.read");
        hv_lock_take(&worker->lock);
        if (hv_load_acquire(&entity->worker) == worker) {
            return worker;
        }
        hv_lock_drop(&worker->lock);
    }
}

/* ---- states ---- */

/* Book the time in the old state, and enter the new one. The home's lock is held. */
static void change_state(struct hv_sched_entity *entity, enum hv_sched_state state, hv_ns now)
{
    uint64_t span = hv_ns_before(now, entity->since) ? 0 : now.v - entity->since.v;

    switch (entity->state) {
    case HV_SCHED_STATE_BLOCKED:
        hv_count(&entity->counters.blocked_ns, span);
        break;
    case HV_SCHED_STATE_READY:
        hv_count(&entity->counters.ready_ns, span);
        if (entity->put_off) {
            hv_count(&entity->counters.steal_ns, span);
        }
        entity->put_off = false;
        break;
    case HV_SCHED_STATE_RUNNING:
        hv_count(&entity->counters.run_ns, span);
        break;
    case HV_SCHED_STATE_RETIRED:
        HV_BUG_ON(true);
    }
    entity->state = state;
    entity->since = now;
}

/* Sequentially consistent, and before any look at `idle`: invariant (4). */
static void publish_oldest_locked(struct hv_worker *worker)
{
    const struct hv_list *head = worker->ready.next;

    hv_store_seq(&worker->oldest_ns,
                 head != &worker->ready ? hv_list_entry(head, struct hv_sched_entity, link)->since.v
                                        : UINT64_MAX);
}

static void push_ready_locked(struct hv_worker *worker, struct hv_sched_entity *entity, hv_ns now)
{
    hv_lock_assert_held(&worker->lock);
    change_state(entity, HV_SCHED_STATE_READY, now);
    hv_list_push_tail(&worker->ready, &entity->link);
    publish_oldest_locked(worker);
}

static void unlink_ready_locked(struct hv_worker *worker, struct hv_sched_entity *entity)
{
    hv_list_unlink(&entity->link);
    publish_oldest_locked(worker);
}

void hv_sched_entity_init(struct hv_sched *sched, struct hv_sched_entity *entity, unsigned index)
{
    hv_list_init(&entity->link);
    entity->state = HV_SCHED_STATE_BLOCKED;
    entity->wake_pending = false;
    entity->put_off = false;
    hv_store_relaxed(&entity->retiring, false);
    entity->since = hv_clock_now(sched->clock);
    entity->counters = (struct hv_sched_counters){0};
    hv_store_release(&entity->worker, &sched->workers[index % sched->count]);
}

/* ---- waking ---- */

/* Make an idle worker ours to give work to. False when it is not idle, or another was faster. */
static bool claim(struct hv_worker *worker)
{
    uint32_t idle = 1;

    return hv_load_seq(&worker->idle) && hv_cas_seq(&worker->idle, &idle, 0);
}

/* Claim any idle worker, the nearest after @home first; NULL when all have work. */
static struct hv_worker *claim_any(struct hv_worker *home)
{
    struct hv_sched *sched = home->sched;

    for (unsigned i = 0; i < sched->count; i++) {
        struct hv_worker *worker = &sched->workers[(home->index + i) % sched->count];

        if (claim(worker)) {
            return worker;
        }
    }
    return NULL;
}

/*
 * Put a blocked entity, whose home is locked, where it will run soonest, and unlock. Returns the
 * worker to be rung, or NULL when none needs to be.
 */
HV_NO_TSA static struct hv_worker *place_blocked(struct hv_worker *home,
                                                 struct hv_sched_entity *entity)
{
    struct hv_worker *chosen = claim_any(home);
    hv_ns now = hv_clock_now(home->sched->clock);

    HV_RACE("sched.wake.placing");
    if (chosen && chosen != home) {
        hv_count(&entity->counters.migrations, 1);
        hv_store_release(&entity->worker, chosen);
        hv_lock_drop(&home->lock);
        HV_RACE("sched.wake.moved");
        home = lock_home(entity);
        /* Nobody's lock was held for a moment: it may have been woken, or retired, by another. */
        if (entity->state != HV_SCHED_STATE_BLOCKED) {
            hv_lock_drop(&home->lock);
            return chosen;
        }
    }
    push_ready_locked(home, entity, now);
    hv_lock_drop(&home->lock);
    HV_RACE("sched.wake.pushed");
    /* All had work: one may have run out of it since. */
    return chosen ? chosen : claim_any(home);
}

HV_NO_TSA void hv_sched_wake(struct hv_sched_entity *entity)
{
    struct hv_worker *home = lock_home(entity);
    struct hv_worker *idler = NULL;

    switch (entity->state) {
    case HV_SCHED_STATE_BLOCKED:
        idler = place_blocked(home, entity);
        break;
    case HV_SCHED_STATE_RUNNING:
        entity->wake_pending = true;
        hv_lock_drop(&home->lock);
        break;
    case HV_SCHED_STATE_READY:
    case HV_SCHED_STATE_RETIRED:
        hv_lock_drop(&home->lock);
        break;
    }
    if (idler) {
        hv_doorbell_ring(&idler->bell, HV_REQUEST_EVENT);
    }
}

/* ---- picking ---- */

static struct hv_sched_entity *take_oldest(struct hv_worker *from, struct hv_worker *worker)
{
    struct hv_sched_entity *entity = NULL;

    hv_lock_take(&from->lock);
    if (hv_list_linked(&from->ready)) {
        entity = hv_list_entry(from->ready.next, struct hv_sched_entity, link);
        unlink_ready_locked(from, entity);
        change_state(entity, HV_SCHED_STATE_RUNNING, hv_clock_now(worker->sched->clock));
        entity->wake_pending = false;
        hv_count(&entity->counters.switches, 1);
        if (from != worker) {
            hv_count(&entity->counters.migrations, 1);
            hv_count(&worker->counters.stolen, 1);
            /* The last thing: others now lock our queue for it. */
            hv_store_release(&entity->worker, worker);
        }
    }
    hv_lock_drop(&from->lock);
    return entity;
}

/*
 * The queue whose head has waited longest, our own with a head start; NULL when all are empty.
 * Without the comparison three vCPUs on two workers would stay two and one.
 */
static struct hv_worker *fullest_queue(struct hv_worker *worker)
{
    struct hv_sched *sched = worker->sched;
    struct hv_worker *best = NULL;
    uint64_t best_ns = UINT64_MAX;

    for (unsigned i = 0; i < sched->count; i++) {
        struct hv_worker *other = &sched->workers[(worker->index + i) % sched->count];
        uint64_t oldest = hv_load_seq(&other->oldest_ns);

        if (other == worker && oldest != UINT64_MAX) {
            oldest -= oldest < HEAD_START_NS ? oldest : HEAD_START_NS;
        }
        if (oldest < best_ns) {
            best = other;
            best_ns = oldest;
        }
    }
    return best;
}

struct hv_sched_entity *hv_worker_pick(struct hv_worker *worker)
{
    struct hv_sched_entity *entity = NULL;
    struct hv_worker *from;

    /* Another may be faster; then look again. Each miss is somebody else's find. */
    while (!entity && (from = fullest_queue(worker))) {
        HV_RACE("sched.pick.chosen");
        entity = take_oldest(from, worker);
    }
    return entity;
}

bool hv_sched_anything_ready(struct hv_sched *sched)
{
    return fullest_queue(&sched->workers[0]) != NULL;
}

/* ---- the end of a slice, and of everything ---- */

void hv_worker_put_back(struct hv_worker *worker, struct hv_sched_entity *entity,
                        enum hv_sched_verdict verdict)
{
    hv_ns now = hv_clock_now(worker->sched->clock);
    bool wake_retirers = false;

    HV_RACE("sched.put-back");
    hv_lock_take(&worker->lock);
    if (hv_load_relaxed(&entity->retiring)) {
        change_state(entity, HV_SCHED_STATE_RETIRED, now);
        hv_add_seq(&worker->turns, 1);
        wake_retirers = worker->retirers > 0;
    } else if (verdict == HV_SCHED_BLOCK && !entity->wake_pending) {
        change_state(entity, HV_SCHED_STATE_BLOCKED, now);
    } else {
        push_ready_locked(worker, entity, now);
        entity->put_off = verdict == HV_SCHED_YIELD;
    }
    hv_lock_drop(&worker->lock);
    /* From here on a retired entity may be gone. */
    if (wake_retirers) {
        hv_futex_wake(&worker->turns, EVERYBODY);
    }
}

/* Wait until a slice ends, in which the entity is to retire. The home is locked, before and after. */
HV_NO_TSA static void await_turn_locked(struct hv_worker *home, struct hv_sched_entity *entity)
{
    uint32_t since = hv_load_seq(&home->turns);

    HV_ASSERT(home->thread_id != hv_thread_id());
    /* Pairs with hv_sched_slice_over(): the flag stands before the bell rings. */
    hv_store_seq(&entity->retiring, true);
    hv_doorbell_ring(entity->bell, HV_REQUEST_STOP);
    home->retirers++;
    hv_lock_drop(&home->lock);
    HV_RACE("sched.retire.waits");
    hv_futex_wait(&home->turns, since, HV_NS_NEVER);
    hv_lock_take(&home->lock);
    home->retirers--;
}

HV_NO_TSA void hv_sched_retire(struct hv_sched_entity *entity)
{
    struct hv_worker *home;

    hv_lock_check_wait(HV_RANK_DEVICE, "the end of a slice");
    home = lock_home(entity);
    /* A running entity does not change homes, so the lock stays the right one. */
    while (entity->state == HV_SCHED_STATE_RUNNING) {
        await_turn_locked(home, entity);
    }
    if (entity->state == HV_SCHED_STATE_READY) {
        unlink_ready_locked(home, entity);
    }
    if (entity->state != HV_SCHED_STATE_RETIRED) {
        change_state(entity, HV_SCHED_STATE_RETIRED, hv_clock_now(home->sched->clock));
    }
    hv_lock_drop(&home->lock);
}

bool hv_sched_slice_over(const struct hv_worker *worker, hv_ns slice_end)
{
    return hv_load_seq(&worker->running->retiring) ||
           !hv_ns_before(hv_clock_now(worker->sched->clock), slice_end);
}

unsigned hv_sched_home(const struct hv_sched_entity *entity)
{
    return hv_load_acquire(&entity->worker)->index;
}
