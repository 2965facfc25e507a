/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The snapshot, name by name. */
#include "cli/stats-json.h"

#include <json-glib/json-glib.h>

char *lodge_stats_to_json(struct hv_domain *domain)
{
    gsize room = hv_domain_get_stats(domain, NULL, 0);
    g_autofree struct hv_stat *stats = g_new0(struct hv_stat, room);
    gsize count = MIN(hv_domain_get_stats(domain, stats, room), room);
    g_autoptr(JsonObject) object = json_object_new();
    g_autoptr(JsonNode) node = NULL;

    for (gsize i = 0; i < count; i++) {
        if (stats[i].is_text) {
            json_object_set_string_member(object, stats[i].name, stats[i].text);
        } else {
            json_object_set_int_member(object, stats[i].name, (gint64)stats[i].value);
        }
    }
    node = json_node_init_object(json_node_alloc(), object);
    return json_to_string(node, FALSE);
}
