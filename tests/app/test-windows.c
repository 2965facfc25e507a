/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Every class in process: made, shown, given a machine, driven, and gone without a trace. */
#include "app/application.h"
#include "app/pages/console-page.h"
#include "app/pages/machine-page.h"
#include "app/pages/new-window.h"
#include "app/pages/selection-page.h"
#include "app/widgets/job-row.h"
#include "app/widgets/machine-row.h"
#include "app/widgets/sparkline.h"
#include "app/widgets/verb-bar.h"
#include "app/window.h"

#include "descendant.h"
#include "loop.h"

#include <locale.h>

#define URI "test:///default"

static LodgeApplication *application;
static LodgeConnectionItem *connection;

static LodgeMachineItem *machine(void)
{
    GListModel *machines = lodge_connection_item_get_machines(connection);
    g_autoptr(LodgeMachineItem) item = NULL;

    LOOP_UNTIL(g_list_model_get_n_items(machines) > 0);
    item = g_list_model_get_item(machines, 0);
    return item;
}

static void drop(GtkWidget *widget)
{
    GtkWidget *window = gtk_window_new();
    gpointer weak = widget;

    g_object_add_weak_pointer(G_OBJECT(widget), &weak);
    gtk_window_set_child(GTK_WINDOW(window), widget);
    gtk_window_present(GTK_WINDOW(window));
    gtk_test_widget_wait_for_draw(window);
    gtk_window_destroy(GTK_WINDOW(window));
    LOOP_UNTIL(weak == NULL);
}

static GPtrArray *many(void)
{
    GPtrArray *machines = g_ptr_array_new();

    g_ptr_array_add(machines, machine());
    g_ptr_array_add(machines, machine());
    return machines;
}

static void test_rows(void)
{
    GtkWidget *row = g_object_new(LODGE_TYPE_MACHINE_ROW, NULL);
    GtkWidget *sparkline = g_object_new(LODGE_TYPE_SPARKLINE, NULL);

    lodge_machine_row_set_machine(LODGE_MACHINE_ROW(row), machine());
    lodge_sparkline_set_machine(LODGE_SPARKLINE(sparkline), machine());
    gtk_test_accessible_assert_role(GTK_ACCESSIBLE(sparkline), GTK_ACCESSIBLE_ROLE_IMG);
    drop(row);
    drop(sparkline);
    for (int state = -1; state < 99; state++) {
        g_assert_nonnull(lodge_machine_row_state_icon(state));
    }
}

static void test_pages(void)
{
    g_autoptr(GPtrArray) machines = many();
    GtkWidget *page = g_object_new(LODGE_TYPE_MACHINE_PAGE, NULL);
    GtkWidget *selection = g_object_new(LODGE_TYPE_SELECTION_PAGE, NULL);
    GtkWidget *console = g_object_new(LODGE_TYPE_CONSOLE_PAGE, NULL);

    lodge_machine_page_set_machine(LODGE_MACHINE_PAGE(page), machine());
    lodge_selection_page_show(LODGE_SELECTION_PAGE(selection), machines);
    /* That driver has no consoles: the page says so. */
    lodge_console_page_set_machine(LODGE_CONSOLE_PAGE(console), machine());
    g_assert_nonnull(descendant(selection, GTK_TYPE_BUTTON, "Pause 2"));
    g_assert_nonnull(descendant(selection, GTK_TYPE_BUTTON, "Start 0"));
    g_assert_nonnull(descendant(page, GTK_TYPE_BUTTON, "Pause"));
    drop(page);
    drop(selection);
    drop(console);
}

static gboolean work(gpointer item, GError **error)
{
    (void)item;
    g_set_error_literal(error, LODGE_ERROR, LODGE_ERROR_FAILED, "no");
    return FALSE;
}

static const char *label(gpointer item)
{
    return item;
}

static void test_job_row(void)
{
    static const LodgeJobKind kind = {.work = work, .label = label};
    GPtrArray *items = g_ptr_array_new();
    g_autoptr(LodgeJob) job = NULL;
    GtkWidget *row;

    g_ptr_array_add(items, (char *)"thing");
    job = lodge_job_new("Job", &kind, items);
    row = lodge_job_row_new(job);
    g_assert_false(gtk_widget_get_visible(descendant(row, GTK_TYPE_BUTTON, "Cancel")));
    lodge_job_run(job);
    g_assert_true(gtk_widget_get_visible(descendant(row, GTK_TYPE_BUTTON, "Cancel")));
    LOOP_UNTIL(!lodge_job_is_running(job));
    g_assert_false(gtk_widget_get_visible(descendant(row, GTK_TYPE_BUTTON, "Cancel")));
    g_assert_nonnull(descendant(row, GTK_TYPE_BUTTON, "Copy"));
    drop(row);
}

/* All of it fits the narrowest screen that there is. */
static void check_width(GtkWidget *window)
{
    int minimum;

    gtk_widget_measure(window, GTK_ORIENTATION_HORIZONTAL, -1, &minimum, NULL, NULL, NULL);
    g_assert_cmpint(minimum, <=, 360);
}

static void test_window(void)
{
    GtkWidget *window = GTK_WIDGET(lodge_window_new(application));
    GtkWidget *dialog = lodge_new_window_new(application);
    gpointer weak = window;

    g_object_add_weak_pointer(G_OBJECT(window), &weak);
    gtk_window_present(GTK_WINDOW(window));
    gtk_test_widget_wait_for_draw(window);
    LOOP_UNTIL(descendant(window, LODGE_TYPE_MACHINE_ROW, NULL));
    check_width(window);
    gtk_widget_activate_action(window, "win.sort", "s", "cpu");
    gtk_widget_activate_action(window, "win.search", NULL);
    gtk_window_set_transient_for(GTK_WINDOW(dialog), GTK_WINDOW(window));
    gtk_window_present(GTK_WINDOW(dialog));
    gtk_test_widget_wait_for_draw(dialog);
    check_width(dialog);
    /* Without a kernel there is nothing to create. */
    g_assert_false(gtk_widget_get_sensitive(descendant(dialog, GTK_TYPE_BUTTON, "Create")));
    gtk_window_destroy(GTK_WINDOW(dialog));
    gtk_window_destroy(GTK_WINDOW(window));
    LOOP_UNTIL(weak == NULL);
}

int main(int argc, char **argv)
{
    int status;

    setlocale(LC_ALL, "");
    gtk_test_init(&argc, &argv, NULL);
    adw_init();
    g_assert_true(lodge_connection_prepare(LODGE_CONNECTION_EVENTS));
    application = lodge_application_new();
    g_application_set_flags(G_APPLICATION(application), G_APPLICATION_NON_UNIQUE);
    g_assert_true(g_application_register(G_APPLICATION(application), NULL, NULL));
    connection = lodge_application_connect(application, URI);
    g_test_add_func("/app/windows/rows", test_rows);
    g_test_add_func("/app/windows/pages", test_pages);
    g_test_add_func("/app/windows/job-row", test_job_row);
    g_test_add_func("/app/windows/window", test_window);
    status = g_test_run();
    g_object_unref(application);
    return status;
}
