/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Follows its machine's properties. */
#include "app/pages/machine-page.h"

#include "app/model/connection-item.h"
#include "app/pages/console-page.h"
#include "app/widgets/machine-row.h"
#include "app/widgets/sparkline.h"
#include "app/widgets/verb-bar.h"
#include "common/i18n.h"
#include "common/units.h"

struct _LodgeMachinePage {
    AdwBin parent_instance;
    LodgeMachineItem *machine;
    gulong notify;
    GtkImage *icon;
    GtkLabel *title, *facts;
    AdwActionRow *cpu, *vcpus, *memory, *connection, *uuid;
    LodgeSparkline *chart;
    LodgeVerbBar *verbs;
    AdwViewStack *stack;
    LodgeConsolePage *console;
};

G_DEFINE_FINAL_TYPE(LodgeMachinePage, lodge_machine_page, ADW_TYPE_BIN)

static void set_number(AdwActionRow *row, char *text)
{
    adw_action_row_set_subtitle(row, text);
    g_free(text);
}

static void show(LodgeMachinePage *page)
{
    LodgeMachineItem *machine = page->machine;
    LodgeConnectionItem *connection = lodge_machine_item_get_connection(machine);
    const char *title = connection ? lodge_connection_item_get_title(connection) : "";
    g_autoptr(GPtrArray) machines = g_ptr_array_new();
    g_autofree char *escaped = g_markup_escape_text(title, -1);

    g_ptr_array_add(machines, machine);
    lodge_verb_bar_show(page->verbs, machines);
    gtk_image_set_from_icon_name(
        page->icon, lodge_machine_row_state_icon(lodge_machine_item_get_state(machine)));
    gtk_label_set_text(page->title, lodge_machine_item_get_name(machine));
    gtk_widget_set_tooltip_text(GTK_WIDGET(page->title), lodge_machine_item_get_name(machine));
    gtk_label_set_text(page->facts, lodge_machine_item_get_facts(machine));
    set_number(page->cpu, g_strdup_printf(_("%.0f %%"), lodge_machine_item_get_cpu(machine) * 100));
    set_number(page->vcpus, g_strdup_printf("%u", lodge_machine_item_get_vcpus(machine)));
    set_number(page->memory, lodge_format_rough_bytes(lodge_machine_item_get_memory(machine)));
    adw_action_row_set_subtitle(page->connection, escaped);
    adw_action_row_set_subtitle(page->uuid, lodge_machine_item_get_uuid(machine));
}

/* Who opens a console takes it from whoever has it: not before somebody wants to see it. */
static void follow_page(LodgeMachinePage *page)
{
    gboolean wanted = g_strcmp0(adw_view_stack_get_visible_child_name(page->stack), "console") == 0;

    lodge_console_page_set_machine(page->console, wanted ? page->machine : NULL);
}

void lodge_machine_page_set_machine(LodgeMachinePage *page, LodgeMachineItem *machine)
{
    g_return_if_fail(LODGE_IS_MACHINE_PAGE(page));

    if (page->machine == machine) {
        return;
    }
    if (page->machine) {
        g_clear_signal_handler(&page->notify, page->machine);
    }
    g_set_object(&page->machine, machine);
    if (page->chart) {
        lodge_sparkline_set_machine(page->chart, machine);
        follow_page(page);
    }
    if (machine) {
        page->notify = g_signal_connect_swapped(machine, "notify", G_CALLBACK(show), page);
        show(page);
    }
}

static void dispose(GObject *object)
{
    lodge_machine_page_set_machine(LODGE_MACHINE_PAGE(object), NULL);
    G_OBJECT_CLASS(lodge_machine_page_parent_class)->dispose(object);
}

static void lodge_machine_page_class_init(LodgeMachinePageClass *class)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(class);

    G_OBJECT_CLASS(class)->dispose = dispose;
    g_type_ensure(LODGE_TYPE_CONSOLE_PAGE);
    g_type_ensure(LODGE_TYPE_SPARKLINE);
    g_type_ensure(LODGE_TYPE_VERB_BAR);
    gtk_widget_class_set_template_from_resource(widget_class, "/org/lodgevm/Lodge/machine-page.ui");
    gtk_widget_class_bind_template_child(widget_class, LodgeMachinePage, icon);
    gtk_widget_class_bind_template_child(widget_class, LodgeMachinePage, title);
    gtk_widget_class_bind_template_child(widget_class, LodgeMachinePage, facts);
    gtk_widget_class_bind_template_child(widget_class, LodgeMachinePage, cpu);
    gtk_widget_class_bind_template_child(widget_class, LodgeMachinePage, vcpus);
    gtk_widget_class_bind_template_child(widget_class, LodgeMachinePage, memory);
    gtk_widget_class_bind_template_child(widget_class, LodgeMachinePage, connection);
    gtk_widget_class_bind_template_child(widget_class, LodgeMachinePage, uuid);
    gtk_widget_class_bind_template_child(widget_class, LodgeMachinePage, chart);
    gtk_widget_class_bind_template_child(widget_class, LodgeMachinePage, verbs);
    gtk_widget_class_bind_template_child(widget_class, LodgeMachinePage, stack);
    gtk_widget_class_bind_template_child(widget_class, LodgeMachinePage, console);
    gtk_widget_class_bind_template_callback(widget_class, follow_page);
}

static void lodge_machine_page_init(LodgeMachinePage *page)
{
    gtk_widget_init_template(GTK_WIDGET(page));
}
