/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Follows one machine at a time: rows are used again as the list scrolls. */
#include "app/widgets/machine-row.h"

#include "app/widgets/sparkline.h"
#include "common/i18n.h"

struct _LodgeMachineRow {
    GtkWidget parent_instance;
    LodgeMachineItem *machine;
    gulong notify;
    /* Of the template. */
    GtkImage *state;
    GtkLabel *name, *facts;
    LodgeSparkline *sparkline;
};

G_DEFINE_FINAL_TYPE(LodgeMachineRow, lodge_machine_row, GTK_TYPE_WIDGET)

const char *lodge_machine_row_state_icon(int state)
{
    static const char *const icons[LODGE_MACHINE_STATES] = {
        [VIR_DOMAIN_NOSTATE] = "lodge-state-unknown-symbolic",
        [VIR_DOMAIN_RUNNING] = "lodge-state-running-symbolic",
        [VIR_DOMAIN_BLOCKED] = "lodge-state-running-symbolic",
        [VIR_DOMAIN_PAUSED] = "lodge-state-paused-symbolic",
        [VIR_DOMAIN_SHUTDOWN] = "lodge-state-paused-symbolic",
        [VIR_DOMAIN_SHUTOFF] = "lodge-state-off-symbolic",
        [VIR_DOMAIN_CRASHED] = "lodge-state-crashed-symbolic",
        [VIR_DOMAIN_PMSUSPENDED] = "lodge-state-paused-symbolic",
    };

    return icons[state >= 0 && state < LODGE_MACHINE_STATES ? state : VIR_DOMAIN_NOSTATE];
}

static void show(LodgeMachineRow *row)
{
    const char *name = lodge_machine_item_get_name(row->machine);
    int state = lodge_machine_item_get_state(row->machine);

    gtk_label_set_text(row->name, name);
    gtk_widget_set_tooltip_text(GTK_WIDGET(row->name), name);
    gtk_label_set_text(row->facts, lodge_machine_item_get_facts(row->machine));
    gtk_image_set_from_icon_name(row->state, lodge_machine_row_state_icon(state));
    gtk_widget_set_visible(GTK_WIDGET(row->sparkline), lodge_machine_is_active(state));
}

static void on_notify(LodgeMachineItem *machine, GParamSpec *spec, LodgeMachineRow *row)
{
    (void)machine;
    /* The sparkline follows that by itself. */
    if (g_strcmp0(spec->name, "cpu") != 0) {
        show(row);
    }
}

void lodge_machine_row_set_machine(LodgeMachineRow *row, LodgeMachineItem *machine)
{
    g_return_if_fail(LODGE_IS_MACHINE_ROW(row));

    if (row->machine) {
        g_clear_signal_handler(&row->notify, row->machine);
    }
    g_set_object(&row->machine, machine);
    if (row->sparkline) {
        lodge_sparkline_set_machine(row->sparkline, machine);
    }
    if (machine) {
        row->notify = g_signal_connect(machine, "notify", G_CALLBACK(on_notify), row);
        show(row);
    }
}

static void dispose(GObject *object)
{
    GtkWidget *child;

    lodge_machine_row_set_machine(LODGE_MACHINE_ROW(object), NULL);
    while ((child = gtk_widget_get_first_child(GTK_WIDGET(object)))) {
        gtk_widget_unparent(child);
    }
    G_OBJECT_CLASS(lodge_machine_row_parent_class)->dispose(object);
}

static void lodge_machine_row_class_init(LodgeMachineRowClass *class)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(class);

    G_OBJECT_CLASS(class)->dispose = dispose;
    g_type_ensure(LODGE_TYPE_SPARKLINE);
    gtk_widget_class_set_layout_manager_type(widget_class, GTK_TYPE_BOX_LAYOUT);
    gtk_widget_class_set_template_from_resource(widget_class, "/org/lodgevm/Lodge/machine-row.ui");
    gtk_widget_class_bind_template_child(widget_class, LodgeMachineRow, state);
    gtk_widget_class_bind_template_child(widget_class, LodgeMachineRow, name);
    gtk_widget_class_bind_template_child(widget_class, LodgeMachineRow, facts);
    gtk_widget_class_bind_template_child(widget_class, LodgeMachineRow, sparkline);
}

static void lodge_machine_row_init(LodgeMachineRow *row)
{
    gtk_widget_init_template(GTK_WIDGET(row));
    gtk_widget_set_hexpand(GTK_WIDGET(row), TRUE);
    gtk_box_layout_set_spacing(GTK_BOX_LAYOUT(gtk_widget_get_layout_manager(GTK_WIDGET(row))), 9);
}
