/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Virtual platform timers: the ticks of PIT, RTC, HPET and local APIC, delivered to a vCPU.
 *
 * A device decides when its counter expires; who delivers its ticks, what happens to those that a
 * descheduled vCPU missed, and which locks that takes, is decided here for all of them. The register
 * models do not change when a policy does.
 *
 *     stopped --hv_vpt_start--> armed --(due)--> pending: a bit of its target vCPU's word, and a kick
 *                                 ^                          |
 *                                 |     the vCPU's exit path, hv_vpt_update(): device's callback
 *                                 |                          |
 *                                 '--periodic--- hv_vpt_expire() ---one-shot--> stopped
 *     armed | pending --hv_vpt_stop--> stopped
 *     armed | pending --hv_vpt_hold--> held --hv_vpt_start--> armed
 *                                           --hv_vpt_stop---> stopped
 *
 * The exit path of a vCPU for which nothing is due costs one load of a word on a line of its own, and
 * writes nothing, however many vCPUs there are. A timer whose bit is set is not armed: one whose
 * vCPU waits for a CPU does not end the slices of others, and what fell due meanwhile is counted when
 * the vCPU comes to it. That of a vCPU that is blocked fires, and its kick wakes it.
 *
 * Ticks stand on a grid: origin + k * period, the period a number of ticks of some frequency, so that
 * 1,193,182 Hz are exact over years. What becomes of missed ones is the policy's (vpt-policy.c). Over
 * each timer, at any moment that its device's lock is free,
 *
 *     fired == accepted + merged + discarded + masked_skips + pending
 *
 * A tick is issued when its interrupt is raised, and accepted when a vCPU takes that interrupt; how
 * long after its due time that was is recorded, and by how much it differs from the tick before.
 *
 * Periods below 100 µs are clamped, counted, and logged once (decisions D12: periodic only).
 *
 * Locks: what a device's callback needs is guarded by the device's lock; which vCPU a timer belongs
 * to, and its bit there, by that vCPU's tm_lock, as the strategy takes it (vpt-strategy.h).
 */
#pragma once

#include "base/histogram.h"
#include "base/list.h"
#include "base/log.h"
#include "platform/irq.h"
#include "time/timer.h"

#include <hv/timers.h>

#define HV_VPT_PERIOD_FLOOR_NS (100 * HV_NS_PER_US)

/** libvirt's word for it; a literal. */
const char *hv_tick_policy_name(enum hv_tick_policy policy);
/** As statistics and logs name it; a literal. Of local APICs' there is one a vCPU. */
const char *hv_vpt_source_name(enum hv_vpt_source source);

/* Counters with the names of statistics: timer.<i>.*. One writer, relaxed readers. */
struct hv_vpt_counters {
    _Atomic uint64_t fired, issued, accepted, merged, discarded, masked_skips, retargets,
        period_clamped, backlog_max;
};

struct hv_vpt;
struct hv_vpt_set;

/* The timers of one vCPU. */
struct hv_vpt_vcpu {
    struct hv_lock tm_lock; /* HV_RANK_TM */
    /* Set at creation. */
    struct hv_vpt_set *set;
    unsigned index;
    /* Guarded by &tm_lock, as the strategy says. */
    struct hv_list timers;
    struct hv_timer_queue *queue; /* of the worker it runs on */
    /* Atomic: a bit for each timer that fell due, by source; pairs with hv_vpt_update(). The exit path
     * reads it, so nothing that others write stands beside it. */
    HV_ALIGNED(HV_CACHE_LINE) _Atomic uint64_t pending;
    HV_ALIGNED(HV_CACHE_LINE) char end[];
};

