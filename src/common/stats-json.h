/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Statistics as a list, and as one flat JSON object (docs/stats.md). */
#pragma once

#include <hv/domain.h>
#include <json-glib/json-glib.h>

/**
 * A snapshot of the domain's statistics, or of the core's own when @domain is NULL. A core that is another
 * process makes the whole list for each look, however little room there is: one look is enough for most.
 *
 * Returns a list of *@count_out, for g_free().
 */
struct hv_stat *lodge_stats_take(struct hv_core *core, struct hv_domain *domain, gsize *count_out);

/** Add names and values as members of @object. */
void lodge_stats_add_to(JsonObject *object, const struct hv_stat *stats, gsize count);

/** All locks of all machines and of the core, with whole distributions; owned by the caller. */
JsonNode *lodge_lock_stats_to_node(struct hv_core *core);

/** The same as text; free with g_free(). */
char *lodge_lock_stats_to_json(struct hv_core *core);
/** All statistics of the domain, and those of the core without its locks, as text. */
char *lodge_stats_to_json(struct hv_core *core, struct hv_domain *domain);
