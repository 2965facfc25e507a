/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The HPET's comparators (1.0a, 2.3.8 to 2.3.9).
 *
 *     idle --comparator written--> armed --match: one-shot, 64 bits--> idle
 *     armed --match: periodic, or one-shot of 32 bits--> armed     (period, or 2^32 ticks, later)
 */
#include "platform/hpet-private.h"

#include "base/bits.h"
#include "sync/race.h"

/*
 * A 32-bit comparator this little behind the counter was meant to be ahead of it, by a guest that
 * was descheduled between reading the one and writing the other: 5.4 s. Linux sets no one-shot
 * timer further ahead than 2^31, and others than 37 s.
 */
#define HPET_LATE_TICKS UINT32_C(0x20000000)
/* Matches and periods further away than this never come (292 years). */
#define HPET_FAR_TICKS  (UINT64_MAX / 2 / HV_HPET_TICK_NS)

static bool hpet_timer_level(const struct hv_hpet_timer *timer)
{
    return timer->config & HPET_TIMER_LEVEL;
}

static uint64_t hpet_timer_bit(const struct hv_hpet_timer *timer)
{
    return HV_BIT(timer->index);
}

struct hv_irq_line hpet_timer_wire(const struct hv_hpet_timer *timer)
{
    const struct hv_hpet *hpet = timer->hpet;
    struct hv_irq_line wire = hpet->pin;

    if (timer->index < 2 && (hpet->config & HPET_CONFIG_LEGACY)) {
        return hpet->legacy[timer->index];
    }
    wire.number = (timer->config & HPET_TIMER_ROUTE) >> HPET_TIMER_ROUTE_SHIFT;
    if (!(HV_HPET_ROUTES & 1u << wire.number)) {
        wire.set = NULL;
    }
    return wire;
}

void hpet_timer_release_locked(struct hv_hpet_timer *timer)
{
    if (timer->asserted) {
        struct hv_irq_line wire = hpet_timer_wire(timer);

        timer->asserted = false;
        hv_irq_line_set(&wire, false);
    }
}

void hpet_timer_drive_locked(struct hv_hpet_timer *timer)
{
    const struct hv_hpet *hpet = timer->hpet;
    bool high = (hpet->config & HPET_CONFIG_ENABLE) && (timer->config & HPET_TIMER_INTERRUPT) &&
                (hpet->status & hpet_timer_bit(timer));

    hv_lock_assert_held(&hpet->lock);
    if (!high) {
        hpet_timer_release_locked(timer);
    } else if (!timer->asserted) {
        struct hv_irq_line wire = hpet_timer_wire(timer);

        timer->asserted = true;
        hv_irq_line_set(&wire, true);
    }
}

/*
 * A narrow comparator's match is within 2^32 ticks of the counter, on either side of that one's end: it is
 * ahead as a ring has it. A wide one's may be anywhere ahead.
 */
static bool hpet_timer_passed(const struct hv_hpet_timer *timer, uint64_t counter)
{
    if (timer->config & HPET_TIMER_32BIT) {
        return (int64_t)(counter - timer->match) >= 0;
    }
    return counter >= timer->match;
}

/* The interrupt itself; without its enable bit, only the status of a level-triggered one. */
static void hpet_timer_fire_locked(struct hv_hpet_timer *timer)
{
    if (hpet_timer_level(timer)) {
        if ((timer->config & HPET_TIMER_INTERRUPT) && timer->asserted) {
            hv_vpt_merge(&timer->vpt);
        } else if (timer->config & HPET_TIMER_INTERRUPT) {
            hv_vpt_issue(&timer->vpt);
        }
        timer->hpet->status |= hpet_timer_bit(timer);
        hpet_timer_drive_locked(timer);
    } else if (timer->config & HPET_TIMER_INTERRUPT) {
        struct hv_irq_line wire = hpet_timer_wire(timer);

        hv_vpt_issue(&timer->vpt);
        hv_irq_line_pulse(&wire);
    } else {
        hv_vpt_skip(&timer->vpt);
    }
}

/* The match that @counter has reached or passed is over: where is the next? */
static void hpet_timer_advance(struct hv_hpet_timer *timer, uint64_t counter)
{
    uint64_t step = timer->config & HPET_TIMER_32BIT ? UINT64_C(1) << 32 : 0;

    if (timer->config & HPET_TIMER_PERIODIC) {
        step = timer->period;
    }
    if (step == 0 || step > HPET_FAR_TICKS) {
        timer->armed = false;
        return;
    }
    step *= (counter - timer->match) / step + 1;
    timer->match += step;
    if (timer->config & HPET_TIMER_PERIODIC) {
        timer->comparator =
            timer->config & HPET_TIMER_32BIT ? (uint32_t)timer->match : timer->match;
    }
}

