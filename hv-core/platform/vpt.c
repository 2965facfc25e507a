/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Timers and their vCPUs: the grid, firing, the exit path, moves. Missed ticks are in vpt-policy.c. */
#include "platform/vpt.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "platform/tick.h"
#include "platform/vpt-private.h"
#include "platform/vpt-strategy.h"
#include "sync/race.h"

/* ---- the vCPUs of a machine ---- */

static struct hv_vpt_vcpu *make_vcpu(struct hv_vpt_set *set, unsigned index,
                                     struct hv_timer_queue *queue)
{
    struct hv_vpt_vcpu *vcpu = hv_alloc_aligned(_Alignof(struct hv_vpt_vcpu), sizeof(*vcpu));

    if (vcpu) {
        hv_lock_init(&vcpu->tm_lock, HV_RANK_TM, "platform.tm", index);
        hv_list_init(&vcpu->timers);
        vcpu->set = set;
        vcpu->index = index;
        vcpu->queue = queue;
    }
    return vcpu;
}

int hv_vpt_set_create(const struct hv_vpt_set_config *config, struct hv_vpt_set **set_out)
{
    struct hv_vpt_set *set = hv_alloc_aligned(_Alignof(struct hv_vpt_set), sizeof(*set));

    *set_out = NULL;
    if (!set) {
        return -ENOMEM;
    }
    set->strategy = config->strategy ? config->strategy : &hv_vpt_pend;
    set->kick = config->kick;
    set->context = config->context;
    set->clock = config->clock ? config->clock : config->queues[0]->clock;
    hv_rwlock_init(&set->migrate, HV_RANK_VPT, "platform.vpt.migrate", 0);
    for (unsigned i = 0; i < HV_VPT_SLOTS; i++) {
        hv_lock_init(&set->slot[i].lock, HV_RANK_VPT, "platform.vpt.slot", i);
    }
    hv_eventcount_init(&set->moved);
    set->vcpu = hv_alloc(config->vcpus, sizeof(*set->vcpu));
    while (set->vcpu && set->count < config->vcpus) {
        set->vcpu[set->count] = make_vcpu(set, set->count, config->queues[set->count]);
        if (!set->vcpu[set->count]) {
            break;
        }
        set->count++;
    }
    if (set->count < config->vcpus) {
        hv_vpt_set_destroy(set);
        return -ENOMEM;
    }
    *set_out = set;
    return 0;
}

void hv_vpt_set_destroy(struct hv_vpt_set *set)
{
    if (!set) {
        return;
    }
    for (unsigned i = 0; set->vcpu && i < set->count; i++) {
        HV_ASSERT(!hv_list_linked(&set->vcpu[i]->timers));
        hv_lock_finish(&set->vcpu[i]->tm_lock);
        hv_free(set->vcpu[i]);
    }
    for (unsigned i = 0; i < HV_VPT_SLOTS; i++) {
        hv_lock_finish(&set->slot[i].lock);
    }
    hv_rwlock_finish(&set->migrate);
    hv_free(set->vcpu);
    hv_free(set);
}

/* ---- firing, and the exit path ---- */

static void vpt_fire(struct hv_timer *timer, void *context)
{
    struct hv_vpt *vpt = context;
    const struct hv_vpt_strategy *strategy;
    struct hv_vpt_vcpu *vcpu;

    (void)timer;
    /* Halted: not due, and not armed, before hv_vpt_resume(). */
    if (hv_load_seq(&vpt->halted)) {
        return;
    }
    if (!vpt->set) {
        vpt->expired(vpt->context);
        return;
    }
    strategy = vpt->set->strategy;
    vcpu = strategy->lock_timer(vpt);
    /* Pairs with the exit path's look. A callback of a previous life does no harm: the device finds
     * that nothing is due. */
    hv_or_seq(&vcpu->pending, hv_vpt_bit(vpt));
    HV_RACE("vpt.fire.pending");
    strategy->unlock_timer(vpt, vcpu);
    /* Outside: it may wake a worker. */
    vpt->set->kick(vpt->set->context, vcpu->index);
}

