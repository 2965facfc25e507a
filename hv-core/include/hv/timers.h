/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A machine's time and its virtual timers, as its owner sees them: which timers there are, what becomes
 * of ticks that a vCPU was not there for, and of time in which the machine does not run.
 */
#pragma once

#include <hv/types.h>

enum hv_vpt_source {
    HV_VPT_LAPIC,
    HV_VPT_PIT,
    HV_VPT_RTC,
    HV_VPT_HPET0,
    HV_VPT_HPET1,
    HV_VPT_HPET2,
    HV_VPT_PM,
    HV_VPT_SOURCES,
};

/* What becomes of ticks that were missed: libvirt's tickpolicy. */
enum hv_tick_policy {
    HV_TICK_MERGE,   /* one late tick for all of them; the next on the grid */
    HV_TICK_DISCARD, /* none; the next on the grid. Never two times in a row */
    HV_TICK_DELAY,   /* all of them, each a period after the one before */
    HV_TICK_CATCHUP, /* all of them, faster than that */
};
#define HV_TICK_POLICIES (HV_TICK_CATCHUP + 1)

struct hv_vpt_policy {
    enum hv_tick_policy kind;
    /* CATCHUP only. */
    uint64_t threshold_ns;  /* fewer missed ticks than this come at the normal rate */
    uint32_t slew_per_cent; /* of the normal rate, when they come faster: 101 to 10,000 */
    /* DELAY and CATCHUP. */
    uint64_t limit_ns; /* older ticks are given up; 0: none is */
};

/*
 * What becomes of time in which a machine cannot run: while it is paused, or saved, or its host sleeps.
 * One that only waits for a CPU is not stopped: its time goes on.
 */
enum hv_clock_policy {
    HV_CLOCK_ADVANCE, /* it passes for the guest, too: its clocks are right afterwards */
    HV_CLOCK_FREEZE,  /* the guest does not see it: its clocks are late by that afterwards */
};

/* What the real-time clock shows: libvirt's track. */
enum hv_rtc_track {
    HV_RTC_TRACK_WALL,  /* the host's wall clock, also when that is set */
    HV_RTC_TRACK_GUEST, /* the guest's own time, which began at the host's */
};

/* Timers that a machine may lack: libvirt's names. */
enum hv_timer_part {
    HV_TIMER_PIT = 1u << 0,
    HV_TIMER_RTC = 1u << 1,
    HV_TIMER_HPET = 1u << 2,
    HV_TIMER_LAPIC = 1u << 3, /* in all machines: to ask for one without is refused */
    HV_TIMER_TSC = 1u << 4,
    HV_TIMER_KVMCLOCK = 1u << 5,
    HV_TIMER_ALL = (1u << 6) - 1,
};
