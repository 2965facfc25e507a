/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Virtual platform timers: the ticks of PIT, RTC, HPET and local APIC, delivered to a vCPU.
 *
 * A device decides when its counter expires; what happens to ticks that a descheduled vCPU missed,
 * and which locks their delivery takes, is decided here for all of them. The register models do not
 * change when that policy does.
 *
 *     stopped --hv_vpt_start--> armed --(due)--> fired: device's callback, hv_vpt_expire()
 *                                 ^                          |periodic     |one-shot
 *                                 '--------------------------'             '--> stopped
 *     armed --hv_vpt_stop--> stopped
 *
 * Ticks stand on a grid: origin + k * period, the period a number of ticks of some frequency, so
 * that 1,193,182 Hz are exact over years. The one policy so far is merge: ticks that were missed
 * become one late tick, and the next comes on the grid. It keeps, over each timer,
 *
 *     fired == issued + merged + masked_skips
 *     issued >= accepted
 *
 * A tick is issued when its interrupt is raised, and accepted when a vCPU takes that interrupt; how
 * long after its due time that was is recorded, and by how much it differs from the tick before.
 *
 * Periods below 100 µs are clamped, counted, and logged once (decisions D12: periodic only).
 */
#pragma once

#include "base/histogram.h"
#include "base/log.h"
#include "time/timer.h"

#define HV_VPT_PERIOD_FLOOR_NS (100 * HV_NS_PER_US)

enum hv_vpt_source {
    HV_VPT_LAPIC,
    HV_VPT_PIT,
    HV_VPT_RTC,
    HV_VPT_HPET0,
    HV_VPT_HPET1,
    HV_VPT_HPET2,
    HV_VPT_PM,
};

/* Counters with the names of statistics: timer.<i>.*. One writer, relaxed readers. */
struct hv_vpt_counters {
    _Atomic uint64_t fired, issued, accepted, merged, discarded, masked_skips, retargets,
        period_clamped;
};

struct hv_vpt {
    struct hv_timer timer;
    /* Set at creation. */
    enum hv_vpt_source source;
    unsigned index; /* vCPU of a LAPIC timer; else 0 */
    const struct hv_clock *clock;
    void (*expired)(void *context); /* worker thread, no lock held */
    void *context;
    /* Atomic: ticks are held back; pairs with the look of the timer's callback. */
    _Atomic bool halted;
    /* Guarded by the device's lock; the atomic ones are read by statistics without it. */
    _Atomic uint64_t period_ns; /* 0: one-shot */
    _Atomic bool running;
    hv_ns due;
    uint64_t origin_ns;    /* periodic: tick k is due at origin + k * period (modulo 2^64) */
    uint64_t period_ticks; /* of @hz */
    uint32_t hz;
    hv_ns tick_due;     /* of the tick hv_vpt_expire() told of last */
    bool awaits;        /* an issued tick is not accepted yet */
    hv_ns awaited_due;  /* of the earliest of those */
    uint64_t last_late; /* of the tick accepted last, in ns */
    struct hv_vpt_counters counters;
    struct hv_histogram late, jitter;
    /* Set at creation, may be NULL: a word that has @awaited_bit set while `awaits` is. */
    _Atomic uint32_t *awaited;
    uint32_t awaited_bit;
    struct hv_log_limit log;
};

/** Make a stopped timer on @queue. -ENOMEM. @rank is the lowest lock @expired takes. */
HV_MUST_CHECK int hv_vpt_init(struct hv_vpt *vpt, struct hv_timer_queue *queue,
                              enum hv_vpt_source source, unsigned index,
                              void (*expired)(void *context), void *context, enum hv_rank rank);
/** Stop for good; waits for a running callback. Zeroed memory is accepted. */
void hv_vpt_finish(struct hv_vpt *vpt);

/**
 * Start, or restart: first expiry at @first, then each @period_ns (0: once).
 *
 * The device's lock may be held. A callback of the previous life may still be on its way: devices
 * check their own state under their lock in `expired`, by hv_vpt_expire().
 */
void hv_vpt_start(struct hv_vpt *vpt, hv_ns first, uint64_t period_ns);

/**
 * Start, or restart, with a period of @ticks (not 0) of a counter of @hz that stood at zero at
 * @origin_ns, which may lie before the clock's zero (modulo 2^64). The first expiry is the next
 * point of the grid after now.
 */
void hv_vpt_start_grid(struct hv_vpt *vpt, uint64_t origin_ns, uint64_t ticks, uint32_t hz);

/** Stop. As for start, one late callback may still come. */
void hv_vpt_stop(struct hv_vpt *vpt);

/**
 * The first thing in `expired`, with the device's lock held: is a tick due? If so it is accounted
 * for, and the next one of a periodic timer is armed. False for a callback of a previous life.
 */
HV_MUST_CHECK bool hv_vpt_expire(struct hv_vpt *vpt);

/** The tick's interrupt has been raised. Device lock held. */
void hv_vpt_issue(struct hv_vpt *vpt);
/** A vCPU has taken an interrupt that may be an issued tick's. Device lock held. */
void hv_vpt_accept(struct hv_vpt *vpt);

/** Time to the next expiry in ns (UINT64_MAX when stopped). Device lock held. */
uint64_t hv_vpt_remaining_ns(const struct hv_vpt *vpt);

/**
 * Let no callback run until hv_vpt_resume(); waits for a running one. The timer goes on by its
 * clock: what falls due meanwhile counts as missed. No lock of the declared rank or above held.
 */
void hv_vpt_pause(struct hv_vpt *vpt);
/** The same without a wait: callbacks under way end, no other begins. Any thread, any lock. */
void hv_vpt_halt(struct hv_vpt *vpt);
/** After hv_vpt_pause(). */
void hv_vpt_resume(struct hv_vpt *vpt);
