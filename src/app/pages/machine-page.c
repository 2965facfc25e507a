/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Follows its machine's properties. */
#include "app/pages/machine-page.h"

#include "app/model/connection-item.h"
#include "app/pages/console-page.h"
#include "app/pages/group-page.h"
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
    LodgeGroupPage *timers, *locks;
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

/* Only the page that is shown asks. And who opens a console takes it from whoever has it. */
static void follow_page(LodgeMachinePage *page)
{
    GtkWidget *shown = adw_view_stack_get_visible_child(page->stack);
    LodgeMachineItem *machine = page->machine;

    lodge_console_page_set_machine(page->console,
                                   shown == GTK_WIDGET(page->console) ? machine : NULL);
    lodge_group_page_set_machine(page->timers, shown == GTK_WIDGET(page->timers) ? machine : NULL);
    lodge_group_page_set_machine(page->locks, shown == GTK_WIDGET(page->locks) ? machine : NULL);
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
    g_type_ensure(LODGE_TYPE_GROUP_PAGE);
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
    gtk_widget_class_bind_template_child(widget_class, LodgeMachinePage, timers);
    gtk_widget_class_bind_template_child(widget_class, LodgeMachinePage, locks);
    gtk_widget_class_bind_template_callback(widget_class, follow_page);
}

static const LodgeGroupColumn timer_columns[] = {
    {"name", N_("Timer"), LODGE_GROUP_TEXT},
    {"policy", N_("Policy"), LODGE_GROUP_TEXT},
    {"vcpu", N_("vCPU"), LODGE_GROUP_NUMBER},
    {"period_ns", N_("Period"), LODGE_GROUP_SPAN},
    {"fired", N_("Fired"), LODGE_GROUP_NUMBER},
    {"accepted", N_("Accepted"), LODGE_GROUP_NUMBER},
    {"merged", N_("Merged"), LODGE_GROUP_NUMBER},
    {"discarded", N_("Discarded"), LODGE_GROUP_NUMBER},
    {"pending", N_("Pending"), LODGE_GROUP_NUMBER},
    {"late.p50", N_("Late, p50"), LODGE_GROUP_SPAN},
    {"late.p99", N_("Late, p99"), LODGE_GROUP_SPAN},
    {"late.max", N_("Late, most"), LODGE_GROUP_SPAN},
};

static const LodgeGroupColumn lock_columns[] = {
    {"class", N_("Lock"), LODGE_GROUP_TEXT},
    {"instance", N_("Number"), LODGE_GROUP_NUMBER},
    {"kind", N_("Kind"), LODGE_GROUP_TEXT},
    {"lost", N_("Time lost"), LODGE_GROUP_SPAN},
    {"acquired", N_("Taken"), LODGE_GROUP_NUMBER},
    {"contended", N_("Waited for"), LODGE_GROUP_NUMBER},
    {"wait.total", N_("Wait, in all"), LODGE_GROUP_SPAN},
    {"wait.p99", N_("Wait, p99"), LODGE_GROUP_SPAN},
    {"wait.max", N_("Wait, most"), LODGE_GROUP_SPAN},
    {"hold.p50", N_("Held, p50"), LODGE_GROUP_SPAN},
    {"hold.p99", N_("Held, p99"), LODGE_GROUP_SPAN},
    {"hold.max", N_("Held, most"), LODGE_GROUP_SPAN},
};

static void lodge_machine_page_init(LodgeMachinePage *page)
{
    gtk_widget_init_template(GTK_WIDGET(page));
    lodge_group_page_set_group(page->timers, "timer", timer_columns, G_N_ELEMENTS(timer_columns),
                               N_("This connection’s hypervisor tells nothing of timers."));
    lodge_group_page_set_group(page->locks, "lock", lock_columns, G_N_ELEMENTS(lock_columns),
                               N_("This connection’s hypervisor tells nothing of locks."));
}
