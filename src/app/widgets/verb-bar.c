/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Buttons in a box that breaks lines: all of it fits 360 pixels. */
#include "app/widgets/verb-bar.h"

struct _LodgeVerbBar {
    GtkWidget parent_instance;
    GtkWidget *box;
    GtkWidget *buttons[LODGE_MACHINE_VERBS];
};

G_DEFINE_FINAL_TYPE(LodgeVerbBar, lodge_verb_bar, GTK_TYPE_WIDGET)

static void set_label(GtkWidget *button, LodgeMachineVerb verb, guint count, guint all)
{
    g_autofree char *label = NULL;

    if (all > 1) {
        label = g_strdup_printf("%s %u", lodge_machine_verb_label(verb), count);
    }
    gtk_button_set_label(GTK_BUTTON(button), label ? label : lodge_machine_verb_label(verb));
}

void lodge_verb_bar_show(LodgeVerbBar *bar, GPtrArray *machines)
{
    g_return_if_fail(LODGE_IS_VERB_BAR(bar));

    for (int verb = 0; verb < LODGE_MACHINE_VERBS; verb++) {
        guint count = lodge_machine_verb_count((LodgeMachineVerb)verb, machines);

        set_label(bar->buttons[verb], (LodgeMachineVerb)verb, count, machines->len);
    }
}

static void dispose(GObject *object)
{
    g_clear_pointer(&LODGE_VERB_BAR(object)->box, gtk_widget_unparent);
    G_OBJECT_CLASS(lodge_verb_bar_parent_class)->dispose(object);
}

static void lodge_verb_bar_class_init(LodgeVerbBarClass *class)
{
    G_OBJECT_CLASS(class)->dispose = dispose;
    gtk_widget_class_set_layout_manager_type(GTK_WIDGET_CLASS(class), GTK_TYPE_BIN_LAYOUT);
}

static void lodge_verb_bar_init(LodgeVerbBar *bar)
{
    GtkFlowBox *box = GTK_FLOW_BOX(gtk_flow_box_new());

    bar->box = GTK_WIDGET(box);
    gtk_flow_box_set_selection_mode(box, GTK_SELECTION_NONE);
    gtk_flow_box_set_max_children_per_line(box, LODGE_MACHINE_VERBS);
    gtk_flow_box_set_column_spacing(box, 6);
    gtk_flow_box_set_row_spacing(box, 6);
    for (int verb = 0; verb < LODGE_MACHINE_VERBS; verb++) {
        GtkWidget *child = gtk_flow_box_child_new();
        GtkWidget *button = gtk_button_new();
        g_autofree char *action =
            g_strdup_printf("machines.%s", lodge_machine_verb_name((LodgeMachineVerb)verb));

        gtk_actionable_set_action_name(GTK_ACTIONABLE(button), action);
        if (verb == LODGE_VERB_DELETE || verb == LODGE_VERB_FORCE_OFF) {
            gtk_widget_add_css_class(button, "destructive-action");
        }
        set_label(button, (LodgeMachineVerb)verb, 0, 1);
        /* The button is what Tab stops at. */
        gtk_widget_set_focusable(child, FALSE);
        gtk_flow_box_child_set_child(GTK_FLOW_BOX_CHILD(child), button);
        gtk_flow_box_append(box, child);
        bar->buttons[verb] = button;
    }
    gtk_widget_set_parent(bar->box, GTK_WIDGET(bar));
}
