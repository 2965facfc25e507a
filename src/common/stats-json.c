/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The snapshots, name by name, and distributions, packed. */
#include "common/stats-json.h"

#include <hv/lock-stats.h>

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
    add_stats(object, stats, MIN(lists.stat_count, lists.stat_max));
    for (gsize i = 0; i < MIN(lists.histogram_count, lists.histogram_max); i++) {
        add_histogram(object, &histograms[i]);
    }
    return json_node_init_object(json_node_alloc(), object);
}

JsonNode *lodge_stats_to_node(struct hv_core *core, struct hv_domain *domain)
{
    g_autoptr(JsonObject) object = json_object_new();

    add_domain(object, domain);
    add_core(object, core);
    return json_node_init_object(json_node_alloc(), object);
}

char *lodge_lock_stats_to_json(struct hv_core *core)
{
    g_autoptr(JsonNode) node = lodge_lock_stats_to_node(core);

    return json_to_string(node, FALSE);
}

char *lodge_stats_to_json(struct hv_core *core, struct hv_domain *domain)
{
    g_autoptr(JsonNode) node = lodge_stats_to_node(core, domain);

    return json_to_string(node, FALSE);
}
