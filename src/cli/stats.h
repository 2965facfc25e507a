/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Statistics of a connection's machines, by the names of docs/stats.md.
 *
 * They come from virConnectGetAllDomainStats(), from whatever hypervisor is at its other end: each may
 * be missing, and counts are believed up to LODGE_STATS_GROUPS_MOST.
 */
#pragma once

#include "cli/connection.h"
#include "cli/table.h"

#define LODGE_STATS_GROUPS_MOST 4096u

/* One machine's. */
typedef struct {
    char *name;
    GHashTable *values; /* private */
} LodgeStats;

/**
 * Fetch those of all machines whose names are, or match, one of @words; of all when there are none.
 *
 * Returns LodgeStats in the order of names, owned by the caller; NULL with an error, also for a word
 * that means no machine.
 */
GPtrArray *lodge_stats_fetch(virConnectPtr connection, GStrv words, GError **error);

/** A number; FALSE, and 0, when there is none of that name. */
gboolean lodge_stats_number(const LodgeStats *stats, const char *name, guint64 *number_out);
/** A text, borrowed; NULL when there is none. */
const char *lodge_stats_text(const LodgeStats *stats, const char *name);
/** The sum of all numbers whose names begin with @prefix. */
guint64 lodge_stats_sum(const LodgeStats *stats, const char *prefix);

/**
 * Add a row for each member of a group: "timer" with "timer.count" and "timer.0.policy".
 *
 * @columns  of @table. The first is the machine's name; the others' keys are the members' names.
 *
 * Returns FALSE when the machine has no such group at all.
 */
gboolean lodge_stats_add_group(const LodgeStats *stats, const char *group, LodgeTable *table,
                               const LodgeColumn *columns, guint count);
