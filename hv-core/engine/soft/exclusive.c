/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Keeping a domain's other vCPUs out of guest code, for locked accesses that no single locked
 * instruction of the host can do: across pages or cache lines, to a device.
 *
 *     begin   takes the lock, says `active`, rings everybody and waits until each is not IN_GUEST
 *             or parked
 *     park    at a block's edge, on entry, and by begin itself before it takes the lock: says
 *             `parked`, waits for the lock to be free
 *     end     drops the lock
 *
 * Two that begin at once do not deadlock: the second is parked while it waits for the first. None
 * goes OUTSIDE: what begin's caller has looked up stays good, because a flush that somebody asks
 * for meanwhile is not acknowledged before the next edge. (Nobody who waits for such a flush holds
 * a lock that the exclusive access may need: HV_RANK_FLUSH_WAIT is above HV_RANK_DEVICE.)
 *
 * Entry: the mode is published, then `active` is read; here `active` is published, then modes are
 * read. Both are sequentially consistent, so one sees the other.
 */
#include "engine/soft/access-private.h"

void soft_exclusive_init(struct soft_exclusive *exclusive)
{
    *exclusive = (struct soft_exclusive){0};
    hv_lock_init(&exclusive->lock, HV_RANK_EXCLUSIVE, "engine.exclusive", 0);
}

void soft_exclusive_finish(struct soft_exclusive *exclusive)
{
    hv_lock_finish(&exclusive->lock);
}

static void take_parked(struct hv_engine_vcpu *vcpu) HV_ACQUIRES(&vcpu->domain->exclusive.lock)
{
    _Atomic uint64_t *parked = &vcpu->domain->exclusive.parked;

    hv_or_seq(parked, HV_BIT(vcpu->index));
    /* Wakes one that waits in wait_for(). A waiter for a flush looks at the flush time and waits
     * on. */
    hv_doorbell_acknowledge(vcpu->bell);
    hv_lock_take(&vcpu->domain->exclusive.lock);
    hv_and_seq(parked, ~HV_BIT(vcpu->index));
}

void soft_exclusive_park(struct hv_engine_vcpu *vcpu)
{
    take_parked(vcpu);
    hv_lock_drop(&vcpu->domain->exclusive.lock);
}

static void wait_for(const struct soft_exclusive *exclusive, const struct hv_holder *holder)
{
    for (;;) {
        uint32_t since = hv_doorbell_acknowledged(holder->bell);

        if (!hv_doorbell_in_guest(holder->bell) ||
            (hv_load_seq(&exclusive->parked) & HV_BIT(holder->index))) {
            return;
        }
        hv_doorbell_wait(holder->bell, since);
    }
}

void soft_exclusive_begin(struct hv_engine_vcpu *vcpu)
{
    struct soft_exclusive *exclusive = &vcpu->domain->exclusive;
    struct hv_holder *const *holder = vcpu->memory->holder;

    take_parked(vcpu);
    hv_store_seq(&exclusive->active, 1);
    for (unsigned i = 0; i < HV_MAX_VCPUS; i++) {
        if (holder[i] && i != vcpu->index) {
            hv_doorbell_ring(holder[i]->bell, HV_REQUEST_EXCLUSIVE);
        }
    }
    for (unsigned i = 0; i < HV_MAX_VCPUS; i++) {
        if (holder[i] && i != vcpu->index) {
            wait_for(exclusive, holder[i]);
        }
    }
}

void soft_exclusive_end(struct hv_engine_vcpu *vcpu)
{
    hv_store_seq(&vcpu->domain->exclusive.active, 0);
    hv_lock_drop(&vcpu->domain->exclusive.lock);
}
