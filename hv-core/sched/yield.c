/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Directed yields and pause loops: see yield.h. */
#include "sched/yield.h"

#include "sched/runqueue-private.h"
#include "sync/race.h"

/* ---- to a known target ---- */

/* Lock @queue and the target's home, in the order of their index. Returns the home. */
HV_NO_TSA static struct hv_runqueue *lock_both(struct hv_runqueue *queue,
                                               struct hv_sched_entity *target)
{
    for (;;) {
        struct hv_runqueue *home = hv_load_acquire(&target->home);

        HV_RACE("sched.yield.home");
        if (home == queue) {
            hv_lock_take(&queue->lock);
        } else {
            hv_lock_take_pair(&queue->lock, &home->lock);
        }
        if (hv_load_acquire(&target->home) == home) {
            return home;
        }
        hv_lock_drop(&queue->lock);
        if (home != queue) {
            hv_lock_drop(&home->lock);
        }
    }
}

/* Has it run so far ahead of those who wait that they would pay for its boost? */
static bool ran_ahead(const struct hv_runqueues *set, const struct hv_sched_entity *target,
                      hv_ns now)
{
    uint64_t most =
        hv_credit_cost(hv_group_rate(target->group), HV_CREDIT_BOOST_SLICES * set->tuning.slice_ns);
    struct runqueue_standing youngest;

    return runqueue_youngest(set, target->group, false, now, &youngest) &&
           hv_vtime_before((hv_vtime){youngest.vtime.v + most}, target->vtime);
}

/* Let @me stand back when it is put into the queue. */
static void penalise_locked(struct hv_runqueue *queue, struct hv_sched_entity *me,
                            const struct hv_sched_entity *target, hv_ns now)
{
    const struct hv_sched_tuning *tuning = &queue->set->tuning;
    uint64_t penalty = hv_credit_penalty(tuning->slice_ns, tuning->slice_min_ns,
                                         hv_load_relaxed(&queue->waiting) + 1);

    if (!tuning->penalty ||
        (me->penalised_at.v && now.v - me->penalised_at.v < HV_CREDIT_PENALTY_NS)) {
        return;
    }
    if (target->yielded_to == me && now.v - target->yielded_at.v < HV_CREDIT_REVERSE_NS) {
        penalty /= 2;
    }
    me->handicap = hv_credit_cost(me->rate, penalty);
    me->penalised_at = now;
}

/* Put the target, which waits in @home, first in @queue; or in @home where it may not move. */
static void boost_locked(struct hv_runqueue *queue, struct hv_runqueue *home,
                         struct hv_sched_entity *target, hv_ns now)
{
    runqueue_remove_locked(home, target);
    target->boosted = true;
    hv_count(&target->counters.boosts, 1);
    /* Moving is cheap: what a vCPU has cached on a pCPU is the host's, and small beside a slice. */
    if (hv_group_allows(target->group, queue->index)) {
        runqueue_insert_locked(queue, target);
        if (home != queue) {
            hv_count(&target->counters.migrations, 1);
            hv_store_release(&target->home, queue);
        }
        return;
    }
    runqueue_insert_locked(home, target);
    runqueue_preempt_locked(home, now);
}

HV_NO_TSA bool hv_runqueue_yield_to(struct hv_runqueue *queue, struct hv_sched_entity *me,
                                    struct hv_sched_entity *target)
{
    struct hv_runqueues *set = queue->set;
    struct hv_runqueue *home;
    bool yielded = false;
    hv_ns now;

    hv_count(&me->counters.yields_attempted, 1);
    /* Under the policy `host` the target has a set of its own, for ever: who runs is not ours to say. */
    if (!set->tuning.boost || target == me || !hv_load_relaxed(&target->ready) ||
        hv_load_acquire(&target->home)->set != set) {
        return false;
    }
    HV_RACE("sched.yield.ready");
    home = lock_both(queue, target);
    now = hv_clock_now(set->clock);
    /* Again, now that it cannot change; and where nobody runs, it is about to. */
    if (target->state == HV_SCHED_STATE_READY && !target->parked && !target->boosted &&
        hv_load_relaxed(&home->busy) && !ran_ahead(set, target, now)) {
        boost_locked(queue, home, target, now);
        penalise_locked(queue, me, target, now);
        me->yielded_to = target;
        me->yielded_at = now;
        /* It is @me's thread that asks: nobody needs to be told. */
        hv_store_seq(&queue->preempt_at, now.v);
        hv_count(&me->counters.yields_successful, 1);
        yielded = true;
    }
    hv_lock_drop(&queue->lock);
    if (home != queue) {
        hv_lock_drop(&home->lock);
    }
    return yielded;
}

