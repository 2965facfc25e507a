/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Command line, actions, and what outlives a window. */
#include "app/application.h"

#include "app/window.h"
#include "common/i18n.h"

#define LONG_US (10 * G_TIME_SPAN_SECOND)

struct _LodgeApplication {
    AdwApplication parent_instance;
    GListStore *connections;
    GListStore *jobs;
    GSettings *settings; /* may be NULL */
};

G_DEFINE_FINAL_TYPE(LodgeApplication, lodge_application, ADW_TYPE_APPLICATION)

GListModel *lodge_application_get_connections(LodgeApplication *application)
{
    return G_LIST_MODEL(application->connections);
}

GListModel *lodge_application_get_jobs(LodgeApplication *application)
{
    return G_LIST_MODEL(application->jobs);
}

GSettings *lodge_application_get_settings(LodgeApplication *application)
{
    return application->settings;
}

static LodgeConnectionItem *find(LodgeApplication *application, const char *uri)
{
    GListModel *model = G_LIST_MODEL(application->connections);

    for (guint i = 0; i < g_list_model_get_n_items(model); i++) {
        g_autoptr(LodgeConnectionItem) item = g_list_model_get_item(model, i);

        if (g_strcmp0(lodge_connection_item_get_uri(item), uri) == 0) {
            return item;
        }
    }
    return NULL;
}

LodgeConnectionItem *lodge_application_connect(LodgeApplication *application, const char *uri)
{
    LodgeConnectionItem *item = find(application, uri);

    if (!item) {
        g_autoptr(LodgeConnectionItem) added = lodge_connection_item_new(uri);

        g_list_store_append(application->connections, added);
        item = added;
    }
    lodge_connection_item_open(item);
    return item;
}

/* --- Jobs. --- */

static void tell(LodgeApplication *application, LodgeJob *job)
{
    GtkWindow *window = gtk_application_get_active_window(GTK_APPLICATION(application));
    g_autoptr(GNotification) notification = NULL;

    if (lodge_job_get_span_us(job) < LONG_US || (window && gtk_window_is_active(window))) {
        return;
    }
    notification = g_notification_new(lodge_job_get_title(job));
    g_notification_set_body(notification, lodge_job_get_detail(job));
    g_application_send_notification(G_APPLICATION(application), NULL, notification);
}

/* Failed ones stay until somebody has seen them. */
static void on_job_ended(LodgeJob *job, LodgeApplication *application)
{
    tell(application, job);
    if (!lodge_job_get_failures(job)) {
        lodge_application_dismiss_job(application, job);
    }
    g_application_release(G_APPLICATION(application));
}

void lodge_application_run_job(LodgeApplication *application, LodgeJob *job)
{
    g_autoptr(LodgeJob) owned = job;

    g_return_if_fail(LODGE_IS_APPLICATION(application));
    g_list_store_insert(application->jobs, 0, job);
    g_signal_connect_object(job, "ended", G_CALLBACK(on_job_ended), application, 0);
    /* It goes on when the window is closed. */
    g_application_hold(G_APPLICATION(application));
    lodge_job_run(job);
}

void lodge_application_dismiss_job(LodgeApplication *application, LodgeJob *job)
{
    guint at;

    if (g_list_store_find(application->jobs, job, &at)) {
        g_list_store_remove(application->jobs, at);
    }
}

/* --- Actions. --- */

static void on_quit(GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
    GtkWindow *window = gtk_application_get_active_window(user_data);

    (void)action, (void)parameter;
    if (window) {
        gtk_window_close(window);
    }
}

static void on_about(GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
    (void)action, (void)parameter;
    adw_show_about_window(gtk_application_get_active_window(user_data), "application-name",
                          _("Lodge"), "application-icon", LODGE_APPLICATION_ID, "version",
                          LODGE_VERSION, "license-type", GTK_LICENSE_GPL_3_0, "comments",
                          _("Virtual machines, many at a time"), NULL);
}

