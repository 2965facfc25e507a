/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What is done to the selected machines: a job each time. Deleting says first what goes, and can be
 * undone for as long as its toast is there: until then the machines are only hidden.
 */
#include "app/window-private.h"

#include "common/i18n.h"
#include "config/text.h"

#define UNDO_S      10u /* where there are no settings */
#define LISTED_MOST 200u
#define NAME_CHARS  64u

static void run(LodgeWindow *window, LodgeMachineVerb verb, GPtrArray *machines)
{
    LodgeJob *job = lodge_machine_verb_job(verb, machines);

    if (job) {
        lodge_application_run_job(lodge_window_get_application(window), job);
    }
}

/* --- Deleting. --- */

static void hide(LodgeWindow *window, GPtrArray *machines, gboolean hidden)
{
    for (guint i = 0; i < machines->len; i++) {
        lodge_machine_item_set_hidden(machines->pdata[i], hidden);
    }
    gtk_filter_changed(window->filter,
                       hidden ? GTK_FILTER_CHANGE_MORE_STRICT : GTK_FILTER_CHANGE_LESS_STRICT);
}

static void on_undo(LodgeWindow *window)
{
    hide(window, window->deleting, FALSE);
    g_ptr_array_set_size(window->deleting, 0);
}

static void on_deleted(LodgeWindow *window)
{
    /* Those that it failed for are there again. */
    if (window->filter) {
        gtk_filter_changed(window->filter, GTK_FILTER_CHANGE_LESS_STRICT);
    }
}

void lodge_window_verbs_finish(LodgeWindow *window)
{
    LodgeJob *job = lodge_machine_verb_job(LODGE_VERB_DELETE, window->deleting);

    if (job) {
        g_signal_connect_object(job, "ended", G_CALLBACK(on_deleted), window, G_CONNECT_SWAPPED);
        lodge_application_run_job(lodge_window_get_application(window), job);
    }
    g_ptr_array_set_size(window->deleting, 0);
}

static void on_toast_gone(AdwToast *toast, LodgeWindow *window)
{
    if (toast == window->toast) {
        window->toast = NULL;
        lodge_window_verbs_finish(window);
    }
}

static guint undo_seconds(LodgeWindow *window)
{
    GSettings *settings = lodge_application_get_settings(lodge_window_get_application(window));

    return settings ? g_settings_get_uint(settings, "undo-seconds") : UNDO_S;
}

static void delete_all(LodgeWindow *window, GPtrArray *machines)
{
    g_autofree char *title = g_strdup_printf(
        g_dngettext(NULL, "%u machine deleted", "%u machines deleted", machines->len),
        machines->len);
    AdwToast *toast = adw_toast_new(title);

    /* One at a time can be undone. */
    if (window->toast) {
        adw_toast_dismiss(window->toast);
    }
    for (guint i = 0; i < machines->len; i++) {
        g_ptr_array_add(window->deleting, g_object_ref(machines->pdata[i]));
    }
    hide(window, machines, TRUE);
    adw_toast_set_timeout(toast, undo_seconds(window));
    adw_toast_set_button_label(toast, _("Undo"));
    g_signal_connect_object(toast, "button-clicked", G_CALLBACK(on_undo), window,
                            G_CONNECT_SWAPPED);
    g_signal_connect_object(toast, "dismissed", G_CALLBACK(on_toast_gone), window, 0);
    window->toast = toast;
    adw_toast_overlay_add_toast(window->toasts, toast);
}

static GPtrArray *fitting(LodgeMachineVerb verb, GPtrArray *machines)
{
    GPtrArray *chosen = g_ptr_array_new_with_free_func(g_object_unref);

    for (guint i = 0; i < machines->len; i++) {
        if (lodge_machine_verb_fits(verb, lodge_machine_item_get_state(machines->pdata[i]))) {
            g_ptr_array_add(chosen, g_object_ref(machines->pdata[i]));
        }
    }
    return chosen;
}

static char *list_what_goes(GPtrArray *machines)
{
    g_autoptr(GString) text = g_string_new(NULL);

    for (guint i = 0; i < MIN(machines->len, LISTED_MOST); i++) {
        LodgeMachineItem *machine = machines->pdata[i];
        g_autofree char *name = lodge_text_show(lodge_machine_item_get_name(machine), NAME_CHARS);
        int state = lodge_machine_item_get_state(machine);

        if (lodge_machine_is_active(state)) {
            g_string_append_printf(text, _("%s: it is %s, and ended at once"), name,
                                   lodge_machine_state_name(state));
        } else {
            g_string_append(text, name);
        }
        g_string_append_c(text, '\n');
    }
    if (machines->len > LISTED_MOST) {
        g_string_append_printf(text, _("… and %u more"), machines->len - LISTED_MOST);
    }
    return g_strdup(g_strchomp(text->str));
}

