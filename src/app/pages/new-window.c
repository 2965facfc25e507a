/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Checked while it is typed; Create is there when all is right. */
#include "app/pages/new-window.h"

#include "app/model/new-machines.h"
#include "app/model/worker.h"
#include "common/i18n.h"
#include "common/units.h"

#define MIB (1024u * 1024u)

struct _LodgeNewWindow {
    AdwWindow parent_instance;
    LodgeApplication *application; /* borrowed: it outlives its windows */
    char *kernel, *initrd;
    guint64 free_bytes; /* at the chosen connection's host; 0: not known */
    GtkFileChooserNative *chooser;

    /* Of the template. */
    AdwComboRow *connection;
    AdwEntryRow *name, *command_line;
    GtkSpinButton *count, *vcpus, *memory;
    AdwActionRow *kernel_row, *initrd_row, *memory_row;
    GtkSwitch *start;
    GtkLabel *problem;
    GtkButton *create, *initrd_clear;
};

G_DEFINE_FINAL_TYPE(LodgeNewWindow, lodge_new_window, ADW_TYPE_WINDOW)

static LodgeNewMachines wanted(LodgeNewWindow *window)
{
    return (LodgeNewMachines){
        .name = gtk_editable_get_text(GTK_EDITABLE(window->name)),
        .count = (guint)gtk_spin_button_get_value_as_int(window->count),
        .kernel = window->kernel,
        .initrd = window->initrd,
        .command_line = gtk_editable_get_text(GTK_EDITABLE(window->command_line)),
        .vcpus = (guint)gtk_spin_button_get_value_as_int(window->vcpus),
        .memory_bytes = (guint64)gtk_spin_button_get_value_as_int(window->memory) * MIB,
        .start = gtk_switch_get_active(window->start),
    };
}

/* What they need against what there is: a warning, not a refusal. */
static void show_memory(LodgeNewWindow *window, const LodgeNewMachines *machines)
{
    guint64 all = machines->memory_bytes * machines->count;
    g_autofree char *needed = lodge_format_rough_bytes(all);
    g_autofree char *available = lodge_format_rough_bytes(window->free_bytes);
    gboolean short_of = window->free_bytes && all > window->free_bytes;
    g_autofree char *text =
        window->free_bytes == 0
            ? g_strdup_printf(_("They need %s"), needed)
            : g_strdup_printf(short_of ? _("Not enough: they need %s, and %s are free")
                                       : _("They need %s of %s that are free"),
                              needed, available);

    adw_action_row_set_subtitle(window->memory_row, text);
    if (short_of) {
        gtk_widget_add_css_class(GTK_WIDGET(window->memory_row), "warning");
    } else {
        gtk_widget_remove_css_class(GTK_WIDGET(window->memory_row), "warning");
    }
}

static GtkWidget *field_widget(LodgeNewWindow *window, LodgeNewField field)
{
    GtkWidget *widgets[LODGE_NEW_FIELDS] = {
        [LODGE_NEW_NAME] = GTK_WIDGET(window->name),
        [LODGE_NEW_KERNEL] = GTK_WIDGET(window->kernel_row),
        [LODGE_NEW_INITRD] = GTK_WIDGET(window->initrd_row),
        [LODGE_NEW_COMMAND_LINE] = GTK_WIDGET(window->command_line),
    };

    return widgets[field];
}

static void show(LodgeNewWindow *window)
{
    LodgeNewMachines machines = wanted(window);
    g_autoptr(GError) first = NULL;

    for (int field = 0; field < LODGE_NEW_FIELDS; field++) {
        g_autoptr(GError) error = NULL;
        GtkWidget *widget = field_widget(window, (LodgeNewField)field);

        if (lodge_new_machines_check(&machines, (LodgeNewField)field, &error)) {
            gtk_widget_remove_css_class(widget, "error");
            continue;
        }
        /* Nothing is chosen yet is no error to be shouted about. */
        if (field != LODGE_NEW_KERNEL) {
            gtk_widget_add_css_class(widget, "error");
        }
        if (!first) {
            first = g_steal_pointer(&error);
        }
    }
    gtk_label_set_text(window->problem, first ? first->message : "");
    gtk_widget_set_visible(GTK_WIDGET(window->problem), first != NULL);
    gtk_widget_set_sensitive(GTK_WIDGET(window->create), first == NULL);
    show_memory(window, &machines);
}

