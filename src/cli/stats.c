/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Statistics of those machines that words mean, and tables of their groups. */
#include "cli/stats.h"

#include "cli/machines.h"
#include "common/i18n.h"

#include <string.h>

static void free_stats(gpointer stats)
{
    lodge_stats_free(stats);
}

static int by_name(gconstpointer a, gconstpointer b)
{
    const LodgeStats *left = *(LodgeStats *const *)a, *right = *(LodgeStats *const *)b;

    return lodge_machine_compare_names(left->name, right->name);
}

/* Take out those that no word means. FALSE: a word means nobody. */
static gboolean keep_meant(GPtrArray *all, GStrv words, GError **error)
{
    guint count = g_strv_length(words);
    g_autofree gboolean *met = g_new0(gboolean, count + 1);

    for (guint i = all->len; count > 0 && i-- > 0;) {
        const LodgeStats *stats = g_ptr_array_index(all, i);
        gboolean meant = FALSE;

        for (guint j = 0; j < count; j++) {
            gboolean one = lodge_machine_is_meant(stats->name, words[j]);

            meant = meant || one;
            met[j] = met[j] || one;
        }
        if (!meant) {
            g_ptr_array_remove_index(all, i);
        }
    }
    for (guint j = 0; j < count; j++) {
        if (!met[j]) {
            return lodge_machine_refuse_word(error, words[j]);
        }
    }
    return TRUE;
}

GPtrArray *lodge_stats_fetch(virConnectPtr connection, GStrv words, GError **error)
{
    virDomainStatsRecordPtr *records = NULL;
    g_autoptr(GPtrArray) all = NULL;
    int count = virConnectGetAllDomainStats(connection, 0, &records, 0);

    if (count < 0) {
        lodge_connection_set_error(error, _("Cannot read the machines' statistics"));
        return NULL;
    }
    all = g_ptr_array_new_with_free_func(free_stats);
    for (int i = 0; i < count; i++) {
        g_ptr_array_add(all, lodge_stats_new(records[i]));
    }
    virDomainStatsRecordListFree(records);
    g_ptr_array_sort(all, by_name);
    return keep_meant(all, words, error) ? g_steal_pointer(&all) : NULL;
}

static void add_member(const LodgeStats *stats, const char *name, LodgeTable *table, guint column,
                       LodgeCellKind kind)
{
    guint64 number;

    if (kind == LODGE_CELL_TEXT) {
        lodge_table_set_text(table, column, lodge_stats_text(stats, name));
    } else if (lodge_stats_number(stats, name, &number)) {
        lodge_table_set_number(table, column, number);
    }
}

gboolean lodge_stats_add_group(const LodgeStats *stats, const char *group, LodgeTable *table,
                               const LodgeColumn *columns, guint count)
{
    g_autofree char *total = g_strdup_printf("%s.count", group);
    guint64 members;

    if (!lodge_stats_number(stats, total, &members)) {
        return FALSE;
    }
    for (guint i = 0; i < MIN(members, LODGE_STATS_GROUPS_MOST); i++) {
        lodge_table_add_row(table);
        lodge_table_set_text(table, 0, stats->name);
        for (guint j = 1; j < count; j++) {
            g_autofree char *name = g_strdup_printf("%s.%u.%s", group, i, columns[j].key);

            add_member(stats, name, table, j, columns[j].kind);
        }
    }
    return TRUE;
}
