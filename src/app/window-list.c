/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The list: connections with their machines under them, searched, ordered and selected from. */
#include "app/window-private.h"

#include "app/widgets/machine-row.h"
#include "common/i18n.h"

#include <string.h>

/* --- What is listed, and in which order. --- */

static gboolean is_wanted(gpointer item, gpointer user_data)
{
    const LodgeWindow *window = user_data;
    g_autofree char *name = NULL;

    if (lodge_machine_item_get_hidden(item)) {
        return FALSE;
    }
    if (!window->needle) {
        return TRUE;
    }
    name = g_utf8_casefold(lodge_machine_item_get_name(item), -1);
    return strstr(name, window->needle) != NULL;
}

/* Machines that run come first, then those that are paused, then those that are off. */
static int rank(LodgeMachineItem *item)
{
    int state = lodge_machine_item_get_state(item);

    if (!lodge_machine_is_active(state)) {
        return 2;
    }
    return state == VIR_DOMAIN_PAUSED || state == VIR_DOMAIN_PMSUSPENDED;
}

static int compare(gconstpointer a, gconstpointer b, gpointer user_data)
{
    const LodgeWindow *window = user_data;
    LodgeMachineItem *left = (LodgeMachineItem *)a, *right = (LodgeMachineItem *)b;
    int order = 0;

    if (window->order == LODGE_WINDOW_BY_STATE) {
        order = rank(left) - rank(right);
    } else if (window->order == LODGE_WINDOW_BY_CPU) {
        gdouble more = lodge_machine_item_get_cpu(right) - lodge_machine_item_get_cpu(left);

        order = (more > 0) - (more < 0);
    }
    return order ? order
                 : lodge_machine_compare_names(lodge_machine_item_get_name(left),
                                               lodge_machine_item_get_name(right));
}

static GListModel *make_children(gpointer item, gpointer user_data)
{
    LodgeWindow *window = user_data;
    GListModel *machines;

    if (!LODGE_IS_CONNECTION_ITEM(item)) {
        return NULL;
    }
    machines = g_object_ref(lodge_connection_item_get_machines(item));
    machines = G_LIST_MODEL(gtk_filter_list_model_new(machines, g_object_ref(window->filter)));
    return G_LIST_MODEL(gtk_sort_list_model_new(machines, g_object_ref(window->sorter)));
}

/* --- Rows. --- */

static void show_connection(LodgeConnectionItem *item, GParamSpec *spec, GtkLabel *label)
{
    static const char *const states[] = {
        [LODGE_CONNECTION_CLOSED] = N_("closed"),
        [LODGE_CONNECTION_OPENING] = N_("connecting…"),
        [LODGE_CONNECTION_OPEN] = NULL,
        [LODGE_CONNECTION_LOST] = N_("not connected"),
    };
    const char *state = states[lodge_connection_item_get_state(item)];
    g_autofree char *text =
        state ? g_strdup_printf("%s · %s", lodge_connection_item_get_title(item), _(state))
              : g_strdup(lodge_connection_item_get_title(item));

    (void)spec;
    gtk_label_set_text(label, text);
    gtk_widget_set_tooltip_text(GTK_WIDGET(label), lodge_connection_item_get_uri(item));
}

static GtkWidget *make_connection_label(LodgeConnectionItem *item)
{
    GtkWidget *label = gtk_label_new(NULL);

    gtk_label_set_xalign(GTK_LABEL(label), 0);
    gtk_label_set_ellipsize(GTK_LABEL(label), PANGO_ELLIPSIZE_MIDDLE);
    gtk_widget_add_css_class(label, "heading");
    g_signal_connect_object(item, "notify::state", G_CALLBACK(show_connection), label, 0);
    show_connection(item, NULL, GTK_LABEL(label));
    return label;
}

static void on_setup(GtkSignalListItemFactory *factory, GtkListItem *row)
{
    (void)factory;
    gtk_list_item_set_child(row, gtk_tree_expander_new());
}

static void on_bind(GtkSignalListItemFactory *factory, GtkListItem *row)
{
    GtkTreeExpander *expander = GTK_TREE_EXPANDER(gtk_list_item_get_child(row));
    GtkTreeListRow *tree_row = gtk_list_item_get_item(row);
    g_autoptr(GObject) item = gtk_tree_list_row_get_item(tree_row);
    GtkWidget *child = gtk_tree_expander_get_child(expander);

    (void)factory;
    gtk_tree_expander_set_list_row(expander, tree_row);
    if (LODGE_IS_CONNECTION_ITEM(item)) {
        gtk_tree_expander_set_child(expander, make_connection_label(LODGE_CONNECTION_ITEM(item)));
        return;
    }
    if (!child || !LODGE_IS_MACHINE_ROW(child)) {
        child = g_object_new(LODGE_TYPE_MACHINE_ROW, NULL);
        gtk_tree_expander_set_child(expander, child);
    }
    lodge_machine_row_set_machine(LODGE_MACHINE_ROW(child), LODGE_MACHINE_ITEM(item));
}

