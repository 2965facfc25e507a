/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a machine's clock and timers are to be, as the core takes it: where a definition's <clock> and a
 * command line's --timer come together.
 */
#pragma once

#include "config/domain-config.h"

#include <hv/timers.h>

#define LODGE_SLEW_DEFAULT_PERCENT 200u
/* The core's own, for the timers that keep their missed ticks by default. */
#define LODGE_LIMIT_DEFAULT_NS     (10 * HV_NS_PER_S)

typedef struct {
    enum hv_clock_policy clock_policy;
    enum hv_rtc_track rtc_track;
    guint timers_absent; /* enum hv_timer_part */
    guint policies; /* a bit for each enum hv_vpt_source that has one: others have the core's */
    struct hv_vpt_policy policy[HV_VPT_SOURCES];
} LodgeMachineTime;

/** libvirt's name of a timer, and the inverse: FALSE when none is called so. */
const char *lodge_timer_name(LodgeTimer timer);
gboolean lodge_timer_find(const char *name, LodgeTimer *timer_out);

/** Whose the policy of @source is: LODGE_TIMER_COUNT when nobody's who is known by name. */
LodgeTimer lodge_timer_of_source(enum hv_vpt_source source);

/** The machine lacks @timer. */
void lodge_machine_time_set_absent(LodgeMachineTime *time, LodgeTimer timer);

/** What becomes of missed ticks of @timer, as far as it has any. */
void lodge_machine_time_set_policy(LodgeMachineTime *time, LodgeTimer timer,
                                   const struct hv_vpt_policy *policy);

/**
 * What a definition says. <catchup>'s threshold and limit are milliseconds, its slew per cent.
 *
 * Returns FALSE with LODGE_ERROR_INPUT naming the value, and what is allowed, for what libvirt knows and
 * the core has not.
 */
gboolean lodge_domain_config_get_time(const LodgeDomainConfig *config, LodgeMachineTime *time_out,
                                      GError **error);
