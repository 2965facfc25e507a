/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Statistics of a connection's machines, for the command line. */
#pragma once

#include "cli/connection.h"
#include "cli/table.h"
#include "client/stats.h"

/**
 * Fetch those of all machines whose names are, or match, one of @words; of all when there are none.
 *
 * Returns LodgeStats in the order of names, owned by the caller; NULL with an error, also for a word
 * that means no machine.
 */
GPtrArray *lodge_stats_fetch(virConnectPtr connection, GStrv words, GError **error);

/**
 * Add a row for each member of a group: "timer" with "timer.count" and "timer.0.policy".
 *
 * @columns  of @table. The first is the machine's name; the others' keys are the members' names.
 *
 * Returns FALSE when the machine has no such group at all.
 */
gboolean lodge_stats_add_group(const LodgeStats *stats, const char *group, LodgeTable *table,
                               const LodgeColumn *columns, guint count);