/* The timers that are pending, the earliest first, which are not any more. Returns how many. */
static unsigned take_pending_locked(struct hv_vpt_vcpu *vcpu, struct hv_vpt **due)
{
    uint64_t bits = hv_swap_seq(&vcpu->pending, 0);
    unsigned count = 0;

    hv_list_for_each(node, &vcpu->timers) {
        struct hv_vpt *vpt = hv_list_entry(node, struct hv_vpt, link);
        unsigned at = count;

        if (!(bits & hv_vpt_bit(vpt))) {
            continue;
        }
        for (; at > 0 && hv_load_relaxed(&due[at - 1]->due_ns) > hv_load_relaxed(&vpt->due_ns);
             at--) {
            due[at] = due[at - 1];
        }
        due[at] = vpt;
        count++;
    }
    return count;
}

void hv_vpt_update(struct hv_vpt_set *set, unsigned index)
{
    struct hv_vpt_vcpu *vcpu = set->vcpu[index];
    struct hv_vpt *due[HV_VPT_SOURCES];
    unsigned count;

    if (HV_LIKELY(!set->strategy->enter_vcpu(vcpu))) {
        return;
    }
    count = take_pending_locked(vcpu, due);
    set->strategy->unlock_vcpu(vcpu);
    HV_RACE("vpt.update.chosen");
    /* They may be stopped, started anew or moved by now: what is due the device finds out under its
     * lock. They do not go before the machine's vCPUs have stopped. */
    for (unsigned i = 0; i < count; i++) {
        due[i]->expired(due[i]->context);
    }
}

void hv_vpt_rehome(struct hv_vpt_set *set, unsigned index, struct hv_timer_queue *queue)
{
    struct hv_vpt_vcpu *vcpu = set->vcpu[index];

    set->strategy->lock_vcpu(vcpu);
    if (vcpu->queue != queue) {
        vcpu->queue = queue;
        hv_list_for_each(node, &vcpu->timers) {
            hv_timer_rehome(&hv_list_entry(node, struct hv_vpt, link)->timer, queue);
        }
    }
    set->strategy->unlock_vcpu(vcpu);
}

void hv_vpt_retarget(struct hv_vpt *vpt, unsigned index)
{
    struct hv_vpt_set *set = vpt->set;
    struct hv_vpt_vcpu *to = set->vcpu[index];

    HV_ASSERT(vpt->source != HV_VPT_LAPIC);
    if (hv_load_relaxed(&vpt->vcpu) == to) {
        return;
    }
    hv_count(&vpt->counters.retargets, 1);
    if (set->strategy->move(vpt, to)) {
        set->kick(set->context, index);
    }
}

/* ---- one timer ---- */

const char *hv_vpt_source_name(enum hv_vpt_source source)
{
    static const char *const names[HV_VPT_SOURCES] = {
        [HV_VPT_LAPIC] = "lapic", [HV_VPT_PIT] = "pit0",    [HV_VPT_RTC] = "rtc",
        [HV_VPT_HPET0] = "hpet0", [HV_VPT_HPET1] = "hpet1", [HV_VPT_HPET2] = "hpet2",
        [HV_VPT_PM] = "pm",
    };

    return names[source];
}

static void make_timer(struct hv_vpt *vpt, const struct hv_vpt_set *set, unsigned vcpu,
                       enum hv_rank rank)
{
    vpt->clock = set->clock;
    hv_timer_init(&vpt->timer, set->vcpu[vcpu]->queue, vpt_fire, vpt, rank);
    hv_lock_init(&vpt->lock, HV_RANK_VPT, "platform.vpt", vpt->source);
    hv_list_init(&vpt->link);
    vpt_set_policy(vpt, hv_vpt_default_policy(vpt->source));
}

void hv_vpt_init(struct hv_vpt *vpt, struct hv_vpt_set *set, enum hv_vpt_source source,
                 unsigned index, void (*expired)(void *context), void *context)
{
    struct hv_vpt_vcpu *vcpu = set->vcpu[index];
    /* What the strategy takes for a timer. */
    enum hv_rank rank = set->strategy == &hv_vpt_pend ? HV_RANK_TM : HV_RANK_VPT;

    *vpt =
        (struct hv_vpt){.source = source, .index = index, .expired = expired, .context = context};
    vpt->set = set;
    make_timer(vpt, set, index, rank);
    HV_RACE("vpt.init.made");
    /* Last: whoever goes through the vCPU's timers finds it whole. */
    set->strategy->lock_vcpu(vcpu);
    hv_vpt_link_locked(vpt, vcpu, false);
    set->strategy->unlock_vcpu(vcpu);
}

