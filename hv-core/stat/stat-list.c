/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A flat list of statistics: see stat-list.h. */
#include "stat/stat-list.h"

#include "base/format.h"

#include <string.h>

static struct hv_stat *next_stat(struct hv_stat_list *list, const char *name, va_list args)
{
    struct hv_stat *stat = list->count < list->max ? &list->stats[list->count] : NULL;

    list->count++;
    if (stat) {
        memset(stat, 0, sizeof(*stat));
        hv_format_args(stat->name, sizeof(stat->name), name, args);
    }
    return stat;
}

void hv_stat_add(struct hv_stat_list *list, uint64_t value, const char *name, ...)
{
    struct hv_stat *stat;
    va_list args;

    va_start(args, name);
    stat = next_stat(list, name, args);
    va_end(args);
    if (stat) {
        stat->value = value;
    }
}

void hv_stat_add_text(struct hv_stat_list *list, const char *text, const char *name, ...)
{
    struct hv_stat *stat;
    va_list args;

    va_start(args, name);
    stat = next_stat(list, name, args);
    va_end(args);
    if (stat) {
        stat->is_text = true;
        hv_format(stat->text, sizeof(stat->text), "%s", text);
    }
}
