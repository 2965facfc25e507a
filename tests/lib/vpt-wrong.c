/* SPDX-License-Identifier: GPL-3.0-or-later */
/* See vpt-wrong.h. */
#include "lib/vpt-wrong.h"

#include "sync/race.h"

HV_NO_TSA static bool enter_vcpu(struct hv_vpt_vcpu *vcpu)
{
    hv_lock_take(&vcpu->tm_lock);
    return true;
}

HV_NO_TSA static void lock_vcpu(struct hv_vpt_vcpu *vcpu)
{
    hv_lock_take(&vcpu->tm_lock);
}

HV_NO_TSA static void unlock_vcpu(struct hv_vpt_vcpu *vcpu)
{
    hv_lock_drop(&vcpu->tm_lock);
}

HV_NO_TSA static struct hv_vpt_vcpu *lock_timer(struct hv_vpt *vpt)
{
    struct hv_vpt_vcpu *vcpu = hv_load_acquire(&vpt->vcpu);

    HV_RACE("vpt-wrong.lock.read");
    hv_lock_take(&vcpu->tm_lock);
    return vcpu;
}

HV_NO_TSA static void unlock_read_again(struct hv_vpt *vpt, struct hv_vpt_vcpu *vcpu)
{
    (void)vcpu;
    hv_lock_drop(&hv_load_acquire(&vpt->vcpu)->tm_lock);
}

HV_NO_TSA static void unlock_remembered(struct hv_vpt *vpt, struct hv_vpt_vcpu *vcpu)
{
    (void)vpt;
    hv_lock_drop(&vcpu->tm_lock);
}

HV_NO_TSA static struct hv_vpt_vcpu *lock_when_settled(struct hv_vpt *vpt)
{
    struct hv_vpt_vcpu *vcpu;

    while ((vcpu = hv_load_acquire(&vpt->vcpu)) == HV_VPT_MIGRATING) {
        HV_RACE("vpt-wrong.lock.spin");
    }
    hv_lock_take(&vcpu->tm_lock);
    return vcpu;
}

HV_NO_TSA static bool move_by_destination(struct hv_vpt *vpt, struct hv_vpt_vcpu *to)
{
    bool pending;

    hv_lock_take(&to->tm_lock);
    pending = hv_vpt_unlink_locked(vpt, hv_load_relaxed(&vpt->vcpu));
    hv_vpt_link_locked(vpt, to, pending);
    hv_lock_drop(&to->tm_lock);
    return pending;
}

HV_NO_TSA static bool move_by_both(struct hv_vpt *vpt, struct hv_vpt_vcpu *to)
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

static bool move_as_pend(struct hv_vpt *vpt, struct hv_vpt_vcpu *to)
{
    return hv_vpt_pend.move(vpt, to);
}

const struct hv_vpt_strategy vpt_spinning = {
    .name = "spinning",
    .enter_vcpu = enter_vcpu,
    .lock_vcpu = lock_vcpu,
    .unlock_vcpu = unlock_vcpu,
    .lock_timer = lock_when_settled,
    .unlock_timer = unlock_remembered,
    .move = move_as_pend,
};

const struct hv_vpt_strategy vpt_legacy = {
    .name = "legacy",
    .enter_vcpu = enter_vcpu,
    .lock_vcpu = lock_vcpu,
    .unlock_vcpu = unlock_vcpu,
    .lock_timer = lock_timer,
    .unlock_timer = unlock_read_again,
    .move = move_by_destination,
};

const struct hv_vpt_strategy vpt_remember_only = {
    .name = "remember-only",
    .enter_vcpu = enter_vcpu,
    .lock_vcpu = lock_vcpu,
    .unlock_vcpu = unlock_vcpu,
    .lock_timer = lock_timer,
    .unlock_timer = unlock_remembered,
    .move = move_by_both,
};