void hv_vpt_init_plain(struct hv_vpt *vpt, const struct hv_vpt_set *set, enum hv_vpt_source source,
                       void (*expired)(void *context), void *context, enum hv_rank rank)
{
    *vpt = (struct hv_vpt){.source = source, .expired = expired, .context = context};
    make_timer(vpt, set, 0, rank);
    vpt_set_policy(vpt, (struct hv_vpt_policy){.kind = HV_TICK_MERGE});
}

void hv_vpt_finish(struct hv_vpt *vpt)
{
    struct hv_vpt_vcpu *vcpu;

    if (!vpt->clock) {
        return;
    }
    /* First, with no lock held: what runs still takes the vCPU's. */
    hv_timer_finish(&vpt->timer);
    if (vpt->set) {
        vcpu = vpt->set->strategy->lock_timer(vpt);
        (void)hv_vpt_unlink_locked(vpt, vcpu);
        vpt->set->strategy->unlock_timer(vpt, vcpu);
    }
    hv_lock_finish(&vpt->lock);
    vpt->clock = NULL;
}

void vpt_arm(struct hv_vpt *vpt, hv_ns due)
{
    hv_store_relaxed(&vpt->due_ns, due.v);
    hv_store_relaxed(&vpt->running, true);
    hv_timer_arm(&vpt->timer, hv_clock_source_moment(vpt->clock, due));
}

void hv_vpt_rearm(struct hv_vpt *vpt)
{
    if (hv_load_relaxed(&vpt->running)) {
        vpt_arm(vpt, (hv_ns){hv_load_relaxed(&vpt->due_ns)});
    }
}

/* Raise a period to the floor: no guest may have its host do nothing but tick. */
static uint64_t vpt_clamp(struct hv_vpt *vpt, uint64_t ticks, uint32_t hz)
{
    uint64_t floor_ticks = hv_ticks_from_ns(HV_VPT_PERIOD_FLOOR_NS - 1, hz) + 1;

    if (ticks >= floor_ticks) {
        return ticks;
    }
    if (hv_load_relaxed(&vpt->counters.period_clamped) == 0) {
        hv_log_guest(&vpt->log, hv_clock_now(vpt->clock), HV_LOG_LEVEL_INFO,
                     "timer %s of vCPU %u: a period of %llu ns is served as %llu ns",
                     hv_vpt_source_name(vpt->source), vpt->index,
                     (unsigned long long)hv_ticks_to_ns(ticks, hz),
                     (unsigned long long)hv_ticks_to_ns(floor_ticks, hz));
    }
    hv_count(&vpt->counters.period_clamped, 1);
    return floor_ticks;
}

uint64_t vpt_passed(const struct hv_vpt *vpt, hv_ns now)
{
    return hv_ticks_from_ns(now.v - vpt->origin_ns, vpt->hz) / vpt->period_ticks;
}

hv_ns vpt_point(const struct hv_vpt *vpt, uint64_t point)
{
    return (hv_ns){vpt->origin_ns + hv_ticks_to_ns(point * vpt->period_ticks, vpt->hz)};
}

static bool vpt_ticks(const struct hv_vpt *vpt)
{
    return hv_load_relaxed(&vpt->running) && hv_load_relaxed(&vpt->period_ns) != 0;
}

/*
 * A period for the grid. What waits of the one before goes on waiting when the source ticks as it
 * did: its registers were written again, by a guest that missed those ticks before.
 */
static void vpt_set_period(struct hv_vpt *vpt, uint64_t ticks, uint32_t hz)
{
    ticks = vpt_clamp(vpt, ticks, hz);
    if ((!vpt_ticks(vpt) && !vpt->held) || vpt->period_ticks != ticks) {
        vpt_forget(vpt);
    }
    vpt->period_ticks = ticks;
    vpt->hz = hz;
    hv_store_relaxed(&vpt->period_ns, hv_ticks_to_ns(ticks, hz));
}

