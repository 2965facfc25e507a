/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Run queues: order, picking, the end of a slice, parking, retiring. See runqueue.h for states and
 * invariants; waking is in runqueue-wake.c.
 *
 * Stealing and placing never need two locks: whoever holds the old home's moves the entity.
 */
#include "sched/runqueue.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "sched/halt-poll.h"
#include "sched/runqueue-private.h"
#include "sync/futex.h"
#include "sync/race.h"

#include <errno.h>

#define EVERYBODY (UINT32_MAX >> 1)

const struct hv_sched_tuning hv_sched_tuning_standard = {
    .slice_ns = 3 * HV_NS_PER_MS,
    .slice_min_ns = 500 * HV_NS_PER_US,
    .alone_ns = 100 * HV_NS_PER_MS,
    .rate_limit_ns = HV_NS_PER_MS,
    .home_ns = HV_NS_PER_MS,
    .boost = true,
    .penalty = true,
};

/* ---- making ---- */

int hv_runqueues_init(struct hv_runqueues *set, unsigned count, const struct hv_clock *clock,
                      const struct hv_sched_tuning *tuning,
                      void (*notify)(void *context, unsigned index), void *context)
{
    *set = (struct hv_runqueues){
        .clock = clock,
        .notify = notify,
        .context = context,
        .tuning = *tuning,
        .queue = hv_alloc_aligned(HV_CACHE_LINE, count * sizeof(struct hv_runqueue)),
    };
    hv_group_init(&set->everyone, NULL);
    if (!set->queue) {
        return -ENOMEM;
    }
    set->count = count;
    for (unsigned i = 0; i < count; i++) {
        struct hv_runqueue *queue = &set->queue[i];

        hv_lock_init(&queue->lock, HV_RANK_RUNQUEUE, "runqueue", i);
        hv_list_init(&queue->ready);
        hv_list_init(&queue->parked);
        hv_store_relaxed(&queue->park_until, UINT64_MAX);
        hv_store_relaxed(&queue->preempt_at, UINT64_MAX);
        queue->set = set;
        queue->index = i;
    }
    return 0;
}

void hv_runqueues_finish(struct hv_runqueues *set)
{
    for (unsigned i = 0; i < set->count; i++) {
        HV_ASSERT(!hv_list_linked(&set->queue[i].ready));
        hv_lock_finish(&set->queue[i].lock);
    }
    hv_group_finish(&set->everyone);
    hv_free(set->queue);
}

void hv_runqueue_add(struct hv_runqueues *set, struct hv_sched_entity *entity, unsigned home)
{
    if (!entity->group) {
        entity->group = &set->everyone;
    }
    for (unsigned i = 0; i < set->count && !hv_group_allows(entity->group, home % set->count);
         i++) {
        home++;
    }
    hv_list_init(&entity->link);
    entity->state = HV_SCHED_STATE_BLOCKED;
    entity->since = hv_clock_now(set->clock);
    entity->vtime = (hv_vtime){hv_load_relaxed(&set->vtime)};
    hv_store_release(&entity->home, &set->queue[home % set->count]);
}

/* ---- order ---- */

/*
 * The second look is an acquire, too: the entity may have left and come back meanwhile, by one who
 * held the other home's lock and not this one.
 */
HV_NO_TSA struct hv_runqueue *runqueue_lock_home(struct hv_sched_entity *entity)
{
    for (;;) {
        struct hv_runqueue *queue = hv_load_acquire(&entity->home);

        HV_RACE("sched.home.read");
        hv_lock_take(&queue->lock);
        if (hv_load_acquire(&entity->home) == queue) {
            return queue;
        }
        hv_lock_drop(&queue->lock);
    }
}

static hv_vtime key_of(const struct hv_sched_entity *entity)
{
    return (hv_vtime){entity->vtime.v + entity->handicap};
}

