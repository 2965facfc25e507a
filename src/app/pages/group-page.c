/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rows that stay while their values change, sorted by any column. */
#include "app/pages/group-page.h"

#include "app/model/stats-watch.h"
#include "common/i18n.h"
#include "common/units.h"

/* --- A row. --- */

#define LODGE_TYPE_GROUP_ROW (lodge_group_row_get_type())
G_DECLARE_FINAL_TYPE(LodgeGroupRow, lodge_group_row, LODGE, GROUP_ROW, GObject)

struct _LodgeGroupRow {
    GObject parent_instance;
    guint64 numbers[LODGE_GROUP_COLUMNS_MOST];
    char *texts[LODGE_GROUP_COLUMNS_MOST];
};

G_DEFINE_FINAL_TYPE(LodgeGroupRow, lodge_group_row, G_TYPE_OBJECT)

static guint changed_signal;

static void row_finalize(GObject *object)
{
    for (guint i = 0; i < LODGE_GROUP_COLUMNS_MOST; i++) {
        g_free(LODGE_GROUP_ROW(object)->texts[i]);
    }
    G_OBJECT_CLASS(lodge_group_row_parent_class)->finalize(object);
}

static void lodge_group_row_class_init(LodgeGroupRowClass *class)
{
    G_OBJECT_CLASS(class)->finalize = row_finalize;
    changed_signal = g_signal_new("changed", LODGE_TYPE_GROUP_ROW, G_SIGNAL_RUN_LAST, 0, NULL, NULL,
                                  NULL, G_TYPE_NONE, 0);
}

static void lodge_group_row_init(LodgeGroupRow *row)
{
    (void)row;
}

/* --- The page. --- */

struct _LodgeGroupPage {
    AdwBin parent_instance;
    const char *group, *lacking;
    const LodgeGroupColumn *columns;
    guint count;
    LodgeMachineItem *machine;
    LodgeStatsWatch *watch;
    GListStore *rows;
    /* Of the template. */
    GtkColumnView *view;
    GtkLabel *state;
};

G_DEFINE_FINAL_TYPE(LodgeGroupPage, lodge_group_page, ADW_TYPE_BIN)

static char *make_text(const LodgeStats *stats, const char *name, LodgeGroupKind kind,
                       guint64 *number)
{
    gboolean there = lodge_stats_number(stats, name, number);

    switch (kind) {
    case LODGE_GROUP_TEXT:
        return g_strdup(lodge_stats_text(stats, name));
    case LODGE_GROUP_NUMBER:
        return there ? g_strdup_printf("%" G_GUINT64_FORMAT, *number) : NULL;
    case LODGE_GROUP_SPAN:
        return there ? lodge_format_span(*number) : NULL;
    }
    return NULL;
}

static void fill(LodgeGroupPage *page, LodgeGroupRow *row, const LodgeStats *stats, guint index)
{
    for (guint i = 0; i < page->count; i++) {
        g_autofree char *name =
            g_strdup_printf("%s.%u.%s", page->group, index, page->columns[i].key);
        char *text = make_text(stats, name, page->columns[i].kind, &row->numbers[i]);

        g_free(row->texts[i]);
        row->texts[i] = text ? text : g_strdup("–");
    }
    g_signal_emit(row, changed_signal, 0);
}

static void show(LodgeGroupPage *page, const LodgeStats *stats, guint64 members)
{
    GListModel *rows = G_LIST_MODEL(page->rows);

    members = MIN(members, LODGE_STATS_GROUPS_MOST);
    while (g_list_model_get_n_items(rows) > members) {
        g_list_store_remove(page->rows, g_list_model_get_n_items(rows) - 1);
    }
    for (guint i = 0; i < members; i++) {
        g_autoptr(LodgeGroupRow) row = g_list_model_get_item(rows, i);
        gboolean added = row == NULL;

        if (added) {
            row = g_object_new(LODGE_TYPE_GROUP_ROW, NULL);
        }
        fill(page, row, stats, i);
        if (added) {
            g_list_store_append(page->rows, row);
        }
    }
}

static void on_looked(LodgeStatsWatch *watch, const LodgeStats *stats, const char *why,
                      LodgeGroupPage *page)
{
    g_autofree char *total = g_strdup_printf("%s.count", page->group);
    guint64 members = 0;
    gboolean there = stats && lodge_stats_number(stats, total, &members);
    gboolean active = lodge_machine_is_active(lodge_machine_item_get_state(page->machine));

    (void)watch;
    if (there) {
        show(page, stats, members);
    }
    gtk_label_set_text(page->state, !stats    ? why
                                    : there   ? ""
                                    : !active ? _("The machine does not run.")
                                              : _(page->lacking));
    gtk_widget_set_visible(GTK_WIDGET(page->state), !there);
}

