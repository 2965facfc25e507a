/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The template, what is shown at the right, jobs, and troubles of connections. */
#include "app/window-private.h"

#include "app/pages/new-window.h"
#include "app/widgets/job-row.h"
#include "common/i18n.h"

#define SHOW_MS 50u

G_DEFINE_FINAL_TYPE(LodgeWindow, lodge_window, ADW_TYPE_APPLICATION_WINDOW)

LodgeApplication *lodge_window_get_application(LodgeWindow *window)
{
    return LODGE_APPLICATION(gtk_window_get_application(GTK_WINDOW(window)));
}

/* --- What is selected. --- */

static void show_connection(LodgeWindow *window, LodgeConnectionItem *connection)
{
    const char *trouble = lodge_connection_item_get_trouble(connection);
    GListModel *machines = lodge_connection_item_get_machines(connection);
    guint count = g_list_model_get_n_items(machines), active = 0;
    g_autofree char *text = NULL;

    for (guint i = 0; i < count; i++) {
        g_autoptr(LodgeMachineItem) machine = g_list_model_get_item(machines, i);

        active += lodge_machine_is_active(lodge_machine_item_get_state(machine));
    }
    text = g_strdup_printf(
        g_dngettext(NULL, "%u machine, %u of them active", "%u machines, %u of them active", count),
        count, active);
    adw_status_page_set_title(window->connection_page, lodge_connection_item_get_title(connection));
    adw_status_page_set_description(window->connection_page, trouble ? trouble : text);
}

static void show_selected(LodgeWindow *window)
{
    const char *page = "empty", *title = _("Lodge");

    if (window->selected->len == 1) {
        lodge_machine_page_set_machine(window->machine_page, window->selected->pdata[0]);
        title = lodge_machine_item_get_name(window->selected->pdata[0]);
        page = "machine";
    } else if (window->selected->len > 1) {
        lodge_selection_page_show(window->selection_page, window->selected);
        title = _("Selection");
        page = "selection";
    } else if (window->connection) {
        show_connection(window, window->connection);
        title = lodge_connection_item_get_title(window->connection);
        page = "connection";
    }
    if (window->selected->len != 1) {
        lodge_machine_page_set_machine(window->machine_page, NULL);
    }
    adw_window_title_set_title(window->title, title);
    gtk_stack_set_visible_child_name(window->content, page);
    lodge_window_verbs_update(window);
}

static gboolean on_show(gpointer data)
{
    LodgeWindow *window = data;

    window->show_source = 0;
    show_selected(window);
    return G_SOURCE_REMOVE;
}

static void show_soon(LodgeWindow *window)
{
    if (window->show_source == 0) {
        window->show_source = g_timeout_add(SHOW_MS, on_show, window);
    }
}

static void on_selection_changed(LodgeWindow *window)
{
    for (guint i = 0; i < window->selected->len; i++) {
        g_signal_handlers_disconnect_by_func(window->selected->pdata[i], show_soon, window);
    }
    lodge_window_list_read_selection(window);
    for (guint i = 0; i < window->selected->len; i++) {
        g_signal_connect_object(window->selected->pdata[i], "notify", G_CALLBACK(show_soon), window,
                                G_CONNECT_SWAPPED);
    }
    show_selected(window);
}

/* A click or Return on a row opens it where there is room for one page only. */
static void on_row_activated(LodgeWindow *window)
{
    adw_leaflet_navigate(window->leaflet, ADW_NAVIGATION_DIRECTION_FORWARD);
}

static void on_back(LodgeWindow *window)
{
    adw_leaflet_navigate(window->leaflet, ADW_NAVIGATION_DIRECTION_BACK);
}

/* --- Troubles: of the first connection that has one. --- */

static LodgeConnectionItem *find_troubled(LodgeWindow *window)
{
    GListModel *model = lodge_application_get_connections(lodge_window_get_application(window));

    for (guint i = 0; i < g_list_model_get_n_items(model); i++) {
        g_autoptr(LodgeConnectionItem) item = g_list_model_get_item(model, i);

        if (lodge_connection_item_get_trouble(item)) {
            return item;
        }
    }
    return NULL;
}

static void show_trouble(LodgeWindow *window)
{
    LodgeConnectionItem *item = find_troubled(window);

    if (item) {
        gtk_label_set_text(window->trouble_text, lodge_connection_item_get_trouble(item));
    }
    gtk_widget_set_visible(GTK_WIDGET(window->trouble), item != NULL);
    show_soon(window);
}