/* Sequentially consistent, and before any look at `idle`: invariant (4). */
static void publish_locked(struct hv_runqueue *queue, uint32_t waiting)
{
    if (hv_list_linked(&queue->ready)) {
        const struct hv_sched_entity *first =
            hv_list_entry(queue->ready.next, struct hv_sched_entity, link);

        hv_store_relaxed(&queue->head, key_of(first).v);
        hv_store_relaxed(&queue->head_rate, hv_group_rate(first->group).v);
        hv_store_relaxed(&queue->head_boosted, first->boosted);
    } else {
        hv_store_relaxed(&queue->head_boosted, false);
    }
    hv_store_seq(&queue->waiting, waiting);
}

void runqueue_insert_locked(struct hv_runqueue *queue, struct hv_sched_entity *entity)
{
    struct hv_list *before = queue->ready.next;

    hv_lock_assert_held(&queue->lock);
    if (!entity->boosted) {
        /* From the end: who comes back from a slice mostly stands there. */
        struct hv_list *after = queue->ready.prev;

        while (after != &queue->ready) {
            const struct hv_sched_entity *other =
                hv_list_entry(after, struct hv_sched_entity, link);

            if (other->boosted || !hv_vtime_before(key_of(entity), key_of(other))) {
                break;
            }
            after = after->prev;
        }
        before = after->next;
    }
    /* The tail of the list that begins with @before. */
    hv_list_push_tail(before, &entity->link);
    publish_locked(queue, hv_load_relaxed(&queue->waiting) + 1);
}

void runqueue_remove_locked(struct hv_runqueue *queue, struct hv_sched_entity *entity)
{
    hv_lock_assert_held(&queue->lock);
    hv_list_unlink(&entity->link);
    if (!entity->parked) {
        publish_locked(queue, hv_load_relaxed(&queue->waiting) - 1);
    }
    entity->parked = false;
}

bool runqueue_youngest(const struct hv_runqueues *set, const struct hv_sched_group *group,
                       bool running, hv_ns now, struct runqueue_standing *youngest_out)
{
    bool any = false;

    for (unsigned i = 0; i < set->count; i++) {
        const struct hv_runqueue *queue = &set->queue[i];
        const struct runqueue_standing head = {{hv_load_relaxed(&queue->head)},
                                               {hv_load_relaxed(&queue->head_rate)}};
        uint64_t since = hv_load_relaxed(&queue->run_since);
        struct runqueue_standing runs = {{hv_load_relaxed(&queue->run_vtime)},
                                         {hv_load_relaxed(&queue->run_rate)}};

        if (!hv_group_allows(group, i)) {
            continue;
        }
        if (hv_load_relaxed(&queue->waiting) > 0 &&
            (!any || hv_vtime_before(head.vtime, youngest_out->vtime))) {
            *youngest_out = head;
            any = true;
        }
        runs.vtime.v += hv_credit_cost(runs.rate, now.v > since ? now.v - since : 0);
        if (running && hv_load_relaxed(&queue->busy) &&
            (!any || hv_vtime_before(runs.vtime, youngest_out->vtime))) {
            *youngest_out = runs;
            any = true;
        }
    }
    return any;
}

/* ---- states ---- */

/* A wake ends a sleep of @span_ns: what does that say of the next? */
static void note_wake(struct hv_sched_entity *entity, uint64_t span_ns)
{
    if (entity->halted) {
        entity->poll_ns = hv_halt_poll_next(entity->poll_ns, span_ns + entity->poll_ns);
    }
    entity->halted = false;
}

static bool is_active(enum hv_sched_state state)
{
    return state == HV_SCHED_STATE_READY || state == HV_SCHED_STATE_RUNNING;
}

