/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The local APIC's timer (SDM 3A 11.5.4). The count is worked out from the clock when it is read;
 * only the moment of expiry is a timer.
 *
 *     idle --initial count--> counting --one-shot expiry--> idle
 *     counting --periodic expiry--> counting
 *     idle --IA32_TSC_DEADLINE--> armed --expiry--> idle
 */
#include "platform/lapic-private.h"

#include "sync/race.h"

static hv_ns lapic_now(const struct hv_lapic *lapic)
{
    return hv_clock_now(lapic->set->clock);
}

/* A tick is due: the entry decides what becomes of it. */
static void lapic_timer_tick_locked(struct hv_lapic *lapic) HV_REQUIRES(&lapic->lock)
{
    uint32_t lvt = lapic->lvt[HV_LAPIC_LVT_TIMER];

    if (lapic_timer_mode(lapic) != LAPIC_TIMER_PERIODIC) {
        lapic->timer_counting = false;
        lapic->tsc_deadline = 0;
    }
    if (!(lvt & LAPIC_LVT_MASKED) && (lvt & LAPIC_LVT_VECTOR) < LAPIC_LOWEST_VECTOR) {
        hv_vpt_skip(&lapic->timer);
        lapic_request_locked(lapic, (uint8_t)lvt, false); /* that is an error */
    } else if ((lvt & LAPIC_LVT_MASKED) || !lapic_enabled(lapic)) {
        hv_vpt_skip(&lapic->timer);
    } else if (lapic->irr[(lvt & LAPIC_LVT_VECTOR) / 32] & 1u << (lvt & 31)) {
        hv_vpt_merge(&lapic->timer);
    } else {
        hv_vpt_issue(&lapic->timer);
        lapic_request_locked(lapic, (uint8_t)lvt, false);
    }
}

hv_ns lapic_timer_settle_locked(struct hv_lapic *lapic)
{
    hv_ns now = lapic_now(lapic);

    if (hv_vpt_expire(&lapic->timer, now)) {
        lapic_timer_tick_locked(lapic);
    }
    HV_RACE("lapic.settled");
    return now;
}

void lapic_timer_expired(void *context)
{
    struct hv_lapic *lapic = context;

    hv_lock_take(&lapic->lock);
    (void)lapic_timer_settle_locked(lapic);
    lapic_drop(lapic);
}

/* Time since the present cycle of the count began. */
static uint64_t lapic_timer_elapsed_locked(const struct hv_lapic *lapic) HV_REQUIRES(&lapic->lock)
{
    uint64_t elapsed_ns = lapic_now(lapic).v - lapic->timer_start_ns;

    if (lapic_timer_mode(lapic) == LAPIC_TIMER_PERIODIC) {
        elapsed_ns %= lapic_count_ns(lapic->initial_count, lapic->divide);
    }
    return elapsed_ns;
}

void lapic_timer_arm_locked(struct hv_lapic *lapic)
{
    uint64_t count_ns = lapic_count_ns(lapic->initial_count, lapic->divide);

    if (!lapic->timer_counting) {
        hv_vpt_stop(&lapic->timer);
    } else if (lapic_timer_mode(lapic) == LAPIC_TIMER_PERIODIC) {
        hv_vpt_start_grid(&lapic->timer, lapic->timer_start_ns, count_ns, (uint32_t)HV_NS_PER_S);
    } else {
        hv_vpt_start(&lapic->timer, (hv_ns){lapic->timer_start_ns + count_ns}, 0);
    }
}

uint32_t lapic_timer_current_locked(const struct hv_lapic *lapic)
{
    uint64_t elapsed_ns;

    if (!lapic->timer_counting) {
        return 0;
    }
    elapsed_ns = lapic_timer_elapsed_locked(lapic);
    if (elapsed_ns >= lapic_count_ns(lapic->initial_count, lapic->divide)) {
        return 0; /* its expiry is on the way */
    }
    return lapic->initial_count - (uint32_t)(elapsed_ns / lapic_count_ns(1, lapic->divide));
}

/* The count goes on over a change between one-shot and periodic; TSC-deadline is another timer. */
void lapic_timer_write_lvt_locked(struct hv_lapic *lapic, uint32_t value)
{
    enum lapic_timer_mode before, after;

    (void)lapic_timer_settle_locked(lapic);
    before = lapic_timer_mode(lapic);
    if (lapic->timer_counting) {
        lapic->timer_start_ns = lapic_now(lapic).v - lapic_timer_elapsed_locked(lapic);
    }
    lapic->lvt[HV_LAPIC_LVT_TIMER] = value;
    after = lapic_timer_mode(lapic);
    if (before == after) {
        return;
    }
    if (before >= LAPIC_TIMER_TSC_DEADLINE || after >= LAPIC_TIMER_TSC_DEADLINE) {
        lapic->initial_count = 0; /* 11.5.4.1: the transition disarms */
        lapic->timer_counting = false;
        lapic->tsc_deadline = 0;
    }
    lapic_timer_arm_locked(lapic);
}

void lapic_timer_write_initial_locked(struct hv_lapic *lapic, uint32_t value)
{
    if (lapic_timer_mode(lapic) >= LAPIC_TIMER_TSC_DEADLINE) {
        return; /* 11.5.4.1: ignored */
    }
    (void)lapic_timer_settle_locked(lapic);
    lapic->initial_count = value;
    lapic->timer_counting = value != 0;
    lapic->timer_start_ns = lapic_now(lapic).v;
    lapic_timer_arm_locked(lapic);
}

/* The rest of the count goes on at the new rate. */
void lapic_timer_write_divide_locked(struct hv_lapic *lapic, uint32_t value)
{
    uint64_t ticks;

    (void)lapic_timer_settle_locked(lapic);
    value &= LAPIC_DIVIDE_MASK;
    if (value == lapic->divide) {
        return; /* or it would lose the part of a tick that it is in */
    }
    if (lapic->timer_counting) {
        ticks = lapic_timer_elapsed_locked(lapic) / lapic_count_ns(1, lapic->divide);
        lapic->timer_start_ns = lapic_now(lapic).v - lapic_count_ns(ticks, value);
    }
    lapic->divide = value;
    lapic_timer_arm_locked(lapic);
}

void lapic_timer_write_deadline_locked(struct hv_lapic *lapic, uint64_t tsc, hv_ns moment)
{
    if (lapic_timer_mode(lapic) != LAPIC_TIMER_TSC_DEADLINE) {
        return; /* 11.5.4.1: ignored */
    }
    (void)lapic_timer_settle_locked(lapic);
    lapic->tsc_deadline = tsc;
    if (tsc == 0) {
        hv_vpt_stop(&lapic->timer);
        return;
    }
    hv_vpt_start(&lapic->timer, moment, 0);
    /* A past deadline fires within the instruction that wrote it. */
    (void)lapic_timer_settle_locked(lapic);
}
