/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * All statistics of one machine, once a second for as long as the watch is there; one question at a
 * time, asked by a worker.
 *
 * Signal "looked" with LodgeStats, borrowed for the time of it; or with NULL and a sentence why there
 * are none. Context: main thread.
 */
#pragma once

#include "app/model/machine-item.h"
#include "client/stats.h"

#include <gio/gio.h>

#define LODGE_TYPE_STATS_WATCH (lodge_stats_watch_get_type())
G_DECLARE_FINAL_TYPE(LodgeStatsWatch, lodge_stats_watch, LODGE, STATS_WATCH, GObject)

LodgeStatsWatch *lodge_stats_watch_new(LodgeMachineItem *machine);
/** Look no more: what is under way tells nobody. */
void lodge_stats_watch_stop(LodgeStatsWatch *watch);
