/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The table of locks: rows of lock.<i>.* put together again, sorted, and laid out in columns.
 *
 *     LOCK                    KIND   TAKEN  WAITED  SLEPT    WAIT  …
 *     run/engine.code         mutex 332074     180      6   134µs  …
 */
#include "cli/stats-locks.h"

#include "common/i18n.h"
#include "common/units.h"

#include <string.h>

typedef struct {
    const char *domain, *class_name, *kind;
    guint64 instance, acquired, contended, parked, lost, wait_total, wait_p99, hold_p50, hold_p99,
        acquire_p50;
} Row;

static void take_text(Row *row, const char *field, const char *text)
{
    if (strcmp(field, "domain") == 0) {
        row->domain = text;
    } else if (strcmp(field, "class") == 0) {
        row->class_name = text;
    } else if (strcmp(field, "kind") == 0) {
        row->kind = text;
    }
}

static void take_number(Row *row, const char *field, guint64 value)
{
    const struct {
        const char *name;
        guint64 *place;
    } fields[] = {
        {"instance", &row->instance},       {"acquired", &row->acquired},
        {"contended", &row->contended},     {"parked", &row->parked},
        {"wait.total", &row->wait_total},   {"wait.p99", &row->wait_p99},
        {"hold.p50", &row->hold_p50},       {"hold.p99", &row->hold_p99},
        {"acquire.p50", &row->acquire_p50}, {"lost", &row->lost},
    };

    for (gsize i = 0; i < G_N_ELEMENTS(fields); i++) {
        if (strcmp(field, fields[i].name) == 0) {
            *fields[i].place = value;
        }
    }
}

/* Texts stay where they are, in @stats. */
static GArray *read_rows(const struct hv_stat *stats, gsize count)
{
    GArray *rows = g_array_new(FALSE, TRUE, sizeof(Row));

    for (gsize i = 0; i < count; i++) {
        char *field = NULL;
        guint64 number;

        if (!g_str_has_prefix(stats[i].name, "lock.") ||
            !g_ascii_isdigit(stats[i].name[strlen("lock.")])) {
            continue;
        }
        number = g_ascii_strtoull(stats[i].name + strlen("lock."), &field, 10);
        if (number >= rows->len) {
            g_array_set_size(rows, (guint)number + 1);
        }
        if (stats[i].is_text) {
            take_text(&g_array_index(rows, Row, number), field + 1, stats[i].text);
        } else {
            take_number(&g_array_index(rows, Row, number), field + 1, stats[i].value);
        }
    }
    return rows;
}

static int worst_first(const void *a, const void *b)
{
    const Row *left = a, *right = b;

    if (left->lost != right->lost) {
        return left->lost > right->lost ? -1 : 1;
    }
    return left->acquired > right->acquired ? -1 : left->acquired < right->acquired;
}

/* Right-aligned in @width columns; "µ" is one of them and two bytes. */
static void add_span(GString *text, int width, guint64 ns)
{
    g_autofree char *span = lodge_format_span(ns);

    g_string_append_printf(text, "%*s%s", MAX(0, width - (int)g_utf8_strlen(span, -1)), "", span);
}

static void add_row(GString *text, const Row *row)
{
    g_autofree char *name =
        g_strdup_printf("%s/%s[%" G_GUINT64_FORMAT "]", row->domain[0] ? row->domain : "core",
                        row->class_name, row->instance);

    g_string_append_printf(
        text, "%-30s %-5s %10" G_GUINT64_FORMAT " %8" G_GUINT64_FORMAT " %8" G_GUINT64_FORMAT, name,
        row->kind, row->acquired, row->contended, row->parked);
    add_span(text, 9, row->wait_total);
    add_span(text, 9, row->wait_p99);
    add_span(text, 9, row->hold_p50);
    add_span(text, 9, row->hold_p99);
    add_span(text, 9, row->acquire_p50);
    g_string_append_c(text, '\n');
}

char *lodge_stats_to_lock_table(struct hv_core *core)
{
    gsize room = hv_core_get_lock_stats(core, NULL, 0);
    g_autofree struct hv_stat *stats = g_new0(struct hv_stat, room);
    g_autoptr(GArray) rows = NULL;
    GString *text = g_string_new(NULL);

    rows = read_rows(stats, MIN(hv_core_get_lock_stats(core, stats, room), room));
    g_array_sort(rows, worst_first);
    g_string_append_printf(text, "%-30s %-5s %10s %8s %8s%9s%9s%9s%9s%9s\n", _("LOCK"), _("KIND"),
                           _("TAKEN"), _("WAITED"), _("SLEPT"), _("WAIT"), _("p99"), _("HOLD p50"),
                           _("p99"), _("TAKING"));
    for (guint i = 0; i < rows->len; i++) {
        const Row *row = &g_array_index(rows, Row, i);

        if (row->acquired > 0 && row->domain) {
            add_row(text, row);
        }
    }
    /* The writer adds a line end. */
    g_string_truncate(text, text->len - 1);
    return g_string_free(text, FALSE);
}
