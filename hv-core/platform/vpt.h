/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Virtual platform timers: the ticks of PIT, RTC, HPET and local APIC, delivered to a vCPU.
 *
 * A device decides when its counter expires; what happens to ticks that a descheduled vCPU missed,
 * and which locks their delivery takes, is decided here for all of them. The register models do not
 * change when that policy does.
 *
 *     stopped --hv_vpt_start--> armed --(due)--> fired: device's callback --> armed | stopped
 *     armed --hv_vpt_stop--> stopped
 *
 * Periods below 100 µs are clamped, counted, and logged once (decisions D12: periodic only).
 */
#pragma once

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
    /* Guarded by the device's lock. */
    uint64_t period_ns; /* 0: one-shot */
    hv_ns due;
    bool running;
    struct hv_vpt_counters counters;
};

/** Make a stopped timer on @queue. -ENOMEM. @rank is the lowest lock @expired takes. */
HV_MUST_CHECK int hv_vpt_init(struct hv_vpt *vpt, struct hv_timer_queue *queue,
                              enum hv_vpt_source source, unsigned index,
                              void (*expired)(void *context), void *context, enum hv_rank rank);
void hv_vpt_finish(struct hv_vpt *vpt);

/**
 * Start, or restart: first expiry at @first, then each @period_ns (0: once).
 *
 * The device's lock may be held. A callback of the previous life may still be on its way: devices
 * check their own state under their lock in `expired`.
 */
void hv_vpt_start(struct hv_vpt *vpt, hv_ns first, uint64_t period_ns);

/** Stop. As for start, one late callback may still come. */
void hv_vpt_stop(struct hv_vpt *vpt);

/** What to save: time to the next expiry in ns (UINT64_MAX when stopped). Device lock held. */
uint64_t hv_vpt_remaining_ns(const struct hv_vpt *vpt);
