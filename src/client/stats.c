/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Typed parameters, as numbers and texts in a table by name. */
#include "client/stats.h"

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

void lodge_stats_free(LodgeStats *stats)
{
    if (!stats) {
        return;
    }
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

LodgeStats *lodge_stats_new(const virDomainStatsRecord *record)
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