/*
 * From when on the floor lets it tick: to be started again and again is no way round it. A tick that is
 * ahead of @now came before a record was loaded, with the clock of that.
 */
static hv_ns vpt_floor(const struct hv_vpt *vpt, hv_ns now)
{
    if (vpt->last_tick_ns == 0 || vpt->last_tick_ns > now.v) {
        return (hv_ns){0};
    }
    return (hv_ns){vpt->last_tick_ns + HV_VPT_PERIOD_FLOOR_NS};
}

/* A life of ticks begins, on a grid that is set. */
static void vpt_begin_ticks(struct hv_vpt *vpt, hv_ns first)
{
    vpt->held = false;
    vpt->seen = vpt_passed(vpt, first) - 1;
    vpt_arm(vpt, first);
    hv_vpt_ready(vpt);
}

void hv_vpt_start_grid(struct hv_vpt *vpt, uint64_t origin_ns, uint64_t ticks, uint32_t hz)
{
    hv_ns now = hv_clock_now(vpt->clock);
    hv_ns floor = vpt_floor(vpt, now);

    vpt_set_period(vpt, ticks, hz);
    vpt->origin_ns = origin_ns;
    /* A point after now, and not before the floor. */
    now.v = floor.v > now.v ? floor.v - 1 : now.v;
    vpt_begin_ticks(vpt, vpt_point(vpt, vpt_passed(vpt, now) + 1));
}

void hv_vpt_start(struct hv_vpt *vpt, hv_ns first, uint64_t period_ns)
{
    hv_ns floor;

    if (period_ns == 0) {
        hv_vpt_stop(vpt);
        hv_store_relaxed(&vpt->period_ns, 0);
        vpt_arm(vpt, first);
        return;
    }
    vpt_set_period(vpt, period_ns, (uint32_t)HV_NS_PER_S);
    floor = vpt_floor(vpt, hv_clock_now(vpt->clock));
    if (hv_ns_before(first, floor)) {
        first = floor;
    }
    vpt->origin_ns = first.v - vpt->period_ticks;
    vpt_begin_ticks(vpt, first);
}

void hv_vpt_stop(struct hv_vpt *vpt)
{
    if (hv_load_relaxed(&vpt->running) || vpt->held) {
        hv_store_relaxed(&vpt->running, false);
        vpt->held = false;
        hv_timer_disarm(&vpt->timer);
        vpt_forget(vpt);
    }
}

void hv_vpt_hold(struct hv_vpt *vpt)
{
    if (vpt_ticks(vpt)) {
        hv_store_relaxed(&vpt->running, false);
        hv_timer_disarm(&vpt->timer);
        vpt->held = true;
    } else if (!vpt->held) {
        hv_vpt_stop(vpt);
    }
}

void hv_vpt_reset(struct hv_vpt *vpt)
{
    hv_vpt_stop(vpt);
    vpt_disown(vpt);
    vpt_forget(vpt);
}

uint64_t hv_vpt_remaining_ns(const struct hv_vpt *vpt, hv_ns now)
{
    uint64_t due_ns = hv_load_relaxed(&vpt->due_ns);

    if (!hv_load_relaxed(&vpt->running)) {
        return UINT64_MAX;
    }
    if (hv_load_relaxed(&vpt->period_ns) != 0) {
        due_ns = vpt_point(vpt, vpt->seen + 1).v; /* it may be due before, for a backlog */
    }
    return now.v < due_ns ? due_ns - now.v : 0;
}

void hv_vpt_halt(struct hv_vpt *vpt)
{
    hv_store_seq(&vpt->halted, true);
}

void hv_vpt_pause(struct hv_vpt *vpt)
{
    hv_timer_kill(&vpt->timer);
}

void hv_vpt_resume(struct hv_vpt *vpt)
{
    hv_store_seq(&vpt->halted, false);
    hv_timer_revive(&vpt->timer);
    hv_vpt_rearm(vpt);
}
