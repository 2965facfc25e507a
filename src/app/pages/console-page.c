/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A terminal that is fed by a stream, one for each time that the machine runs. */
#include "app/pages/console-page.h"

#include "app/model/console-stream.h"
#include "common/i18n.h"

#include <vte/vte.h>

#define SCROLLBACK_LINES 10000

struct _LodgeConsolePage {
    AdwBin parent_instance;
    LodgeMachineItem *machine;
    gulong notify;
    LodgeConsoleStream *stream; /* NULL: none */
    /* Of the template. */
    VteTerminal *terminal;
    GtkLabel *state;
};

G_DEFINE_FINAL_TYPE(LodgeConsolePage, lodge_console_page, ADW_TYPE_BIN)

static void say(LodgeConsolePage *page, const char *text)
{
    gtk_label_set_text(page->state, text);
}

static void on_data(LodgeConsoleStream *stream, GBytes *bytes, LodgeConsolePage *page)
{
    gsize size;
    const char *data = g_bytes_get_data(bytes, &size);

    (void)stream;
    vte_terminal_feed(page->terminal, data, (gssize)size);
}

static void drop(LodgeConsolePage *page)
{
    if (page->stream) {
        g_signal_handlers_disconnect_by_data(page->stream, page);
        lodge_console_stream_close(page->stream);
        g_clear_object(&page->stream);
    }
}

static void on_ended(LodgeConsoleStream *stream, const char *why, LodgeConsolePage *page)
{
    (void)stream;
    drop(page);
    say(page, why ? why : _("The machine has ended."));
}

/* There is one while the machine runs; the next one begins when it runs again. */
static void follow(LodgeConsolePage *page)
{
    gboolean active = lodge_machine_is_active(lodge_machine_item_get_state(page->machine)) &&
                      lodge_machine_item_get_state(page->machine) != VIR_DOMAIN_NOSTATE;

    if (!active) {
        drop(page);
        say(page, _("The machine does not run."));
    } else if (!page->stream) {
        page->stream = lodge_console_stream_new(page->machine);
        if (page->stream) {
            g_signal_connect(page->stream, "data", G_CALLBACK(on_data), page);
            g_signal_connect(page->stream, "ended", G_CALLBACK(on_ended), page);
            say(page, _("Connected. Ctrl+Alt gives the keyboard back to the window."));
        }
    }
}

static void on_commit(LodgeConsolePage *page, const char *text, guint bytes)
{
    if (page->stream) {
        lodge_console_stream_send(page->stream, text, bytes);
    }
}

/* Before the terminal sees it: whatever the guest does, the keyboard comes back. */
static gboolean on_key(LodgeConsolePage *page, guint key, guint code, GdkModifierType state)
{
    gboolean with_control = key == GDK_KEY_Alt_L && (state & GDK_CONTROL_MASK);
    gboolean with_alt =
        (key == GDK_KEY_Control_L || key == GDK_KEY_Control_R) && (state & GDK_ALT_MASK);

    (void)code;
    if (with_control || with_alt) {
        gtk_widget_child_focus(GTK_WIDGET(gtk_widget_get_root(GTK_WIDGET(page))),
                               GTK_DIR_TAB_FORWARD);
        return GDK_EVENT_STOP;
    }
    return GDK_EVENT_PROPAGATE;
}

static void copy(GtkWidget *widget, const char *action, GVariant *parameter)
{
    (void)action, (void)parameter;
    vte_terminal_copy_clipboard_format(LODGE_CONSOLE_PAGE(widget)->terminal, VTE_FORMAT_TEXT);
}

static void paste(GtkWidget *widget, const char *action, GVariant *parameter)
{
    (void)action, (void)parameter;
    vte_terminal_paste_clipboard(LODGE_CONSOLE_PAGE(widget)->terminal);
}

void lodge_console_page_set_machine(LodgeConsolePage *page, LodgeMachineItem *machine)
{
    g_return_if_fail(LODGE_IS_CONSOLE_PAGE(page));

    if (page->machine == machine) {
        return;
    }
    if (page->machine) {
        g_clear_signal_handler(&page->notify, page->machine);
        drop(page);
    }
    g_set_object(&page->machine, machine);
    if (machine) {
        vte_terminal_reset(page->terminal, TRUE, TRUE);
        page->notify = g_signal_connect_swapped(machine, "notify::state", G_CALLBACK(follow), page);
        follow(page);
    }
}

static void dispose(GObject *object)
{
    lodge_console_page_set_machine(LODGE_CONSOLE_PAGE(object), NULL);
    G_OBJECT_CLASS(lodge_console_page_parent_class)->dispose(object);
}

static void lodge_console_page_class_init(LodgeConsolePageClass *class)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(class);

    G_OBJECT_CLASS(class)->dispose = dispose;
    g_type_ensure(VTE_TYPE_TERMINAL);
    gtk_widget_class_set_template_from_resource(widget_class, "/org/lodgevm/Lodge/console-page.ui");
    gtk_widget_class_bind_template_child(widget_class, LodgeConsolePage, terminal);
    gtk_widget_class_bind_template_child(widget_class, LodgeConsolePage, state);
    gtk_widget_class_bind_template_callback(widget_class, on_commit);
    gtk_widget_class_install_action(widget_class, "console.copy", NULL, copy);
    gtk_widget_class_install_action(widget_class, "console.paste", NULL, paste);
    gtk_widget_class_add_binding_action(widget_class, GDK_KEY_c, GDK_CONTROL_MASK | GDK_SHIFT_MASK,
                                        "console.copy", NULL);
    gtk_widget_class_add_binding_action(widget_class, GDK_KEY_v, GDK_CONTROL_MASK | GDK_SHIFT_MASK,
                                        "console.paste", NULL);
}

static void lodge_console_page_init(LodgeConsolePage *page)
{
    GtkEventController *keys = gtk_event_controller_key_new();

    gtk_widget_init_template(GTK_WIDGET(page));
    vte_terminal_set_scrollback_lines(page->terminal, SCROLLBACK_LINES);
    gtk_event_controller_set_propagation_phase(keys, GTK_PHASE_CAPTURE);
    g_signal_connect_swapped(keys, "key-pressed", G_CALLBACK(on_key), page);
    gtk_widget_add_controller(GTK_WIDGET(page->terminal), keys);
}
