/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The snapshots, name by name, and distributions, packed. */
#include "common/stats-json.h"

#include <hv/lock-stats.h>

/* Of a machine of a few virtual CPUs, and of a core. */
#define STATS_USUAL 1024u

void lodge_stats_add_to(JsonObject *object, const struct hv_stat *stats, gsize count)
{
    for (gsize i = 0; i < count; i++) {
        if (stats[i].is_text) {
            json_object_set_string_member(object, stats[i].name, stats[i].text);
        } else {
            json_object_set_int_member(object, stats[i].name, (gint64)stats[i].value);
        }
    }
}

struct hv_stat *lodge_stats_take(struct hv_core *core, struct hv_domain *domain, gsize *count_out)
{
    gsize room = 0, count = STATS_USUAL;
    struct hv_stat *stats = NULL;

    for (guint look = 0; look < 2 && count > room; look++) {
        room = count;
        stats = g_renew(struct hv_stat, stats, room);
        count = domain ? hv_domain_get_stats(domain, stats, room)
                       : hv_core_get_stats(core, stats, room);
    }
    *count_out = MIN(count, room);
    return stats;
}

static void take_stats(JsonObject *object, struct hv_core *core, struct hv_domain *domain)
{
    gsize count;
    g_autofree struct hv_stat *stats = lodge_stats_take(core, domain, &count);

    lodge_stats_add_to(object, stats, count);
}

static void add_histogram(JsonObject *object, const struct hv_lock_histogram *histogram)
{
    static const char *const spans[] = {
        [HV_LOCK_HISTOGRAM_WAIT] = "wait",
        [HV_LOCK_HISTOGRAM_HOLD] = "hold",
        [HV_LOCK_HISTOGRAM_ACQUIRE] = "acquire",
    };
    g_autofree guint32 *counts = g_new(guint32, histogram->buckets);
    g_autofree char *name = g_strdup_printf("lock.%" G_GSIZE_FORMAT ".%s.histogram", histogram->row,
                                            spans[histogram->span]);
    g_autofree char *text = NULL;

    for (guint i = 0; i < histogram->buckets; i++) {
        counts[i] = GUINT32_TO_LE(histogram->counts[i]);
    }
    text = g_base64_encode((const guchar *)counts, histogram->buckets * sizeof(*counts));
    json_object_set_string_member(object, name, text);
}

JsonNode *lodge_lock_stats_to_node(struct hv_core *core)
{
    g_autoptr(JsonObject) object = json_object_new();
    g_autofree struct hv_lock_histogram *histograms = NULL;
    g_autofree struct hv_stat *stats = NULL;
    struct hv_lock_lists lists = {0};

    hv_core_get_lock_lists(core, &lists);
    lists.stat_max = lists.stat_count;
    lists.histogram_max = lists.histogram_count;
    lists.stats = stats = g_new0(struct hv_stat, lists.stat_max);
    lists.histograms = histograms = g_new0(struct hv_lock_histogram, lists.histogram_max);
    hv_core_get_lock_lists(core, &lists);
    lodge_stats_add_to(object, stats, MIN(lists.stat_count, lists.stat_max));
    for (gsize i = 0; i < MIN(lists.histogram_count, lists.histogram_max); i++) {
        add_histogram(object, &histograms[i]);
    }
    return json_node_init_object(json_node_alloc(), object);
}

char *lodge_lock_stats_to_json(struct hv_core *core)
{
    g_autoptr(JsonNode) node = lodge_lock_stats_to_node(core);

    return json_to_string(node, FALSE);
}

char *lodge_stats_to_json(struct hv_core *core, struct hv_domain *domain)
{
    g_autoptr(JsonNode) node = json_node_new(JSON_NODE_OBJECT);
    JsonObject *object = json_object_new();

    json_node_take_object(node, object);
    take_stats(object, core, domain);
    take_stats(object, core, NULL);
    return json_to_string(node, FALSE);
}
