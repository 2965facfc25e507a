/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The snapshots, name by name. */
#include "cli/stats-json.h"

#include <json-glib/json-glib.h>

static void add_stats(JsonObject *object, const struct hv_stat *stats, gsize count)
{
    for (gsize i = 0; i < count; i++) {
        if (stats[i].is_text) {
            json_object_set_string_member(object, stats[i].name, stats[i].text);
        } else {
            json_object_set_int_member(object, stats[i].name, (gint64)stats[i].value);
        }
    }
}

static void add_domain(JsonObject *object, struct hv_domain *domain)
{
    gsize room = hv_domain_get_stats(domain, NULL, 0);
    g_autofree struct hv_stat *stats = g_new0(struct hv_stat, room);

    add_stats(object, stats, MIN(hv_domain_get_stats(domain, stats, room), room));
}

static void add_core(JsonObject *object, struct hv_core *core)
{
    gsize room = hv_core_get_stats(core, NULL, 0);
    g_autofree struct hv_stat *stats = g_new0(struct hv_stat, room);

    add_stats(object, stats, MIN(hv_core_get_stats(core, stats, room), room));
}

char *lodge_stats_to_json(struct hv_core *core, struct hv_domain *domain)
{
    g_autoptr(JsonObject) object = json_object_new();
    g_autoptr(JsonNode) node = NULL;

    add_domain(object, domain);
    add_core(object, core);
    node = json_node_init_object(json_node_alloc(), object);
    return json_to_string(node, FALSE);
}
