/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Statistics as one flat JSON object (docs/stats.md). */
#pragma once

#include <hv/domain.h>
#include <json-glib/json-glib.h>

/** All statistics of the domain, and those of the core without its locks; owned by the caller. */
JsonNode *lodge_stats_to_node(struct hv_core *core, struct hv_domain *domain);

/** All locks of all machines and of the core, with whole distributions; owned by the caller. */
JsonNode *lodge_lock_stats_to_node(struct hv_core *core);

/* The same as text; free with g_free(). */
char *lodge_stats_to_json(struct hv_core *core, struct hv_domain *domain);
char *lodge_lock_stats_to_json(struct hv_core *core);