void runqueue_change_state(struct hv_sched_entity *entity, enum hv_sched_state state, hv_ns now)
{
    uint64_t span = hv_ns_before(now, entity->since) ? 0 : now.v - entity->since.v;

    switch (entity->state) {
    case HV_SCHED_STATE_BLOCKED:
        hv_count(&entity->counters.blocked_ns, span);
        note_wake(entity, span);
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
    if (is_active(entity->state) != is_active(state)) {
        hv_add_relaxed(&entity->group->active, is_active(state) ? 1u : UINT32_MAX);
    }
    hv_store_relaxed(&entity->ready, state == HV_SCHED_STATE_READY);
    entity->state = state;
    entity->since = now;
}

/* ---- picking ---- */

/* The group's budget is used up: out of the race until the next. */
static void park_locked(struct hv_runqueue *queue, struct hv_sched_entity *entity, hv_ns until)
{
    runqueue_remove_locked(queue, entity);
    entity->parked = true;
    hv_count(&entity->counters.parked, 1);
    hv_list_push_tail(&queue->parked, &entity->link);
    if (until.v < hv_load_relaxed(&queue->park_until)) {
        hv_store_seq(&queue->park_until, until.v);
        /* Another's pCPU may have parked it here, and ours be asleep for longer. */
        runqueue_notify(queue);
    }
}

/* How long @entity may run, the first in @from that @queue's pCPU may have; 0: it was parked. */
static uint64_t reserve_locked(struct hv_runqueue *from, struct hv_runqueue *queue,
                               struct hv_sched_entity *entity, hv_ns now)
{
    const struct hv_sched_tuning *tuning = &queue->set->tuning;
    unsigned others = hv_load_relaxed(&queue->waiting) - (from == queue);
    hv_ns until = HV_NS_NEVER;
    uint64_t given;

    given = hv_group_reserve(entity->group, now,
                             hv_credit_slice(tuning->slice_ns, tuning->slice_min_ns, others),
                             &entity->reserved_ns, &until);
    if (given == 0) {
        park_locked(from, entity, until);
    }
    return given;
}

static void start_locked(struct hv_runqueue *from, struct hv_runqueue *queue,
                         struct hv_sched_entity *entity, hv_ns now)
{
    struct hv_runqueues *set = queue->set;

    runqueue_remove_locked(from, entity);
    runqueue_change_state(entity, HV_SCHED_STATE_RUNNING, now);
    hv_store_relaxed(&entity->wake_pending, false);
    /* What is picked in turn tells the time to those who come when nobody is there. */
    if (!entity->boosted &&
        hv_vtime_before((hv_vtime){hv_load_relaxed(&set->vtime)}, entity->vtime)) {
        hv_store_relaxed(&set->vtime, entity->vtime.v);
    }
    entity->boosted = false;
    entity->handicap = 0;
    entity->rate = hv_group_rate(entity->group);
    hv_count(&entity->counters.switches, 1);
    hv_store_relaxed(&queue->run_vtime, entity->vtime.v);
    hv_store_relaxed(&queue->run_since, now.v);
    hv_store_relaxed(&queue->run_rate, entity->rate.v);
    hv_store_seq(&queue->busy, true);
    if (from != queue) {
        hv_count(&entity->counters.migrations, 1);
        hv_count(&queue->stolen, 1);
        /* The last thing: others now lock our queue for it. */
        hv_store_release(&entity->home, queue);
    }
}

/* The first in @from that @queue's pCPU may run, and whose group has a budget; or NULL. */
static struct hv_sched_entity *take_first(struct hv_runqueue *from, struct hv_runqueue *queue,
                                          hv_ns *slice_end_out)
{
    hv_ns now = hv_clock_now(queue->set->clock);
    struct hv_sched_entity *taken = NULL;
    struct hv_list *next;

    hv_lock_take(&from->lock);
    for (struct hv_list *node = from->ready.next; !taken && node != &from->ready; node = next) {
        struct hv_sched_entity *entity = hv_list_entry(node, struct hv_sched_entity, link);

        next = node->next;
        if (hv_group_allows(entity->group, queue->index)) {
            uint64_t given = reserve_locked(from, queue, entity, now);

            if (given > 0) {
                start_locked(from, queue, entity, now);
                *slice_end_out = hv_ns_add(now, given);
                taken = entity;
            }
        }
    }
    hv_lock_drop(&from->lock);
    return taken;
}

/*
 * The queue with the youngest head, our own with a head start; NULL when all but those in @tried
 * are empty. Who was boosted in our own goes first.
 */
static struct hv_runqueue *youngest_queue(struct hv_runqueue *queue,
                                          const struct hv_pcpu_mask *tried)
{
    struct hv_runqueues *set = queue->set;
    struct hv_runqueue *best = NULL;
    hv_vtime best_head = {0};

    for (unsigned i = 0; i < set->count; i++) {
        unsigned index = (queue->index + i) % set->count;
        struct hv_runqueue *other = &set->queue[index];
        hv_vtime head;

        if (hv_load_seq(&other->waiting) == 0 || (tried->word[index / 64] >> index % 64 & 1)) {
            continue;
        }
        head.v = hv_load_relaxed(&other->head);
        if (other == queue) {
            hv_vrate rate = {hv_load_relaxed(&other->head_rate)};

            head.v -= hv_credit_cost(rate, set->tuning.home_ns);
        }
        if (!best || hv_vtime_before(head, best_head)) {
            best = other;
            best_head = head;
        }
        if (other == queue && hv_load_relaxed(&other->head_boosted)) {
            break;
        }
    }
    return best;
}

static bool anybody_waits(const struct hv_runqueues *set)
{
    bool waits = false;

    for (unsigned i = 0; !waits && i < set->count; i++) {
        waits = hv_load_seq(&set->queue[i].waiting) > 0;
    }
    return waits;
}

/* Let what was picked run for longer, when its slice would end for nobody. Invariant (5). */
static void maybe_alone(struct hv_runqueue *queue)
{
    uint64_t since = hv_load_relaxed(&queue->run_since);

    if (anybody_waits(queue->set)) {
        return;
    }
    HV_RACE("sched.pick.alone");
    hv_store_seq(&queue->alone_until, since + queue->set->tuning.alone_ns);
    if (anybody_waits(queue->set)) {
        runqueue_end_alone(queue, (hv_ns){since});
    }
}

struct hv_sched_entity *hv_runqueue_pick(struct hv_runqueue *queue, hv_ns *slice_end_out)
{
    struct hv_sched_entity *entity = NULL;
    struct hv_pcpu_mask tried = {{0}};
    struct hv_runqueue *from;

    /* Another may be faster, or none there may run here; then the next. */
    while (!entity && (from = youngest_queue(queue, &tried))) {
        HV_RACE("sched.pick.chosen");
        entity = take_first(from, queue, slice_end_out);
        tried.word[from->index / 64] |= UINT64_C(1) << from->index % 64;
    }
    /* What is of a budget ends with it. */
    if (entity && entity->reserved_ns == 0) {
        maybe_alone(queue);
    }
    return entity;
}

/* True when somebody waits whom @queue's pCPU may run. */
static bool anything_for(struct hv_runqueue *queue)
{
    struct hv_runqueues *set = queue->set;
    bool found = false;

    for (unsigned i = 0; !found && i < set->count; i++) {
        struct hv_runqueue *other = &set->queue[i];

        if (hv_load_seq(&other->waiting) == 0) {
            continue;
        }
        hv_lock_take(&other->lock);
        hv_list_for_each(node, &other->ready) {
            found |= hv_group_allows(hv_list_entry(node, struct hv_sched_entity, link)->group,
                                     queue->index);
        }
        hv_lock_drop(&other->lock);
    }
    return found;
}

bool hv_runqueue_idle(struct hv_runqueue *queue)
{
    /* Invariant (4): idle first, then a last look at all queues. */
    hv_store_seq(&queue->idle, 1);
    HV_RACE("sched.worker.idle");
    return !anything_for(queue);
}

void hv_runqueue_awake(struct hv_runqueue *queue)
{
    hv_store_seq(&queue->idle, 0);
}

/* ---- the end of a slice, and of everything ---- */

/* The entity has run until @now: what it costs. */
static void charge_locked(struct hv_runqueue *queue, struct hv_sched_entity *entity, hv_ns now)
{
    struct hv_runqueues *set = queue->set;
    uint64_t ran = hv_ns_before(now, entity->since) ? 0 : now.v - entity->since.v;
    hv_vrate rate = hv_group_rate(entity->group);
    uint64_t slice_ns = set->tuning.slice_ns;
    struct runqueue_standing other;

    /* The dearer of beginning and end: siblings that go to sleep just before the reckoning, or come
     * just after the beginning, save it nothing. */
    rate.v = rate.v > entity->rate.v ? rate.v : entity->rate.v;
    entity->vtime.v += hv_credit_cost(rate, ran);
    if (runqueue_youngest(set, entity->group, false, now, &other)) {
        entity->vtime = hv_credit_lift(entity->vtime, other.vtime, other.rate, slice_ns);
        entity->vtime = hv_credit_forgive(entity->vtime, other.vtime, rate, slice_ns);
    } else if (runqueue_youngest(set, entity->group, true, now, &other)) {
        entity->vtime = hv_credit_forgive(entity->vtime, other.vtime, rate, slice_ns);
    }
    hv_group_return(entity->group, entity->reserved_ns, ran);
}

/*
 * A wake found that one halting, when another had been given this pCPU: all but the first wait here,
 * and who came last went by no idle pCPU.
 */
static struct hv_runqueue *find_other_locked(struct hv_runqueue *queue)
{
    struct hv_runqueue *taker = NULL;

    for (struct hv_list *node = queue->ready.next->next; !taker && node != &queue->ready;
         node = node->next) {
        taker =
            runqueue_find_taker(queue, hv_list_entry(node, struct hv_sched_entity, link)->group);
    }
    return taker;
}

void hv_runqueue_put_back(struct hv_runqueue *queue, struct hv_sched_entity *entity,
                          enum hv_sched_verdict verdict)
{
    hv_ns now = hv_clock_now(queue->set->clock);
    struct hv_runqueue *elsewhere = NULL;
    bool wake_retirers = false;

    HV_RACE("sched.put-back");
    hv_lock_take(&queue->lock);
    hv_store_relaxed(&queue->busy, false);
    hv_store_seq(&queue->alone_until, 0);
    charge_locked(queue, entity, now);
    if (hv_load_relaxed(&queue->preempt_at) != UINT64_MAX) {
        hv_count(&entity->counters.preempted, 1);
        hv_store_seq(&queue->preempt_at, UINT64_MAX);
    }
    if (hv_load_relaxed(&entity->retiring)) {
        runqueue_change_state(entity, HV_SCHED_STATE_RETIRED, now);
        hv_add_seq(&queue->turns, 1);
        wake_retirers = queue->retirers > 0;
    } else if (verdict != HV_SCHED_YIELD && !hv_load_relaxed(&entity->wake_pending)) {
        runqueue_change_state(entity, HV_SCHED_STATE_BLOCKED, now);
        entity->halted = verdict == HV_SCHED_HALT;
        entity->handicap = 0;
    } else {
        runqueue_change_state(entity, HV_SCHED_STATE_READY, now);
        entity->put_off = verdict == HV_SCHED_YIELD;
        runqueue_insert_locked(queue, entity);
        if (!hv_group_allows(entity->group, queue->index)) {
            elsewhere = runqueue_find_taker(queue, entity->group);
        } else if (verdict != HV_SCHED_YIELD && hv_load_relaxed(&queue->waiting) > 1) {
            elsewhere = find_other_locked(queue);
        }
    }
    hv_lock_drop(&queue->lock);
    /* From here on a retired entity may be gone. */
    if (wake_retirers) {
        hv_futex_wake(&queue->turns, EVERYBODY);
    }
    if (elsewhere) {
        runqueue_notify(elsewhere);
    }
}

/* Wait until a slice ends, in which the entity is to retire. The home is locked, before and after. */
HV_NO_TSA static void await_turn_locked(struct hv_runqueue *home, struct hv_sched_entity *entity)
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

HV_NO_TSA void hv_runqueue_retire(struct hv_sched_entity *entity)
{
    struct hv_runqueue *home;

    hv_lock_check_wait(HV_RANK_DEVICE, "the end of a slice");
    home = runqueue_lock_home(entity);
    /* A running entity does not change homes, so the lock stays the right one. */
    while (entity->state == HV_SCHED_STATE_RUNNING) {
        await_turn_locked(home, entity);
    }
    if (entity->state == HV_SCHED_STATE_READY) {
        runqueue_remove_locked(home, entity);
    }
    if (entity->state != HV_SCHED_STATE_RETIRED) {
        runqueue_change_state(entity, HV_SCHED_STATE_RETIRED, hv_clock_now(home->set->clock));
    }
    hv_lock_drop(&home->lock);
}