void hpet_timer_settle_locked(struct hv_hpet_timer *timer)
{
    const struct hv_hpet *hpet = timer->hpet;
    bool waited = hv_load_relaxed(&timer->vpt.running);
    bool due = hv_vpt_expire(&timer->vpt, hpet->now);
    uint64_t counter;
    bool passed;

    hv_lock_assert_held(&hpet->lock);
    HV_RACE("hpet.expired");
    counter = hpet_counter(hpet);
    passed =
        timer->armed && (hpet->config & HPET_CONFIG_ENABLE) && hpet_timer_passed(timer, counter);
    if (passed) {
        hpet_timer_advance(timer, counter);
    }
    /* A timer that can interrupt does so at vpt's pace, which has a floor. */
    if (waited ? due : passed) {
        hpet_timer_fire_locked(timer);
    }
    if (passed && waited && !hv_load_relaxed(&timer->vpt.running)) {
        hpet_timer_arm_locked(timer); /* the wrap of a 32-bit one-shot */
    }
}

void hpet_timer_expired(void *context)
{
    struct hv_hpet_timer *timer = context;

    hpet_take(timer->hpet);
    hpet_timer_settle_locked(timer);
    hv_lock_drop(&timer->hpet->lock);
}

void hpet_timer_rematch_locked(struct hv_hpet_timer *timer)
{
    uint64_t counter = hpet_counter(timer->hpet);
    uint32_t ahead = (uint32_t)timer->comparator - (uint32_t)counter;

    if (!(timer->config & HPET_TIMER_32BIT)) {
        timer->match = timer->comparator;
    } else {
        timer->match = ahead > UINT32_MAX - HPET_LATE_TICKS ? counter : counter + ahead;
    }
}

uint64_t hpet_period_ns(uint32_t config, uint64_t period)
{
    period = config & HPET_TIMER_PERIODIC ? period : 0;
    return period > HPET_FAR_TICKS ? 0 : period * HV_HPET_TICK_NS;
}

static uint64_t hpet_timer_period_ns(const struct hv_hpet_timer *timer)
{
    return hpet_period_ns(timer->config, timer->period);
}

void hpet_timer_shift_locked(struct hv_hpet_timer *timer, uint64_t remaining_ns)
{
    if (hv_load_relaxed(&timer->vpt.running) && remaining_ns != UINT64_MAX) {
        hv_ns first = hv_ns_add(timer->hpet->now, remaining_ns);

        hv_vpt_start(&timer->vpt, first, hpet_timer_period_ns(timer));
    }
}

void hpet_timer_arm_locked(struct hv_hpet_timer *timer)
{
    const struct hv_hpet *hpet = timer->hpet;
    uint64_t distance = timer->match - hpet->counter;
    hv_ns first = hpet->now;

    if (!timer->armed || !(hpet->config & HPET_CONFIG_ENABLE) ||
        !(timer->config & HPET_TIMER_INTERRUPT)) {
        hv_vpt_stop(&timer->vpt);
        return;
    }
    if (!hpet_timer_passed(timer, hpet_counter(hpet))) {
        if (distance > HPET_FAR_TICKS) {
            hv_vpt_stop(&timer->vpt);
            return;
        }
        first.v = hpet->start_ns + distance * HV_HPET_TICK_NS;
    }
    hv_vpt_start(&timer->vpt, first, hpet_timer_period_ns(timer));
}

void hpet_timer_write_config_locked(struct hv_hpet_timer *timer, uint32_t value)
{
    uint32_t old = timer->config;
    uint32_t route = (value & HPET_TIMER_ROUTE) >> HPET_TIMER_ROUTE_SHIFT;

    value &= HPET_TIMER_WRITABLE;
    /* 2.3.8: software writes a route and reads it back to see whether it is supported. */
    if (!(HV_HPET_ROUTES & 1u << route)) {
        value = (value & ~(uint32_t)HPET_TIMER_ROUTE) | (old & HPET_TIMER_ROUTE);
    }
    hpet_timer_release_locked(timer);
    timer->config = value;
    if (!hpet_timer_level(timer)) {
        timer->hpet->status &= ~hpet_timer_bit(timer);
    }
    if (value & HPET_TIMER_32BIT) {
        timer->comparator = (uint32_t)timer->comparator;
        timer->period = (uint32_t)timer->period;
    }
    if ((old ^ value) & HPET_TIMER_32BIT) {
        hpet_timer_rematch_locked(timer);
    }
    hpet_timer_drive_locked(timer);
    hpet_timer_arm_locked(timer);
}

/*
 * 2.3.9.2.2: in periodic mode a write is the period, and the comparator too when VAL_SET was set
 * for it; else it is the comparator.
 */
void hpet_timer_write_comparator_locked(struct hv_hpet_timer *timer, uint64_t value)
{
    bool periodic = timer->config & HPET_TIMER_PERIODIC;

    if (timer->config & HPET_TIMER_32BIT) {
        value = (uint32_t)value;
    }
    if (periodic) {
        timer->period = value;
    }
    if (!periodic || (timer->config & HPET_TIMER_SET_VALUE)) {
        timer->comparator = value;
        timer->armed = true;
        hpet_timer_rematch_locked(timer);
    }
    timer->config &= ~(uint32_t)HPET_TIMER_SET_VALUE;
    hpet_timer_arm_locked(timer);
}