static void on_try_again(GtkWidget *widget, const char *action, GVariant *parameter)
{
    LodgeConnectionItem *item = find_troubled(LODGE_WINDOW(widget));

    (void)action, (void)parameter;
    if (item) {
        lodge_connection_item_open(item);
    }
}

static void on_connections(LodgeWindow *window, guint at, guint removed, guint added,
                           GListModel *model)
{
    (void)removed;
    for (guint i = at; i < at + added; i++) {
        g_autoptr(LodgeConnectionItem) item = g_list_model_get_item(model, i);

        g_signal_connect_object(item, "notify::trouble", G_CALLBACK(show_trouble), window,
                                G_CONNECT_SWAPPED);
        g_signal_connect_object(lodge_connection_item_get_machines(item), "items-changed",
                                G_CALLBACK(show_soon), window, G_CONNECT_SWAPPED);
    }
    show_trouble(window);
}

/* --- Jobs. --- */

static void on_dismissed(LodgeJobRow *row, LodgeWindow *window)
{
    lodge_application_dismiss_job(lodge_window_get_application(window), lodge_job_row_get_job(row));
}

static GtkWidget *make_job_row(gpointer item, gpointer user_data)
{
    GtkWidget *row = lodge_job_row_new(item);

    g_signal_connect_object(row, "dismissed", G_CALLBACK(on_dismissed), user_data, 0);
    return row;
}

static void show_jobs(LodgeWindow *window)
{
    GListModel *jobs = lodge_application_get_jobs(lodge_window_get_application(window));
    guint count = g_list_model_get_n_items(jobs), failed = 0;
    g_autofree char *label = NULL;

    for (guint i = 0; i < count; i++) {
        g_autoptr(LodgeJob) job = g_list_model_get_item(jobs, i);

        failed += lodge_job_get_failures(job) != NULL;
    }
    label = g_strdup_printf(failed ? _("Jobs: %u, failed: %u") : _("Jobs: %u"), count, failed);
    gtk_widget_set_visible(GTK_WIDGET(window->jobs_button), count > 0);
    gtk_menu_button_set_label(window->jobs_button, label);
}

static void on_jobs(LodgeWindow *window, guint at, guint removed, guint added, GListModel *jobs)
{
    (void)removed;
    for (guint i = at; i < at + added; i++) {
        g_autoptr(LodgeJob) job = g_list_model_get_item(jobs, i);

        g_signal_connect_object(job, "notify::failures", G_CALLBACK(show_jobs), window,
                                G_CONNECT_SWAPPED);
    }
    show_jobs(window);
}

/* --- The window. --- */

static void on_new_machines(GtkWidget *widget, const char *action, GVariant *parameter)
{
    LodgeWindow *window = LODGE_WINDOW(widget);
    GtkWidget *dialog = lodge_new_window_new(lodge_window_get_application(window));

    (void)action, (void)parameter;
    gtk_window_set_transient_for(GTK_WINDOW(dialog), GTK_WINDOW(window));
    gtk_window_present(GTK_WINDOW(dialog));
}

static gboolean close_request(GtkWindow *base)
{
    LodgeWindow *window = LODGE_WINDOW(base);
    GSettings *settings = lodge_application_get_settings(lodge_window_get_application(window));
    int width, height;

    lodge_window_verbs_finish(window);
    if (settings) {
        gtk_window_get_default_size(base, &width, &height);
        g_settings_set(settings, "window-size", "(ii)", width, height);
        g_settings_set_boolean(settings, "maximized", gtk_window_is_maximized(base));
    }
    return GTK_WINDOW_CLASS(lodge_window_parent_class)->close_request(base);
}

static void dispose(GObject *object)
{
    LodgeWindow *window = LODGE_WINDOW(object);

    g_clear_handle_id(&window->show_source, g_source_remove);
    g_clear_object(&window->filter);
    g_clear_object(&window->sorter);
    g_clear_object(&window->machine_actions);
    G_OBJECT_CLASS(lodge_window_parent_class)->dispose(object);
}

static void finalize(GObject *object)
{
    LodgeWindow *window = LODGE_WINDOW(object);

    g_ptr_array_unref(window->selected);
    g_ptr_array_unref(window->deleting);
    g_free(window->needle);
    G_OBJECT_CLASS(lodge_window_parent_class)->finalize(object);
}

