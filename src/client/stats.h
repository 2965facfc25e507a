/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Statistics of a machine, by the names of docs/stats.md.
 *
 * They come from virConnectGetAllDomainStats(), from whatever hypervisor is at its other end: each may
 * be missing, and counts are believed up to LODGE_STATS_GROUPS_MOST.
 */
#pragma once

#include "client/connection.h"

#define LODGE_STATS_GROUPS_MOST 4096u

/* One machine's. */
typedef struct {
    char *name;
    GHashTable *values; /* private */
} LodgeStats;

/** Of a record, which stays the caller's. Free with lodge_stats_free(). */
LodgeStats *lodge_stats_new(const virDomainStatsRecord *record);
/** NULL is accepted. */
void lodge_stats_free(LodgeStats *stats);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LodgeStats, lodge_stats_free)

/** A number; FALSE, and 0, when there is none of that name. */
gboolean lodge_stats_number(const LodgeStats *stats, const char *name, guint64 *number_out);
/** A text, borrowed; NULL when there is none. */
const char *lodge_stats_text(const LodgeStats *stats, const char *name);
/** The sum of all numbers whose names begin with @prefix. */
guint64 lodge_stats_sum(const LodgeStats *stats, const char *prefix);