/* --- Files, by the portal where there is one. --- */

static void set_file(LodgeNewWindow *window, AdwActionRow *row, char **path, char *chosen)
{
    g_autofree char *shown = chosen ? g_filename_display_name(chosen) : NULL;
    g_autofree char *escaped = shown ? g_markup_escape_text(shown, -1) : NULL;

    g_free(*path);
    *path = chosen;
    adw_action_row_set_subtitle(row, escaped ? escaped : _("None"));
    gtk_widget_set_visible(GTK_WIDGET(window->initrd_clear), window->initrd != NULL);
    show(window);
}

static void on_chosen(GtkNativeDialog *dialog, int response, LodgeNewWindow *window)
{
    g_autoptr(GFile) file = gtk_file_chooser_get_file(GTK_FILE_CHOOSER(dialog));
    gboolean kernel = g_object_get_data(G_OBJECT(dialog), "kernel") != NULL;

    if (response == GTK_RESPONSE_ACCEPT && file) {
        set_file(window, kernel ? window->kernel_row : window->initrd_row,
                 kernel ? &window->kernel : &window->initrd, g_file_get_path(file));
    }
    g_clear_object(&window->chooser);
}

static void choose(LodgeNewWindow *window, const char *title, gboolean kernel)
{
    g_clear_object(&window->chooser);
    window->chooser = gtk_file_chooser_native_new(title, GTK_WINDOW(window),
                                                  GTK_FILE_CHOOSER_ACTION_OPEN, NULL, NULL);
    g_object_set_data(G_OBJECT(window->chooser), "kernel", GINT_TO_POINTER(kernel));
    g_signal_connect_object(window->chooser, "response", G_CALLBACK(on_chosen), window, 0);
    gtk_native_dialog_set_modal(GTK_NATIVE_DIALOG(window->chooser), TRUE);
    gtk_native_dialog_show(GTK_NATIVE_DIALOG(window->chooser));
}

static void on_choose_kernel(LodgeNewWindow *window)
{
    choose(window, _("Choose a Kernel"), TRUE);
}

static void on_choose_initrd(LodgeNewWindow *window)
{
    choose(window, _("Choose an Initial RAM Disk"), FALSE);
}

static void on_clear_initrd(LodgeNewWindow *window)
{
    set_file(window, window->initrd_row, &window->initrd, NULL);
}

/* The last choice stays for the next time. */
static void restore(LodgeNewWindow *window)
{
    GSettings *settings = lodge_application_get_settings(window->application);
    g_autofree char *kernel = settings ? g_settings_get_string(settings, "kernel") : NULL;
    g_autofree char *initrd = settings ? g_settings_get_string(settings, "initrd") : NULL;
    g_autofree char *line = settings ? g_settings_get_string(settings, "command-line") : NULL;

    if (line) {
        gtk_editable_set_text(GTK_EDITABLE(window->command_line), line);
    }
    set_file(window, window->initrd_row, &window->initrd,
             initrd && *initrd ? g_steal_pointer(&initrd) : NULL);
    set_file(window, window->kernel_row, &window->kernel,
             kernel && *kernel ? g_steal_pointer(&kernel) : NULL);
}

static void remember(LodgeNewWindow *window)
{
    GSettings *settings = lodge_application_get_settings(window->application);

    if (settings) {
        g_settings_set_string(settings, "kernel", window->kernel);
        g_settings_set_string(settings, "initrd", window->initrd ? window->initrd : "");
        g_settings_set_string(settings, "command-line",
                              gtk_editable_get_text(GTK_EDITABLE(window->command_line)));
    }
}

/* --- The chosen connection's host. --- */

static void ask_free(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    virConnectPtr connection = data;
    unsigned long long bytes = virNodeGetFreeMemory(connection);

    (void)source, (void)cancellable;
    (void)virConnectClose(connection);
    g_task_return_int(task, (gssize)MIN(bytes, (unsigned long long)G_MAXSSIZE));
}

static void on_free(GObject *object, GAsyncResult *result, gpointer user_data)
{
    LodgeNewWindow *window = LODGE_NEW_WINDOW(object);
    gssize bytes = g_task_propagate_int(G_TASK(result), NULL);

    (void)user_data;
    window->free_bytes = (guint64)MAX(bytes, 0);
    show(window);
}