static void bind_template(GtkWidgetClass *class)
{
    gtk_widget_class_set_template_from_resource(class, "/org/lodgevm/Lodge/window.ui");
    gtk_widget_class_bind_template_child(class, LodgeWindow, toasts);
    gtk_widget_class_bind_template_child(class, LodgeWindow, leaflet);
    gtk_widget_class_bind_template_child(class, LodgeWindow, list);
    gtk_widget_class_bind_template_child(class, LodgeWindow, search_bar);
    gtk_widget_class_bind_template_child(class, LodgeWindow, search);
    gtk_widget_class_bind_template_child(class, LodgeWindow, trouble);
    gtk_widget_class_bind_template_child(class, LodgeWindow, trouble_text);
    gtk_widget_class_bind_template_child(class, LodgeWindow, content);
    gtk_widget_class_bind_template_child(class, LodgeWindow, title);
    gtk_widget_class_bind_template_child(class, LodgeWindow, machine_page);
    gtk_widget_class_bind_template_child(class, LodgeWindow, selection_page);
    gtk_widget_class_bind_template_child(class, LodgeWindow, empty);
    gtk_widget_class_bind_template_child(class, LodgeWindow, connection_page);
    gtk_widget_class_bind_template_child(class, LodgeWindow, jobs_button);
    gtk_widget_class_bind_template_child(class, LodgeWindow, jobs);
    gtk_widget_class_bind_template_callback(class, on_row_activated);
    gtk_widget_class_bind_template_callback(class, on_back);
}

static void lodge_window_class_init(LodgeWindowClass *class)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(class);

    G_OBJECT_CLASS(class)->dispose = dispose;
    G_OBJECT_CLASS(class)->finalize = finalize;
    GTK_WINDOW_CLASS(class)->close_request = close_request;
    g_type_ensure(LODGE_TYPE_MACHINE_PAGE);
    g_type_ensure(LODGE_TYPE_SELECTION_PAGE);
    bind_template(widget_class);
    gtk_widget_class_install_action(widget_class, "win.new-machines", NULL, on_new_machines);
    gtk_widget_class_install_action(widget_class, "win.try-again", NULL, on_try_again);
}

static void lodge_window_init(LodgeWindow *window)
{
    window->selected = g_ptr_array_new_with_free_func(g_object_unref);
    window->deleting = g_ptr_array_new_with_free_func(g_object_unref);
    gtk_widget_init_template(GTK_WIDGET(window));
}

static void restore(LodgeWindow *window, GSettings *settings)
{
    int width, height;

    if (settings) {
        g_settings_get(settings, "window-size", "(ii)", &width, &height);
        gtk_window_set_default_size(GTK_WINDOW(window), MAX(width, 360), MAX(height, 294));
        if (g_settings_get_boolean(settings, "maximized")) {
            gtk_window_maximize(GTK_WINDOW(window));
        }
    }
}

LodgeWindow *lodge_window_new(LodgeApplication *application)
{
    LodgeWindow *window = g_object_new(LODGE_TYPE_WINDOW, "application", application, NULL);
    GListModel *connections = lodge_application_get_connections(application);
    GListModel *jobs = lodge_application_get_jobs(application);

    restore(window, lodge_application_get_settings(application));
    lodge_window_list_init(window, connections);
    lodge_window_verbs_init(window);
    g_signal_connect_object(window->selection, "selection-changed",
                            G_CALLBACK(on_selection_changed), window, G_CONNECT_SWAPPED);
    g_signal_connect_object(window->selection, "items-changed", G_CALLBACK(on_selection_changed),
                            window, G_CONNECT_SWAPPED);
    g_signal_connect_object(connections, "items-changed", G_CALLBACK(on_connections), window,
                            G_CONNECT_SWAPPED);
    on_connections(window, 0, 0, g_list_model_get_n_items(connections), connections);
    gtk_list_box_bind_model(window->jobs, jobs, make_job_row, window, NULL);
    g_signal_connect_object(jobs, "items-changed", G_CALLBACK(on_jobs), window, G_CONNECT_SWAPPED);
    on_jobs(window, 0, 0, g_list_model_get_n_items(jobs), jobs);
    show_selected(window);
    return window;
}
