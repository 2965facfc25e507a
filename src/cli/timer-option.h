/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What --timer says of one timer's missed ticks. */
#pragma once

#include <glib.h>

#include <hv/timers.h>

typedef struct {
    enum hv_vpt_source first, last; /* the HPET has three */
    struct hv_vpt_policy policy;
    gboolean no_limit;
    char *text; /* as it was given */
} LodgeTimerOption;

/**
 * Parse NAME,policy=POLICY[,threshold=MS][,slew=PERCENT][,limit=MS]. A limit of 0 is none, and
 * 10 s are the default.
 *
 * Returns FALSE with an error that names the value and what is allowed.
 */
gboolean lodge_timer_option_parse(LodgeTimerOption *option, const char *text, GError **error);
void lodge_timer_option_clear(LodgeTimerOption *option);