static void on_connection(LodgeNewWindow *window)
{
    LodgeConnectionItem *item = adw_combo_row_get_selected_item(window->connection);
    virConnectPtr connection = item ? lodge_connection_item_ref_connection(item) : NULL;

    window->free_bytes = 0;
    if (connection) {
        GTask *task = g_task_new(window, NULL, on_free, NULL);

        g_task_set_task_data(task, connection, NULL);
        lodge_worker_run(task, ask_free);
    }
}

/* --- The end of it. --- */

static void on_create(LodgeNewWindow *window)
{
    LodgeNewMachines machines = wanted(window);
    LodgeConnectionItem *item = adw_combo_row_get_selected_item(window->connection);
    g_autoptr(GError) error = NULL;
    LodgeJob *job = item ? lodge_new_machines_job(&machines, item, &error) : NULL;

    if (!job) {
        gtk_label_set_text(window->problem,
                           error ? error->message : _("Choose a connection first"));
        gtk_widget_show(GTK_WIDGET(window->problem));
        return;
    }
    remember(window);
    lodge_application_run_job(window->application, job);
    gtk_window_close(GTK_WINDOW(window));
}

static void dispose(GObject *object)
{
    g_clear_object(&LODGE_NEW_WINDOW(object)->chooser);
    G_OBJECT_CLASS(lodge_new_window_parent_class)->dispose(object);
}

static void finalize(GObject *object)
{
    LodgeNewWindow *window = LODGE_NEW_WINDOW(object);

    g_free(window->kernel);
    g_free(window->initrd);
    G_OBJECT_CLASS(lodge_new_window_parent_class)->finalize(object);
}

static void lodge_new_window_class_init(LodgeNewWindowClass *class)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(class);

    G_OBJECT_CLASS(class)->dispose = dispose;
    G_OBJECT_CLASS(class)->finalize = finalize;
    gtk_widget_class_set_template_from_resource(widget_class, "/org/lodgevm/Lodge/new-window.ui");
    gtk_widget_class_bind_template_child(widget_class, LodgeNewWindow, connection);
    gtk_widget_class_bind_template_child(widget_class, LodgeNewWindow, name);
    gtk_widget_class_bind_template_child(widget_class, LodgeNewWindow, command_line);
    gtk_widget_class_bind_template_child(widget_class, LodgeNewWindow, count);
    gtk_widget_class_bind_template_child(widget_class, LodgeNewWindow, vcpus);
    gtk_widget_class_bind_template_child(widget_class, LodgeNewWindow, memory);
    gtk_widget_class_bind_template_child(widget_class, LodgeNewWindow, kernel_row);
    gtk_widget_class_bind_template_child(widget_class, LodgeNewWindow, initrd_row);
    gtk_widget_class_bind_template_child(widget_class, LodgeNewWindow, initrd_clear);
    gtk_widget_class_bind_template_child(widget_class, LodgeNewWindow, memory_row);
    gtk_widget_class_bind_template_child(widget_class, LodgeNewWindow, start);
    gtk_widget_class_bind_template_child(widget_class, LodgeNewWindow, problem);
    gtk_widget_class_bind_template_child(widget_class, LodgeNewWindow, create);
    gtk_widget_class_bind_template_callback(widget_class, show);
    gtk_widget_class_bind_template_callback(widget_class, on_choose_kernel);
    gtk_widget_class_bind_template_callback(widget_class, on_choose_initrd);
    gtk_widget_class_bind_template_callback(widget_class, on_clear_initrd);
    gtk_widget_class_bind_template_callback(widget_class, on_connection);
    gtk_widget_class_bind_template_callback(widget_class, on_create);
    gtk_widget_class_add_binding_action(widget_class, GDK_KEY_Escape, 0, "window.close", NULL);
}

static void lodge_new_window_init(LodgeNewWindow *window)
{
    gtk_widget_init_template(GTK_WIDGET(window));
}

GtkWidget *lodge_new_window_new(LodgeApplication *application)
{
    LodgeNewWindow *window = g_object_new(LODGE_TYPE_NEW_WINDOW, NULL);
    g_autoptr(GtkExpression) title =
        gtk_property_expression_new(LODGE_TYPE_CONNECTION_ITEM, NULL, "title");

    window->application = application;
    adw_combo_row_set_expression(window->connection, title);
    adw_combo_row_set_model(window->connection, lodge_application_get_connections(application));
    on_connection(window);
    restore(window);
    return GTK_WIDGET(window);
}
