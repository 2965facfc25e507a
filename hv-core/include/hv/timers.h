/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A machine's virtual timers, as its owner sees them: which there are, and what becomes of ticks that a
 * vCPU was not there for.
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
