/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Cells as values, laid out when all are known. */
#include "cli/table.h"

#include "common/i18n.h"
#include "common/units.h"
#include "config/text.h"

#include <json-glib/json-glib.h>

#define TEXT_MOST 256u /* characters of a cell */

typedef struct {
    gboolean set;
    char *text;
    guint64 number;
    gdouble real;
} Cell;

struct LodgeTable {
    const LodgeColumn *columns;
    guint count;
    GPtrArray *rows; /* of Cell arrays, one cell a column */
};

LodgeTable *lodge_table_new(const LodgeColumn *columns, guint count)
{
    LodgeTable *table = g_new0(LodgeTable, 1);

    table->columns = columns;
    table->count = count;
    table->rows = g_ptr_array_new();
    return table;
}

void lodge_table_free(LodgeTable *table)
{
    if (!table) {
        return;
    }
    for (guint i = 0; i < table->rows->len; i++) {
        Cell *cells = g_ptr_array_index(table->rows, i);

        for (guint j = 0; j < table->count; j++) {
            g_free(cells[j].text);
        }
        g_free(cells);
    }
    g_ptr_array_unref(table->rows);
    g_free(table);
}

void lodge_table_add_row(LodgeTable *table)
{
    g_ptr_array_add(table->rows, g_new0(Cell, table->count));
}

static Cell *last_cell(LodgeTable *table, guint column)
{
    Cell *cells = g_ptr_array_index(table->rows, table->rows->len - 1);

    g_assert(column < table->count);
    cells[column].set = TRUE;
    return &cells[column];
}

void lodge_table_set_text(LodgeTable *table, guint column, const char *text)
{
    if (text) {
        Cell *cell = last_cell(table, column);

        g_free(cell->text);
        cell->text = g_utf8_make_valid(text, -1);
    }
}

void lodge_table_set_number(LodgeTable *table, guint column, guint64 number)
{
    last_cell(table, column)->number = number;
}

void lodge_table_set_real(LodgeTable *table, guint column, gdouble real)
{
    last_cell(table, column)->real = real;
}

typedef struct {
    guint column;
    LodgeCellKind kind;
} Order;

/* Texts are in no order here. Unset cells come last: their values are 0. */
static int greatest_first(gconstpointer a, gconstpointer b, gpointer data)
{
    const Order *order = data;
    const Cell *left = &(*(Cell *const *)a)[order->column];
    const Cell *right = &(*(Cell *const *)b)[order->column];

    if (order->kind == LODGE_CELL_REAL) {
        return left->real > right->real ? -1 : left->real < right->real;
    }
    return left->number > right->number ? -1 : left->number < right->number;
}

void lodge_table_sort(LodgeTable *table, guint column)
{
    Order order = {column, table->columns[column].kind};

    g_ptr_array_sort_with_data(table->rows, greatest_first, &order);
}

static char *cell_text(const LodgeColumn *column, const Cell *cell)
{
    if (!cell->set) {
        return g_strdup("-");
    }
    switch (column->kind) {
    case LODGE_CELL_TEXT:
        return lodge_text_show(cell->text, TEXT_MOST);
    case LODGE_CELL_NUMBER:
        return g_strdup_printf("%" G_GUINT64_FORMAT, cell->number);
    case LODGE_CELL_BYTES:
        return lodge_format_rough_bytes(cell->number);
    case LODGE_CELL_SPAN:
        return lodge_format_span(cell->number);
    case LODGE_CELL_REAL:
        return g_strdup_printf("%.1f", cell->real);
    case LODGE_CELL_FLAG:
        return g_strdup(cell->number ? _("yes") : _("no"));
    }
    return NULL;
}

/* Columns of a terminal. */
static guint text_width(const char *text)
{
    guint width = 0;

    for (; *text; text = g_utf8_next_char(text)) {
        gunichar one = g_utf8_get_char(text);

        width += g_unichar_iszerowidth(one) ? 0 : g_unichar_iswide(one) ? 2 : 1;
    }
    return width;
}

static void add_cell(GString *line, const char *text, guint width, gboolean right)
{
    guint pad = width - text_width(text);

    if (line->len > 0 && line->str[line->len - 1] != '\n') {
        g_string_append(line, "  ");
    }
    if (right) {
        g_string_append_printf(line, "%*s%s", (int)pad, "", text);
    } else {
        g_string_append_printf(line, "%s%*s", text, (int)pad, "");
    }
}