static void add_actions(LodgeApplication *application)
{
    static const GActionEntry actions[] = {
        {.name = "quit", .activate = on_quit},
        {.name = "about", .activate = on_about},
    };
    static const struct {
        const char *action;
        const char *keys[3];
    } keys[] = {
        {"app.quit", {"<Control>q", NULL}},
        {"win.new-machines", {"<Control>n", NULL}},
        {"win.search", {"<Control>f", NULL}},
        {"win.show-help-overlay", {"<Control>question", NULL}},
        {"machines.start", {"<Control>Return", NULL}},
        {"machines.force-off", {"<Control>period", NULL}},
    };

    g_action_map_add_action_entries(G_ACTION_MAP(application), actions, G_N_ELEMENTS(actions),
                                    application);
    for (gsize i = 0; i < G_N_ELEMENTS(keys); i++) {
        gtk_application_set_accels_for_action(GTK_APPLICATION(application), keys[i].action,
                                              keys[i].keys);
    }
}

/* --- The program. --- */

static void open_settings(LodgeApplication *application)
{
    GSettingsSchemaSource *source = g_settings_schema_source_get_default();
    g_autoptr(GSettingsSchema) schema =
        source ? g_settings_schema_source_lookup(source, LODGE_APPLICATION_ID, TRUE) : NULL;

    if (schema) {
        application->settings = g_settings_new_full(schema, NULL, NULL);
    }
}

static void startup(GApplication *base)
{
    LodgeApplication *application = LODGE_APPLICATION(base);

    G_APPLICATION_CLASS(lodge_application_parent_class)->startup(base);
    open_settings(application);
    add_actions(application);
    gtk_window_set_default_icon_name(LODGE_APPLICATION_ID);
}

static void activate(GApplication *base)
{
    LodgeApplication *application = LODGE_APPLICATION(base);
    GtkWindow *window = gtk_application_get_active_window(GTK_APPLICATION(base));

    if (g_list_model_get_n_items(G_LIST_MODEL(application->connections)) == 0) {
        lodge_application_connect(application, LODGE_CONNECTION_DEFAULT);
    }
    if (!window) {
        window = GTK_WINDOW(lodge_window_new(application));
    }
    gtk_window_present(window);
}

static int command_line(GApplication *base, GApplicationCommandLine *line)
{
    LodgeApplication *application = LODGE_APPLICATION(base);
    g_auto(GStrv) uris = NULL;

    (void)g_variant_dict_lookup(g_application_command_line_get_options_dict(line),
                                G_OPTION_REMAINING, "^as", &uris);
    for (guint i = 0; uris && uris[i]; i++) {
        lodge_application_connect(application, uris[i]);
    }
    g_application_activate(base);
    return 0;
}

static int handle_local_options(GApplication *base, GVariantDict *options)
{
    (void)base;
    if (g_variant_dict_contains(options, "version")) {
        g_print("lodge %s\n", LODGE_VERSION);
        return 0;
    }
    return -1;
}

static void finalize(GObject *object)
{
    LodgeApplication *application = LODGE_APPLICATION(object);

    g_object_unref(application->connections);
    g_object_unref(application->jobs);
    g_clear_object(&application->settings);
    G_OBJECT_CLASS(lodge_application_parent_class)->finalize(object);
}

static void lodge_application_class_init(LodgeApplicationClass *class)
{
    GApplicationClass *application_class = G_APPLICATION_CLASS(class);

    G_OBJECT_CLASS(class)->finalize = finalize;
    application_class->startup = startup;
    application_class->activate = activate;
    application_class->command_line = command_line;
    application_class->handle_local_options = handle_local_options;
}

static void lodge_application_init(LodgeApplication *application)
{
    /* GApplication translates none of its own. */
    const GOptionEntry options[] = {
        {"version", 0, 0, G_OPTION_ARG_NONE, NULL, _("Show the version"), NULL},
        {G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_STRING_ARRAY, NULL, NULL, _("[URI…]")},
        {NULL},
    };

    application->connections = g_list_store_new(LODGE_TYPE_CONNECTION_ITEM);
    application->jobs = g_list_store_new(LODGE_TYPE_JOB);
    g_application_add_main_option_entries(G_APPLICATION(application), options);
    g_application_set_option_context_summary(
        G_APPLICATION(application),
        _("Manages virtual machines. A URI is any of libvirt's, such as lodge+ssh://host/session; "
          "without one it is this computer's."));
}

LodgeApplication *lodge_application_new(void)
{
    return g_object_new(LODGE_TYPE_APPLICATION, "application-id", LODGE_APPLICATION_ID, "flags",
                        G_APPLICATION_HANDLES_COMMAND_LINE, "resource-base-path",
                        "/org/lodgevm/Lodge", NULL);
}