struct hv_vpt {
    struct hv_timer timer;
    /* Set at creation. */
    enum hv_vpt_source source;
    unsigned index;                 /* vCPU of a LAPIC timer; else 0 */
    struct hv_vpt_set *set;         /* NULL: no vCPU's, `expired` is called where the timer fires */
    const struct hv_clock *clock;   /* of all its moments; `timer` goes by that one's source */
    void (*expired)(void *context); /* no lock held */
    void *context;
    /* Atomic: whose list it is in; HV_VPT_MIGRATING between two. Changed as the strategy says. */
    _Atomic(struct hv_vpt_vcpu *) vcpu;
    struct hv_list link; /* guarded likewise */
    struct hv_lock lock; /* HV_RANK_VPT; strategy `pertimer` only */
    /* Atomic: ticks are held back; pairs with the look of the timer's callback. */
    _Atomic bool halted;
    /* Guarded by the device's lock; the atomic ones are read without it. */
    _Atomic uint64_t period_ns; /* 0: one-shot */
    _Atomic bool running;
    _Atomic uint64_t due_ns; /* of the next tick */
    uint64_t origin_ns;      /* periodic: tick k is due at origin + k * period (modulo 2^64) */
    uint64_t period_ticks;   /* of @hz */
    uint64_t seen;           /* points of the grid that are accounted for */
    uint32_t hz;
    struct hv_vpt_policy policy;
    _Atomic uint32_t policy_kind; /* of `policy`, for statistics */
    _Atomic uint64_t pending;     /* ticks that fired and are neither accepted nor given up */
    bool held;                    /* stopped for a moment: what waits, waits for a start */
    bool discarded_last;          /* DISCARD */
    uint64_t next_issue_ns;       /* DELAY, CATCHUP: not before */
    hv_ns tick_due;               /* of the tick hv_vpt_expire() told of last */
    uint64_t last_tick_ns;        /* when that was, of a periodic one; 0: never */
    unsigned taker;               /* the vCPU that took the last one */
    bool awaits;                  /* an issued tick is not accepted yet */
    bool raised_again;            /* and its interrupt was raised more than once */
    hv_ns awaited_due;            /* of the earliest of those */
    uint64_t last_late;           /* of the tick accepted last, in ns */
    struct hv_vpt_counters counters;
    struct hv_histogram late, jitter;
    /* Set at creation, may be NULL: a word that has @awaited_bit set while `awaits` is. */
    _Atomic uint32_t *awaited;
    uint32_t awaited_bit;
    struct hv_log_limit log;
};

struct hv_vpt_strategy;

/* All vCPUs of a machine, and what its timers have in common. */
struct hv_vpt_set_config {
    unsigned vcpus;
    struct hv_timer_queue *const *queues; /* one a vCPU */
    const struct hv_clock *clock;         /* borrowed: the machine's. NULL: that of the queues */
    /** A tick is due: have the vCPU call hv_vpt_update(). Any lock. */
    void (*kick)(void *context, unsigned vcpu);
    void *context;
    const struct hv_vpt_strategy *strategy; /* NULL: hv_vpt_pend */
};

/** -ENOMEM. */
HV_MUST_CHECK int hv_vpt_set_create(const struct hv_vpt_set_config *config,
                                    struct hv_vpt_set **set_out);
/** All timers are finished. NULL is accepted. */
void hv_vpt_set_destroy(struct hv_vpt_set *set);

/**
 * The exit path of vCPU @index, on its thread: have the devices deliver what is due, the earliest first.
 * No lock held.
 */
void hv_vpt_update(struct hv_vpt_set *set, unsigned index);

/** vCPU @index runs on another worker from now on: its timers fire there. Its thread, no lock held. */
void hv_vpt_rehome(struct hv_vpt_set *set, unsigned index, struct hv_timer_queue *queue);

/** Make a stopped timer of vCPU @index, on whose thread @expired is called. */
void hv_vpt_init(struct hv_vpt *vpt, struct hv_vpt_set *set, enum hv_vpt_source source,
                 unsigned index, void (*expired)(void *context), void *context);
/**
 * One that is no vCPU's: the worker on which vCPU 0 of @set was at home at first calls @expired. @rank is
 * the lowest lock that takes.
 */
void hv_vpt_init_plain(struct hv_vpt *vpt, const struct hv_vpt_set *set, enum hv_vpt_source source,
                       void (*expired)(void *context), void *context, enum hv_rank rank);
/** Stop for good; waits for a running callback. Zeroed memory is accepted. */
void hv_vpt_finish(struct hv_vpt *vpt);

/** Its ticks go to vCPU @index from here on, what is pending too. Device lock held; not a LAPIC's. */
void hv_vpt_retarget(struct hv_vpt *vpt, unsigned index);

/** What the source does when nobody says otherwise. */
struct hv_vpt_policy hv_vpt_default_policy(enum hv_vpt_source source);
/** NULL, or what is wrong with it for the source: a sentence that names value and range. */
const char *hv_vpt_policy_check(enum hv_vpt_source source, const struct hv_vpt_policy *policy);
/** From the next tick on; backlog that the new one does not keep is given up. Device lock held. */
void hv_vpt_set_policy(struct hv_vpt *vpt, const struct hv_vpt_policy *policy);

