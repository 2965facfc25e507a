/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Typed parameters, as numbers and texts in a table by name. */
#include "cli/stats.h"

#include "cli/machines.h"
#include "common/i18n.h"

#include <string.h>

typedef struct {
    gboolean is_text;
    guint64 number;
    char *text;
} Value;

static void value_free(gpointer data)
{
    Value *value = data;

    g_free(value->text);
    g_free(value);
}

static void stats_free(gpointer data)
{
    LodgeStats *stats = data;

    g_free(stats->name);
    g_hash_table_unref(stats->values);
    g_free(stats);
}

static guint64 from_signed(long long number)
{
    return number > 0 ? (guint64)number : 0;
}

static Value *value_new(const virTypedParameter *parameter)
{
    Value *value = g_new0(Value, 1);

    switch (parameter->type) {
    case VIR_TYPED_PARAM_INT:
        value->number = from_signed(parameter->value.i);
        break;
    case VIR_TYPED_PARAM_UINT:
        value->number = parameter->value.ui;
        break;
    case VIR_TYPED_PARAM_LLONG:
        value->number = from_signed(parameter->value.l);
        break;
    case VIR_TYPED_PARAM_ULLONG:
        value->number = parameter->value.ul;
        break;
    case VIR_TYPED_PARAM_DOUBLE:
        value->number = parameter->value.d > 0 ? (guint64)MIN(parameter->value.d, 1e18) : 0;
        break;
    case VIR_TYPED_PARAM_BOOLEAN:
        value->number = parameter->value.b != 0;
        break;
    case VIR_TYPED_PARAM_STRING:
        value->is_text = TRUE;
        value->text = g_utf8_make_valid(parameter->value.s ? parameter->value.s : "", -1);
        break;
    }
    return value;
}

static LodgeStats *stats_new(const virDomainStatsRecord *record)
{
    LodgeStats *stats = g_new0(LodgeStats, 1);

    stats->name = g_utf8_make_valid(virDomainGetName(record->dom), -1);
    stats->values = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, value_free);
    for (int i = 0; i < record->nparams; i++) {
        g_hash_table_replace(stats->values, g_strdup(record->params[i].field),
                             value_new(&record->params[i]));
    }
    return stats;
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
    all = g_ptr_array_new_with_free_func(stats_free);
    for (int i = 0; i < count; i++) {
        g_ptr_array_add(all, stats_new(records[i]));
    }
    virDomainStatsRecordListFree(records);
    g_ptr_array_sort(all, by_name);
    return keep_meant(all, words, error) ? g_steal_pointer(&all) : NULL;
}

gboolean lodge_stats_number(const LodgeStats *stats, const char *name, guint64 *number_out)
{
    const Value *value = g_hash_table_lookup(stats->values, name);
    gboolean good = value && !value->is_text;

    *number_out = good ? value->number : 0;
    return good;
}

const char *lodge_stats_text(const LodgeStats *stats, const char *name)
{
    const Value *value = g_hash_table_lookup(stats->values, name);

    return value ? value->text : NULL;
}

guint64 lodge_stats_sum(const LodgeStats *stats, const char *prefix)
{
    GHashTableIter iter;
    gpointer name, data;
    guint64 sum = 0;

    g_hash_table_iter_init(&iter, stats->values);
    while (g_hash_table_iter_next(&iter, &name, &data)) {
        sum += g_str_has_prefix(name, prefix) ? ((Value *)data)->number : 0;
    }
    return sum;
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
