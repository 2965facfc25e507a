/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Register bits of the HPET (1.0a, section 2.3), and what its two files share. */
#pragma once

#include "platform/hpet.h"

enum hpet_register {
    HPET_CAPABILITY = 0x000,
    HPET_CONFIG = 0x010,
    HPET_STATUS = 0x020,
    HPET_COUNTER = 0x0f0,
    HPET_TIMER = 0x100, /* 32 bytes each */
    HPET_TIMER_BYTES = 0x20,
    HPET_TIMER_CONFIG = 0x00,
    HPET_TIMER_COMPARATOR = 0x08,
};

enum hpet_config {
    HPET_CONFIG_ENABLE = 1u << 0,
    HPET_CONFIG_LEGACY = 1u << 1,
};

enum hpet_timer_config {
    HPET_TIMER_LEVEL = 1u << 1,
    HPET_TIMER_INTERRUPT = 1u << 2,
    HPET_TIMER_PERIODIC = 1u << 3,
    HPET_TIMER_CAPABLE = 1u << 4 | 1u << 5, /* periodic, 64 bits: read-only */
    HPET_TIMER_SET_VALUE = 1u << 6,         /* write-only */
    HPET_TIMER_32BIT = 1u << 8,
    HPET_TIMER_ROUTE_SHIFT = 9,
    HPET_TIMER_ROUTE = 31u << 9,
    HPET_TIMER_WRITABLE = 0x3f4e, /* no FSB delivery: bits 14 and 15 read zero */
};

/** Lock it, and look at the clock: once, so that counter, comparators and timers agree. */
void hpet_take(struct hv_hpet *hpet) HV_ACQUIRES(&hpet->lock);
/** Counter value at that moment. */
uint64_t hpet_counter(const struct hv_hpet *hpet);

/* hpet-timer.c: the comparators. The HPET's lock is held (asserted; the annotation cannot see that
 * timer->hpet is the HPET at hand). */

/** Between interrupts, before the floor; 0 when there is one only. */
uint64_t hpet_period_ns(uint32_t config, uint64_t period);
/** The wire that its interrupt takes; one without `set` when it is routed nowhere. */
struct hv_irq_line hpet_timer_wire(const struct hv_hpet_timer *timer);
/** Follow the counter: deliver what is due, move periodic comparators on. */
void hpet_timer_settle_locked(struct hv_hpet_timer *timer);
void hpet_timer_expired(void *context);
/** Find the next match of an armed comparator anew: counter, width or comparator have changed. */
void hpet_timer_rematch_locked(struct hv_hpet_timer *timer);
/** Start or stop the timer that waits for the match. */
void hpet_timer_arm_locked(struct hv_hpet_timer *timer);
/** After load: its next interrupt comes in @remaining_ns, which clamped periods do not tell. */
void hpet_timer_shift_locked(struct hv_hpet_timer *timer, uint64_t remaining_ns);
/** Make the wire of a level-triggered comparator what its status says. */
void hpet_timer_drive_locked(struct hv_hpet_timer *timer);
/** Let its wire go, before what says which one it is changes. */
void hpet_timer_release_locked(struct hv_hpet_timer *timer);
void hpet_timer_write_config_locked(struct hv_hpet_timer *timer, uint32_t value);
/** @value is the whole register, merged with what a narrower write left alone. */
void hpet_timer_write_comparator_locked(struct hv_hpet_timer *timer, uint64_t value);