void lodge_group_page_set_machine(LodgeGroupPage *page, LodgeMachineItem *machine)
{
    g_return_if_fail(LODGE_IS_GROUP_PAGE(page));

    if (page->machine == machine) {
        return;
    }
    if (page->watch) {
        g_signal_handlers_disconnect_by_data(page->watch, page);
        lodge_stats_watch_stop(page->watch);
        g_clear_object(&page->watch);
    }
    g_set_object(&page->machine, machine);
    g_list_store_remove_all(page->rows);
    if (machine) {
        page->watch = lodge_stats_watch_new(machine);
        g_signal_connect(page->watch, "looked", G_CALLBACK(on_looked), page);
    }
}

/* --- Cells. --- */

static guint column_of(gpointer user_data)
{
    return GPOINTER_TO_UINT(user_data);
}

static void show_cell(LodgeGroupRow *row, GtkListItem *cell)
{
    guint column = column_of(g_object_get_data(G_OBJECT(cell), "column"));

    gtk_label_set_text(GTK_LABEL(gtk_list_item_get_child(cell)), row->texts[column]);
}

static void on_setup(GtkSignalListItemFactory *factory, GtkListItem *cell, gpointer column)
{
    (void)factory;
    g_object_set_data(G_OBJECT(cell), "column", column);
    gtk_list_item_set_child(cell, gtk_label_new(NULL));
    gtk_label_set_xalign(GTK_LABEL(gtk_list_item_get_child(cell)), 0);
    gtk_widget_add_css_class(gtk_list_item_get_child(cell), "numeric");
}

static void on_bind(GtkSignalListItemFactory *factory, GtkListItem *cell)
{
    LodgeGroupRow *row = gtk_list_item_get_item(cell);

    (void)factory;
    g_signal_connect(row, "changed", G_CALLBACK(show_cell), cell);
    show_cell(row, cell);
}

static void on_unbind(GtkSignalListItemFactory *factory, GtkListItem *cell)
{
    (void)factory;
    g_signal_handlers_disconnect_by_func(gtk_list_item_get_item(cell), show_cell, cell);
}

static int compare(gconstpointer a, gconstpointer b, gpointer user_data)
{
    const LodgeGroupRow *left = a, *right = b;
    guint i = column_of(user_data);

    if (left->numbers[i] != right->numbers[i]) {
        return left->numbers[i] < right->numbers[i] ? -1 : 1;
    }
    return g_strcmp0(left->texts[i], right->texts[i]);
}

void lodge_group_page_set_group(LodgeGroupPage *page, const char *group,
                                const LodgeGroupColumn *columns, guint count, const char *lacking)
{
    g_return_if_fail(LODGE_IS_GROUP_PAGE(page) && count <= LODGE_GROUP_COLUMNS_MOST);

    page->group = group;
    page->columns = columns;
    page->count = count;
    page->lacking = lacking;
    for (guint i = 0; i < count; i++) {
        GtkListItemFactory *factory = gtk_signal_list_item_factory_new();
        g_autoptr(GtkColumnViewColumn) column =
            gtk_column_view_column_new(_(columns[i].title), factory);
        g_autoptr(GtkSorter) sorter =
            GTK_SORTER(gtk_custom_sorter_new(compare, GUINT_TO_POINTER(i), NULL));

        g_signal_connect(factory, "setup", G_CALLBACK(on_setup), GUINT_TO_POINTER(i));
        g_signal_connect(factory, "bind", G_CALLBACK(on_bind), NULL);
        g_signal_connect(factory, "unbind", G_CALLBACK(on_unbind), NULL);
        gtk_column_view_column_set_sorter(column, sorter);
        gtk_column_view_append_column(page->view, column);
    }
}

static void dispose(GObject *object)
{
    LodgeGroupPage *page = LODGE_GROUP_PAGE(object);

    if (page->rows) {
        lodge_group_page_set_machine(page, NULL);
    }
    g_clear_object(&page->rows);
    G_OBJECT_CLASS(lodge_group_page_parent_class)->dispose(object);
}

static void lodge_group_page_class_init(LodgeGroupPageClass *class)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(class);

    G_OBJECT_CLASS(class)->dispose = dispose;
    gtk_widget_class_set_template_from_resource(widget_class, "/org/lodgevm/Lodge/group-page.ui");
    gtk_widget_class_bind_template_child(widget_class, LodgeGroupPage, view);
    gtk_widget_class_bind_template_child(widget_class, LodgeGroupPage, state);
}

static void lodge_group_page_init(LodgeGroupPage *page)
{
    GListModel *sorted;
    g_autoptr(GtkNoSelection) model = NULL;

    gtk_widget_init_template(GTK_WIDGET(page));
    page->rows = g_list_store_new(LODGE_TYPE_GROUP_ROW);
    sorted =
        G_LIST_MODEL(gtk_sort_list_model_new(G_LIST_MODEL(g_object_ref(page->rows)),
                                             g_object_ref(gtk_column_view_get_sorter(page->view))));
    model = gtk_no_selection_new(sorted);
    gtk_column_view_set_model(page->view, GTK_SELECTION_MODEL(model));
}
