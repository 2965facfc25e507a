/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What --timer says of one timer: that there is none, what becomes of its missed ticks, what it shows. */
#pragma once

#include "config/machine-time.h"

/**
 * Parse one of
 *
 *     NAME,present=no
 *     NAME,policy=POLICY[,threshold=MS][,slew=PERCENT][,limit=MS]
 *     rtc,track=wall|guest                  also with a policy
 *
 * into @time. A limit of 0 is none, and 10 s are the default. All of a timer stands in one option, and
 * once.
 *
 * @taken  a bit for each LodgeTimer that an option was about already; 0 at first.
 *
 * Returns FALSE with an error that names the value and what is allowed.
 */
gboolean lodge_timer_option_parse(LodgeMachineTime *time, guint *taken, const char *text,
                                  GError **error);