static void on_unbind(GtkSignalListItemFactory *factory, GtkListItem *row)
{
    GtkTreeExpander *expander = GTK_TREE_EXPANDER(gtk_list_item_get_child(row));
    GtkWidget *child = gtk_tree_expander_get_child(expander);

    (void)factory;
    if (child && LODGE_IS_MACHINE_ROW(child)) {
        lodge_machine_row_set_machine(LODGE_MACHINE_ROW(child), NULL);
    } else {
        gtk_tree_expander_set_child(expander, NULL);
    }
    gtk_tree_expander_set_list_row(expander, NULL);
}

/* --- Selection. --- */

void lodge_window_list_read_selection(LodgeWindow *window)
{
    g_autoptr(GtkBitset) chosen =
        gtk_selection_model_get_selection(GTK_SELECTION_MODEL(window->selection));
    GtkBitsetIter iter;
    guint at;

    g_ptr_array_set_size(window->selected, 0);
    window->connection = NULL;
    for (gboolean any = gtk_bitset_iter_init_first(&iter, chosen, &at); any;
         any = gtk_bitset_iter_next(&iter, &at)) {
        g_autoptr(GtkTreeListRow) row = g_list_model_get_item(G_LIST_MODEL(window->selection), at);
        g_autoptr(GObject) item = row ? gtk_tree_list_row_get_item(row) : NULL;

        if (LODGE_IS_MACHINE_ITEM(item)) {
            g_ptr_array_add(window->selected, g_steal_pointer(&item));
        } else if (LODGE_IS_CONNECTION_ITEM(item)) {
            window->connection = LODGE_CONNECTION_ITEM(item);
        }
    }
}

/* --- Search and order. --- */

static void on_search_changed(LodgeWindow *window)
{
    const char *text = gtk_editable_get_text(GTK_EDITABLE(window->search));

    g_free(window->needle);
    window->needle = *text ? g_utf8_casefold(text, -1) : NULL;
    gtk_filter_changed(window->filter, GTK_FILTER_CHANGE_DIFFERENT);
}

static void on_sort(GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
    static const char *const names[] = {
        [LODGE_WINDOW_BY_NAME] = "name",
        [LODGE_WINDOW_BY_STATE] = "state",
        [LODGE_WINDOW_BY_CPU] = "cpu",
    };
    LodgeWindow *window = user_data;

    for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
        if (strcmp(names[i], g_variant_get_string(parameter, NULL)) == 0) {
            window->order = (int)i;
            g_simple_action_set_state(action, parameter);
        }
    }
    gtk_sorter_changed(window->sorter, GTK_SORTER_CHANGE_DIFFERENT);
}

static void add_actions(LodgeWindow *window)
{
    static const GActionEntry entries[] = {
        {.name = "sort", .activate = on_sort, .parameter_type = "s", .state = "'name'"},
    };
    g_autoptr(GPropertyAction) search =
        g_property_action_new("search", window->search_bar, "search-mode-enabled");

    g_action_map_add_action_entries(G_ACTION_MAP(window), entries, G_N_ELEMENTS(entries), window);
    g_action_map_add_action(G_ACTION_MAP(window), G_ACTION(search));
}

void lodge_window_list_init(LodgeWindow *window, GListModel *connections)
{
    g_autoptr(GtkListItemFactory) factory = gtk_signal_list_item_factory_new();
    GtkTreeListModel *tree;

    window->filter = GTK_FILTER(gtk_custom_filter_new(is_wanted, window, NULL));
    window->sorter = GTK_SORTER(gtk_custom_sorter_new(compare, window, NULL));
    tree = gtk_tree_list_model_new(g_object_ref(connections), FALSE, TRUE, make_children, window,
                                   NULL);
    window->selection = gtk_multi_selection_new(G_LIST_MODEL(tree));
    g_signal_connect(factory, "setup", G_CALLBACK(on_setup), NULL);
    g_signal_connect(factory, "bind", G_CALLBACK(on_bind), NULL);
    g_signal_connect(factory, "unbind", G_CALLBACK(on_unbind), NULL);
    gtk_list_view_set_factory(window->list, factory);
    gtk_list_view_set_model(window->list, GTK_SELECTION_MODEL(window->selection));
    g_object_unref(window->selection); /* the list has it */
    g_signal_connect_object(window->search, "search-changed", G_CALLBACK(on_search_changed), window,
                            G_CONNECT_SWAPPED);
    gtk_search_bar_connect_entry(window->search_bar, GTK_EDITABLE(window->search));
    add_actions(window);
}