/**
 * Start, or restart: first expiry at @first, then each @period_ns (0: once).
 *
 * A guest that writes the registers of a source that ticks again, with the same period, loses none
 * of the ticks that wait for it: their grid is another, perhaps. A new period gives them up, as a
 * stop does.
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

/** Stop. As for start, one late callback may still come. What was issued may be accepted still. */
void hv_vpt_stop(struct hv_vpt *vpt);
/** Stop until the guest has written the other half of a period: what waits is not given up yet. */
void hv_vpt_hold(struct hv_vpt *vpt);
/** Stop, and expect no acceptance: where its interrupt waited is reset, too. */
void hv_vpt_reset(struct hv_vpt *vpt);

/**
 * The first thing in `expired`, with the device's lock held: is a tick to be issued at @now, the
 * moment that all that the device does is as of? What fell due is
 * accounted for, and the next one of a periodic timer armed. False for a callback of a previous life.
 * After true the device says what became of the tick: hv_vpt_issue(), _merge() or _skip().
 */
HV_MUST_CHECK bool hv_vpt_expire(struct hv_vpt *vpt, hv_ns now);

/** The tick's interrupt has been raised. Device lock held. */
void hv_vpt_issue(struct hv_vpt *vpt);
/** It was raised before, and has not been seen to. Device lock held. */
void hv_vpt_merge(struct hv_vpt *vpt);
/** The guest wants no interrupt. Device lock held. */
void hv_vpt_skip(struct hv_vpt *vpt);
/**
 * vCPU @index has taken an interrupt that may be an issued tick's. Device lock held. The timer follows
 * whoever takes its ticks two times in a row: the guest has routed them there, whichever controllers
 * they go through.
 *
 * @wire  what pulses; NULL when the wire stays high until the device is seen to, or the tick cannot
 *        be raised again between the taking and this. Else, should that have been, what was raised
 *        is the next tick's: it waits at a controller, and is not raised a second time.
 */
void hv_vpt_accept(struct hv_vpt *vpt, unsigned index, const struct hv_irq_line *wire);

/** What kept ticks from being raised is over: its wire has fallen. Device lock held. */
void hv_vpt_ready(struct hv_vpt *vpt);

/** Time from @now to the next point of the grid, or expiry, in ns (UINT64_MAX when stopped). Device lock
 * held. */
uint64_t hv_vpt_remaining_ns(const struct hv_vpt *vpt, hv_ns now);

/**
 * Let no callback run until hv_vpt_resume(); waits for a running one. The timer goes on by its
 * clock: what falls due meanwhile counts as missed. No lock of the declared rank or above held.
 */
void hv_vpt_pause(struct hv_vpt *vpt);
/** The same without a wait: callbacks under way end, no other begins. Any thread, any lock. */
void hv_vpt_halt(struct hv_vpt *vpt);
/** After hv_vpt_pause(). */
void hv_vpt_resume(struct hv_vpt *vpt);
/** The clock has moved against its source: what is due is due at another moment of that. Device lock
 * held. */
void hv_vpt_rearm(struct hv_vpt *vpt);

/* What a device's registers do not tell of its timer. */
struct hv_vpt_record {
    uint64_t pending;
    int64_t next_issue_ns;    /* from now; 0: at once, or none waits for it */
    uint64_t awaited_late_ns; /* how long ago the tick that is awaited was due */
    uint64_t threshold_ns, limit_ns;
    uint64_t held_ticks; /* period of one that is held; else 0 */
    uint32_t policy, slew_per_cent;
    uint8_t awaits, discarded_last, reserved[6];
};

/** As of @now, like the rest of the device's record. Device lock held. */
void hv_vpt_save(const struct hv_vpt *vpt, hv_ns now, struct hv_vpt_record *record_out);
/**
 * NULL, or the name of the field that no timer of the source can have so. @ticks: the device's own
 * record says that it runs, and is periodic.
 */
const char *hv_vpt_record_check(enum hv_vpt_source source, const struct hv_vpt_record *record,
                                bool ticks);
/** A record that is right, after the device has started or stopped the timer. Device lock held. */
void hv_vpt_load(struct hv_vpt *vpt, hv_ns now, const struct hv_vpt_record *record);

/** Abort unless the law above holds. Device lock held, no tick between expire and issue. */
void hv_vpt_check(const struct hv_vpt *vpt);
