/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The right strategies: see vpt-strategy.h. */
#include "platform/vpt-strategy.h"

#include "base/assert.h"
#include "sync/race.h"

bool hv_vpt_unlink_locked(struct hv_vpt *vpt, struct hv_vpt_vcpu *from)
{
    uint64_t bit = hv_vpt_bit(vpt);

    hv_list_unlink(&vpt->link);
    return hv_and_seq(&from->pending, ~bit) & bit;
}

void hv_vpt_link_locked(struct hv_vpt *vpt, struct hv_vpt_vcpu *to, bool pending)
{
    hv_list_push_tail(&to->timers, &vpt->link);
    if (pending) {
        /* Pairs with the look at the word in class 1. */
        hv_or_seq(&to->pending, hv_vpt_bit(vpt));
    }
    hv_timer_rehome(&vpt->timer, to->queue);
    /* Last: from here on others lock the new vCPU for it. */
    hv_store_seq(&vpt->vcpu, to);
}

/* ---- class 1 ---- */

HV_NO_TSA static void tm_lock(struct hv_vpt_vcpu *vcpu)
{
    hv_lock_take(&vcpu->tm_lock);
}

HV_NO_TSA static void tm_unlock(struct hv_vpt_vcpu *vcpu)
{
    hv_lock_drop(&vcpu->tm_lock);
}

HV_NO_TSA static bool tm_enter(struct hv_vpt_vcpu *vcpu)
{
    hv_lock_take(&vcpu->tm_lock);
    return true;
}

HV_NO_TSA static bool word_enter(struct hv_vpt_vcpu *vcpu)
{
    /* Pairs with the setting of a bit, after which the vCPU is kicked: it comes here again. */
    if (HV_LIKELY(hv_load_acquire(&vcpu->pending) == 0)) {
        return false;
    }
    hv_lock_take(&vcpu->tm_lock);
    return true;
}

HV_NO_TSA static void shared_lock(struct hv_vpt_vcpu *vcpu)
{
    hv_rwlock_take_read(&vcpu->set->migrate);
    hv_lock_take(&vcpu->tm_lock);
}

HV_NO_TSA static bool shared_enter(struct hv_vpt_vcpu *vcpu)
{
    shared_lock(vcpu);
    return true;
}

HV_NO_TSA static void shared_unlock(struct hv_vpt_vcpu *vcpu)
{
    hv_lock_drop(&vcpu->tm_lock);
    hv_rwlock_drop_read(&vcpu->set->migrate);
}

/* ---- classes 2 and 3: a lock over all timers' places ---- */

/* Nobody moves it: its vCPU is read once. */
HV_NO_TSA static struct hv_vpt_vcpu *lock_settled(struct hv_vpt *vpt)
{
    struct hv_vpt_vcpu *vcpu = hv_load_acquire(&vpt->vcpu);

    hv_lock_take(&vcpu->tm_lock);
    return vcpu;
}

HV_NO_TSA static struct hv_vpt_vcpu *migrate_lock_timer(struct hv_vpt *vpt)
{
    hv_rwlock_take_read(&vpt->set->migrate);
    return lock_settled(vpt);
}

HV_NO_TSA static void migrate_unlock_timer(struct hv_vpt *vpt, struct hv_vpt_vcpu *vcpu)
{
    hv_lock_drop(&vcpu->tm_lock);
    hv_rwlock_drop_read(&vpt->set->migrate);
}

/* One after the other: never two at once. */
HV_NO_TSA static bool move_by_tm(struct hv_vpt *vpt, struct hv_vpt_vcpu *to)
{
    struct hv_vpt_vcpu *from = hv_load_relaxed(&vpt->vcpu);
    bool pending;

    hv_lock_take(&from->tm_lock);
    pending = hv_vpt_unlink_locked(vpt, from);
    hv_lock_drop(&from->tm_lock);
    hv_lock_take(&to->tm_lock);
    hv_vpt_link_locked(vpt, to, pending);
    hv_lock_drop(&to->tm_lock);
    return pending;
}

HV_NO_TSA static bool xsa336_move(struct hv_vpt *vpt, struct hv_vpt_vcpu *to)
{
    struct hv_vpt_vcpu *from = hv_load_relaxed(&vpt->vcpu);
    bool pending;

    hv_rwlock_take_write(&vpt->set->migrate);
    pending = hv_vpt_unlink_locked(vpt, from);
    hv_vpt_link_locked(vpt, to, pending);
    hv_rwlock_drop_write(&vpt->set->migrate);
    return pending;
}

HV_NO_TSA static bool mid_move(struct hv_vpt *vpt, struct hv_vpt_vcpu *to)
{
    bool pending;

    hv_rwlock_take_write(&vpt->set->migrate);
    pending = move_by_tm(vpt, to);
    hv_rwlock_drop_write(&vpt->set->migrate);
    return pending;
}

/* ---- a lock a timer ---- */

HV_NO_TSA static struct hv_vpt_vcpu *pertimer_lock_timer(struct hv_vpt *vpt)
{
    hv_lock_take(&vpt->lock);
    return lock_settled(vpt);
}

HV_NO_TSA static void pertimer_unlock_timer(struct hv_vpt *vpt, struct hv_vpt_vcpu *vcpu)
{
    hv_lock_drop(&vcpu->tm_lock);
    hv_lock_drop(&vpt->lock);
}

HV_NO_TSA static bool pertimer_move(struct hv_vpt *vpt, struct hv_vpt_vcpu *to)
{
    bool pending;

    hv_lock_take(&vpt->lock);
    pending = move_by_tm(vpt, to);
    hv_lock_drop(&vpt->lock);
    return pending;
}

/* ---- a lock a thread ---- */