/* ---- to a likely one ---- */

/* Why a sibling may be what a pause loop waits for, the best reason first. */
enum reason {
    REASON_IPI,     /* it was sent an interrupt, and an answer is waited for */
    REASON_PENDING, /* it has an interrupt to take */
    REASON_KERNEL,  /* it was interrupted where locks are held */
    REASONS,
};

static bool has_reason(const struct hv_sched_entity *me, const struct hv_sched_entity *other,
                       enum reason reason, hv_ns now)
{
    switch (reason) {
    case REASON_IPI:
        return (hv_load_relaxed(&me->ipi_to) >> other->index & 1) &&
               now.v - hv_load_relaxed(&me->ipi_ns) < HV_YIELD_IPI_NS;
    case REASON_PENDING:
        return hv_load_relaxed(&other->bell->requests) & HV_REQUEST_EVENT;
    case REASON_KERNEL:
        return hv_load_relaxed(&other->kernel_mode);
    case REASONS:
        break;
    }
    return false;
}

/*
 * One that spins itself is helped every other time that it is looked at: it may be what the others
 * wait for, and mostly is not. The memory of that is @me's.
 */
static bool eligible(struct hv_sched_entity *me, const struct hv_sched_entity *other)
{
    uint64_t bit = UINT64_C(1) << other->index;

    if (!hv_load_relaxed(&other->in_spin)) {
        return true;
    }
    me->spin_toggle ^= bit;
    return !(me->spin_toggle & bit);
}

/* Try those who have that reason, in turns. True when one took the place, or @tries are used up. */
static bool try_reason(struct hv_runqueue *queue, struct hv_sched_entity *me, enum reason reason,
                       hv_ns now, unsigned *tries, bool *yielded_out)
{
    struct hv_sched_group *group = me->group;
    unsigned last = hv_load_relaxed(&group->last_boosted);

    for (unsigned i = 1; i <= HV_MAX_VCPUS; i++) {
        unsigned index = (last + i) % HV_MAX_VCPUS;
        struct hv_sched_entity *other = group->member[index];

        if (!other || other == me || !hv_load_relaxed(&other->ready) ||
            !has_reason(me, other, reason, now) || !eligible(me, other)) {
            continue;
        }
        *yielded_out = hv_runqueue_yield_to(queue, me, other);
        if (*yielded_out) {
            hv_store_relaxed(&group->last_boosted, index);
            return true;
        }
        if (--*tries == 0) {
            return true;
        }
    }
    return false;
}

bool hv_runqueue_on_spin(struct hv_runqueue *queue, struct hv_sched_entity *me)
{
    hv_ns now = hv_clock_now(queue->set->clock);
    unsigned tries = HV_YIELD_TRIES;
    bool yielded = false;

    HV_RACE("sched.spin.looks");
    hv_count(&me->counters.spins, 1);
    hv_store_relaxed(&me->in_spin, true);
    if (me->pause_window < HV_YIELD_WINDOW_MAX) {
        me->pause_window *= 2;
    }
    for (unsigned reason = 0; reason < REASONS; reason++) {
        if (try_reason(queue, me, (enum reason)reason, now, &tries, &yielded)) {
            break;
        }
    }
    HV_RACE("sched.spin.looked");
    return yielded;
}

void hv_entity_note_ipi(struct hv_sched_entity *me, unsigned target, hv_ns now)
{
    uint64_t last = hv_load_relaxed(&me->ipi_ns);
    uint64_t to = now.v - last < HV_YIELD_IPI_NS ? hv_load_relaxed(&me->ipi_to) : 0;

    hv_store_relaxed(&me->ipi_to, to | UINT64_C(1) << target);
    hv_store_relaxed(&me->ipi_ns, now.v);
}