static void end_line(GString *text)
{
    while (text->len > 0 && text->str[text->len - 1] == ' ') {
        g_string_truncate(text, text->len - 1);
    }
    g_string_append_c(text, '\n');
}

/* All texts that are shown, the titles first: cells[row * count + column]; NULL where none is. */
static GPtrArray *shown_cells(const LodgeTable *table, guint rows)
{
    GPtrArray *cells = g_ptr_array_new_with_free_func(g_free);

    for (guint j = 0; j < table->count; j++) {
        g_ptr_array_add(cells,
                        g_strdup(table->columns[j].title ? _(table->columns[j].title) : NULL));
    }
    for (guint i = 0; i < rows; i++) {
        const Cell *row = g_ptr_array_index(table->rows, i);

        for (guint j = 0; j < table->count; j++) {
            g_ptr_array_add(cells, table->columns[j].title ? cell_text(&table->columns[j], &row[j])
                                                           : NULL);
        }
    }
    return cells;
}

char *lodge_table_to_text(const LodgeTable *table, guint most)
{
    guint rows = most ? MIN(most, table->rows->len) : table->rows->len;
    g_autoptr(GPtrArray) cells = shown_cells(table, rows);
    g_autofree guint *widths = g_new0(guint, table->count);
    GString *text = g_string_new(NULL);

    for (guint i = 0; i < cells->len; i++) {
        const char *cell = g_ptr_array_index(cells, i);

        if (cell) {
            widths[i % table->count] = MAX(widths[i % table->count], text_width(cell));
        }
    }
    for (guint i = 0; i < cells->len; i++) {
        const char *cell = g_ptr_array_index(cells, i);
        LodgeCellKind kind = table->columns[i % table->count].kind;

        if (cell) {
            add_cell(text, cell, widths[i % table->count],
                     kind != LODGE_CELL_TEXT && kind != LODGE_CELL_FLAG);
        }
        if (i % table->count == table->count - 1) {
            end_line(text);
        }
    }
    if (rows < table->rows->len) {
        g_string_append_printf(text, _("… and %u more\n"), table->rows->len - rows);
    }
    return g_string_free(text, FALSE);
}

char *lodge_table_to_fields(const LodgeTable *table)
{
    const Cell *row = g_ptr_array_index(table->rows, 0);
    GString *text = g_string_new(NULL);

    for (guint j = 0; j < table->count; j++) {
        if (row[j].set && table->columns[j].title) {
            g_autofree char *cell = cell_text(&table->columns[j], &row[j]);

            g_string_append_printf(text, _("%s: %s\n"), _(table->columns[j].title), cell);
        }
    }
    return g_string_free(text, FALSE);
}

static void add_member(JsonObject *object, const LodgeColumn *column, const Cell *cell)
{
    if (!cell->set) {
        return;
    }
    switch (column->kind) {
    case LODGE_CELL_TEXT:
        json_object_set_string_member(object, column->key, cell->text);
        break;
    case LODGE_CELL_NUMBER:
    case LODGE_CELL_BYTES:
    case LODGE_CELL_SPAN:
        json_object_set_int_member(object, column->key, (gint64)MIN(cell->number, G_MAXINT64));
        break;
    case LODGE_CELL_REAL:
        json_object_set_double_member(object, column->key, cell->real);
        break;
    case LODGE_CELL_FLAG:
        json_object_set_boolean_member(object, column->key, cell->number != 0);
        break;
    }
}

char *lodge_table_to_json(const LodgeTable *table)
{
    g_autoptr(JsonArray) array = json_array_new();
    g_autoptr(JsonNode) node = NULL;
    g_autofree char *text = NULL;

    for (guint i = 0; i < table->rows->len; i++) {
        const Cell *row = g_ptr_array_index(table->rows, i);
        JsonObject *object = json_object_new();

        for (guint j = 0; j < table->count; j++) {
            add_member(object, &table->columns[j], &row[j]);
        }
        json_array_add_object_element(array, object);
    }
    node = json_node_init_array(json_node_alloc(), array);
    text = json_to_string(node, TRUE);
    return g_strconcat(text, "\n", NULL);
}
