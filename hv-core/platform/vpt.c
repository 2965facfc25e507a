/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Delivery of ticks: the grid, the floor on periods, and what becomes of missed ticks (merge). */
#include "platform/vpt.h"

#include "platform/tick.h"

static void vpt_fire(struct hv_timer *timer, void *context)
{
    struct hv_vpt *vpt = context;

    (void)timer;
    /* Halted: not due, and not armed, before hv_vpt_resume(). */
    if (!hv_load_seq(&vpt->halted)) {
        vpt->expired(vpt->context);
    }
}

int hv_vpt_init(struct hv_vpt *vpt, struct hv_timer_queue *queue, enum hv_vpt_source source,
                unsigned index, void (*expired)(void *context), void *context, enum hv_rank rank)
{
    int error;

    *vpt = (struct hv_vpt){
        .source = source,
        .index = index,
        .clock = queue->clock,
        .expired = expired,
        .context = context,
    };
    error = hv_timer_init(&vpt->timer, queue, vpt_fire, vpt, rank);
    if (error) {
        vpt->clock = NULL; /* nothing to finish */
    }
    return error;
}

void hv_vpt_finish(struct hv_vpt *vpt)
{
    if (vpt->clock) {
        hv_timer_finish(&vpt->timer);
        vpt->clock = NULL;
    }
}

static void vpt_arm(struct hv_vpt *vpt, hv_ns due, uint64_t period_ns)
{
    vpt->due = due;
    hv_store_relaxed(&vpt->period_ns, period_ns);
    hv_store_relaxed(&vpt->running, true);
    hv_timer_arm(&vpt->timer, due);
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
                     "timer source %u of vCPU %u: a period of %llu ns is served as %llu ns",
                     (unsigned)vpt->source, vpt->index,
                     (unsigned long long)hv_ticks_to_ns(ticks, hz),
                     (unsigned long long)hv_ticks_to_ns(floor_ticks, hz));
    }
    hv_count(&vpt->counters.period_clamped, 1);
    return floor_ticks;
}

/* Points of the grid that have passed at @now. */
static uint64_t vpt_passed(const struct hv_vpt *vpt, hv_ns now)
{
    return hv_ticks_from_ns(now.v - vpt->origin_ns, vpt->hz) / vpt->period_ticks;
}

static void vpt_arm_point(struct hv_vpt *vpt, uint64_t point)
{
    uint64_t offset_ns = hv_ticks_to_ns(point * vpt->period_ticks, vpt->hz);

    vpt_arm(vpt, (hv_ns){vpt->origin_ns + offset_ns}, hv_ticks_to_ns(vpt->period_ticks, vpt->hz));
}

void hv_vpt_start_grid(struct hv_vpt *vpt, uint64_t origin_ns, uint64_t ticks, uint32_t hz)
{
    vpt->origin_ns = origin_ns;
    vpt->period_ticks = vpt_clamp(vpt, ticks, hz);
    vpt->hz = hz;
    vpt_arm_point(vpt, vpt_passed(vpt, hv_clock_now(vpt->clock)) + 1);
}

void hv_vpt_start(struct hv_vpt *vpt, hv_ns first, uint64_t period_ns)
{
    if (period_ns == 0) {
        vpt_arm(vpt, first, 0);
        return;
    }
    vpt->hz = (uint32_t)HV_NS_PER_S;
    vpt->period_ticks = vpt_clamp(vpt, period_ns, vpt->hz);
    vpt->origin_ns = first.v - vpt->period_ticks;
    vpt_arm(vpt, first, vpt->period_ticks);
}

void hv_vpt_stop(struct hv_vpt *vpt)
{
    if (hv_load_relaxed(&vpt->running)) {
        hv_store_relaxed(&vpt->running, false);
        hv_timer_disarm(&vpt->timer);
    }
}

bool hv_vpt_expire(struct hv_vpt *vpt)
{
    uint64_t due, passed;
    hv_ns now;

    if (!hv_load_relaxed(&vpt->running)) {
        return false;
    }
    now = hv_clock_now(vpt->clock);
    if (hv_ns_before(now, vpt->due)) {
        return false;
    }
    vpt->tick_due = vpt->due;
    if (hv_load_relaxed(&vpt->period_ns) == 0) {
        hv_store_relaxed(&vpt->running, false);
        hv_count(&vpt->counters.fired, 1);
        return true;
    }
    due = vpt_passed(vpt, vpt->due);
    passed = vpt_passed(vpt, now);
    hv_count(&vpt->counters.fired, passed - due + 1);
    hv_count(&vpt->counters.merged, passed - due);
    vpt_arm_point(vpt, passed + 1);
    return true;
}

void hv_vpt_issue(struct hv_vpt *vpt)
{
    hv_count(&vpt->counters.issued, 1);
    if (!vpt->awaits) {
        vpt->awaits = true;
        vpt->awaited_due = vpt->tick_due;
        if (vpt->awaited) {
            hv_or_seq(vpt->awaited, vpt->awaited_bit);
        }
    }
}

void hv_vpt_accept(struct hv_vpt *vpt)
{
    uint64_t late;

    if (!vpt->awaits) {
        return;
    }
    vpt->awaits = false;
    if (vpt->awaited) {
        hv_and_seq(vpt->awaited, ~vpt->awaited_bit);
    }
    late = hv_clock_now(vpt->clock).v - vpt->awaited_due.v;
    hv_histogram_record(&vpt->late, late);
    if (hv_load_relaxed(&vpt->counters.accepted) > 0) {
        hv_histogram_record(&vpt->jitter,
                            late > vpt->last_late ? late - vpt->last_late : vpt->last_late - late);
    }
    vpt->last_late = late;
    hv_count(&vpt->counters.accepted, 1);
}

uint64_t hv_vpt_remaining_ns(const struct hv_vpt *vpt)
{
    hv_ns now = hv_clock_now(vpt->clock);

    if (!hv_load_relaxed(&vpt->running)) {
        return UINT64_MAX;
    }
    return hv_ns_before(now, vpt->due) ? vpt->due.v - now.v : 0;
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
    if (hv_load_relaxed(&vpt->running)) {
        hv_timer_arm(&vpt->timer, vpt->due);
    }
}