static GtkWidget *make_list(GPtrArray *machines)
{
    g_autofree char *text = list_what_goes(machines);
    GtkWidget *label = gtk_label_new(text), *scrolled = gtk_scrolled_window_new();

    gtk_label_set_xalign(GTK_LABEL(label), 0);
    gtk_label_set_wrap(GTK_LABEL(label), TRUE);
    gtk_label_set_wrap_mode(GTK_LABEL(label), PANGO_WRAP_WORD_CHAR);
    gtk_scrolled_window_set_child(GTK_SCROLLED_WINDOW(scrolled), label);
    gtk_scrolled_window_set_policy(GTK_SCROLLED_WINDOW(scrolled), GTK_POLICY_NEVER,
                                   GTK_POLICY_AUTOMATIC);
    gtk_scrolled_window_set_propagate_natural_height(GTK_SCROLLED_WINDOW(scrolled), TRUE);
    gtk_scrolled_window_set_max_content_height(GTK_SCROLLED_WINDOW(scrolled), 240);
    return scrolled;
}

static void on_response(AdwMessageDialog *dialog, const char *response, LodgeWindow *window)
{
    if (g_strcmp0(response, "delete") == 0) {
        delete_all(window, g_object_get_data(G_OBJECT(dialog), "machines"));
    }
}

static void ask(LodgeWindow *window, GPtrArray *machines)
{
    g_autofree char *heading = g_strdup_printf(
        g_dngettext(NULL, "Delete %u Machine?", "Delete %u Machines?", machines->len),
        machines->len);
    AdwMessageDialog *dialog = ADW_MESSAGE_DIALOG(adw_message_dialog_new(
        GTK_WINDOW(window), heading,
        _("Their definitions go, and what they hold in memory. Files that they use, such as "
          "kernels and disks, stay.")));

    adw_message_dialog_add_responses(dialog, "cancel", _("Cancel"), "delete", _("Delete"), NULL);
    adw_message_dialog_set_response_appearance(dialog, "delete", ADW_RESPONSE_DESTRUCTIVE);
    adw_message_dialog_set_default_response(dialog, "delete");
    adw_message_dialog_set_close_response(dialog, "cancel");
    adw_message_dialog_set_extra_child(dialog, make_list(machines));
    g_object_set_data_full(G_OBJECT(dialog), "machines", machines,
                           (GDestroyNotify)g_ptr_array_unref);
    g_signal_connect_object(dialog, "response", G_CALLBACK(on_response), window, 0);
    gtk_window_present(GTK_WINDOW(dialog));
}

/* --- The actions. --- */

static void on_verb(GSimpleAction *action, GVariant *parameter, gpointer user_data)
{
    LodgeWindow *window = user_data;
    const char *name = g_action_get_name(G_ACTION(action));

    (void)parameter;
    for (int verb = 0; verb < LODGE_MACHINE_VERBS; verb++) {
        if (g_strcmp0(name, lodge_machine_verb_name((LodgeMachineVerb)verb)) != 0) {
            continue;
        }
        if (verb == LODGE_VERB_DELETE) {
            ask(window, fitting(LODGE_VERB_DELETE, window->selected));
        } else {
            run(window, (LodgeMachineVerb)verb, window->selected);
        }
    }
}

void lodge_window_verbs_update(LodgeWindow *window)
{
    for (int verb = 0; verb < LODGE_MACHINE_VERBS; verb++) {
        GAction *action = g_action_map_lookup_action(
            G_ACTION_MAP(window->machine_actions), lodge_machine_verb_name((LodgeMachineVerb)verb));

        g_simple_action_set_enabled(
            G_SIMPLE_ACTION(action),
            lodge_machine_verb_count((LodgeMachineVerb)verb, window->selected) > 0);
    }
}

void lodge_window_verbs_init(LodgeWindow *window)
{
    GtkEventController *keys = gtk_shortcut_controller_new();

    window->machine_actions = g_simple_action_group_new();
    for (int verb = 0; verb < LODGE_MACHINE_VERBS; verb++) {
        g_autoptr(GSimpleAction) action =
            g_simple_action_new(lodge_machine_verb_name((LodgeMachineVerb)verb), NULL);

        g_signal_connect_object(action, "activate", G_CALLBACK(on_verb), window, 0);
        g_action_map_add_action(G_ACTION_MAP(window->machine_actions), G_ACTION(action));
    }
    gtk_widget_insert_action_group(GTK_WIDGET(window), "machines",
                                   G_ACTION_GROUP(window->machine_actions));
    /* In the list only: elsewhere that key deletes text. */
    gtk_shortcut_controller_add_shortcut(GTK_SHORTCUT_CONTROLLER(keys),
                                         gtk_shortcut_new(gtk_keyval_trigger_new(GDK_KEY_Delete, 0),
                                                          gtk_named_action_new("machines.delete")));
    gtk_widget_add_controller(GTK_WIDGET(window->list), keys);
}