static struct hv_lock *own_slot(struct hv_vpt_set *set)
{
    return &set->slot[hv_thread_id() % HV_VPT_SLOTS].lock;
}

HV_NO_TSA static struct hv_vpt_vcpu *brlock_lock_timer(struct hv_vpt *vpt)
{
    hv_lock_take(own_slot(vpt->set));
    return lock_settled(vpt);
}

HV_NO_TSA static void brlock_unlock_timer(struct hv_vpt *vpt, struct hv_vpt_vcpu *vcpu)
{
    hv_lock_drop(&vcpu->tm_lock);
    hv_lock_drop(own_slot(vpt->set));
}

HV_NO_TSA static bool brlock_move(struct hv_vpt *vpt, struct hv_vpt_vcpu *to)
{
    struct hv_vpt_set *set = vpt->set;
    bool pending;

    hv_lock_take_pair(&set->slot[0].lock, &set->slot[1].lock);
    pending = move_by_tm(vpt, to);
    hv_lock_drop(&set->slot[1].lock);
    hv_lock_drop(&set->slot[0].lock);
    return pending;
}

/* ---- lock, then look whether that was right ---- */

/* The mover holds its device's lock, and takes one more tm_lock: it does not take long. */
static void await_moved(struct hv_vpt *vpt)
{
    struct hv_eventcount *moved = &vpt->set->moved;
    uint32_t ticket = hv_eventcount_listen(moved);

    if (hv_load_seq(&vpt->vcpu) == HV_VPT_MIGRATING) {
        hv_eventcount_wait(moved, ticket, HV_NS_NEVER);
    } else {
        hv_eventcount_cancel(moved);
    }
}

/*
 * The mover says that it is on its way before he lets go of the old lock, so that nobody who has taken
 * that finds it there still.
 */
HV_NO_TSA static struct hv_vpt_vcpu *retry_lock_timer(struct hv_vpt *vpt)
{
    for (;;) {
        struct hv_vpt_vcpu *vcpu = hv_load_acquire(&vpt->vcpu);

        HV_RACE("vpt.lock.read");
        if (vcpu == HV_VPT_MIGRATING) {
            await_moved(vpt);
            continue;
        }
        hv_lock_take(&vcpu->tm_lock);
        if (hv_load_acquire(&vpt->vcpu) == vcpu) {
            return vcpu;
        }
        hv_lock_drop(&vcpu->tm_lock);
    }
}

/* The vCPU that was locked, wherever the timer is by now: a class 1 user may not have let it go. */
HV_NO_TSA static void retry_unlock_timer(struct hv_vpt *vpt, struct hv_vpt_vcpu *vcpu)
{
    (void)vpt;
    hv_lock_drop(&vcpu->tm_lock);
}

HV_NO_TSA static bool retry_move(struct hv_vpt *vpt, struct hv_vpt_vcpu *to)
{
    struct hv_vpt_vcpu *from = hv_load_relaxed(&vpt->vcpu);
    bool pending;

    hv_lock_take(&from->tm_lock);
    pending = hv_vpt_unlink_locked(vpt, from);
    hv_store_seq(&vpt->vcpu, HV_VPT_MIGRATING);
    hv_lock_drop(&from->tm_lock);
    HV_RACE("vpt.move.between");
    hv_lock_take(&to->tm_lock);
    hv_vpt_link_locked(vpt, to, pending);
    hv_lock_drop(&to->tm_lock);
    /* Pairs with await_moved(). */
    hv_eventcount_signal(&vpt->set->moved);
    return pending;
}

static const struct hv_vpt_strategy xsa336 = {
    .name = "xsa336",
    .enter_vcpu = shared_enter,
    .lock_vcpu = shared_lock,
    .unlock_vcpu = shared_unlock,
    .lock_timer = migrate_lock_timer,
    .unlock_timer = migrate_unlock_timer,
    .move = xsa336_move,
};

static const struct hv_vpt_strategy mid = {
    .name = "mid",
    .enter_vcpu = tm_enter,
    .lock_vcpu = tm_lock,
    .unlock_vcpu = tm_unlock,
    .lock_timer = migrate_lock_timer,
    .unlock_timer = migrate_unlock_timer,
    .move = mid_move,
};

static const struct hv_vpt_strategy pertimer = {
    .name = "pertimer",
    .enter_vcpu = tm_enter,
    .lock_vcpu = tm_lock,
    .unlock_vcpu = tm_unlock,
    .lock_timer = pertimer_lock_timer,
    .unlock_timer = pertimer_unlock_timer,
    .move = pertimer_move,
};

static const struct hv_vpt_strategy brlock = {
    .name = "brlock",
    .enter_vcpu = tm_enter,
    .lock_vcpu = tm_lock,
    .unlock_vcpu = tm_unlock,
    .lock_timer = brlock_lock_timer,
    .unlock_timer = brlock_unlock_timer,
    .move = brlock_move,
};

static const struct hv_vpt_strategy retry = {
    .name = "retry",
    .enter_vcpu = tm_enter,
    .lock_vcpu = tm_lock,
    .unlock_vcpu = tm_unlock,
    .lock_timer = retry_lock_timer,
    .unlock_timer = retry_unlock_timer,
    .move = retry_move,
};

const struct hv_vpt_strategy hv_vpt_pend = {
    .name = "pend",
    .enter_vcpu = word_enter,
    .lock_vcpu = tm_lock,
    .unlock_vcpu = tm_unlock,
    .lock_timer = retry_lock_timer,
    .unlock_timer = retry_unlock_timer,
    .move = retry_move,
};

const struct hv_vpt_strategy *const hv_vpt_strategies[HV_VPT_STRATEGIES] = {
    &hv_vpt_pend, &retry, &mid, &xsa336, &pertimer, &brlock,
};
