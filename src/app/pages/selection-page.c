/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Shown anew when the selection, or something in it, changes. */
#include "app/pages/selection-page.h"

#include "app/widgets/verb-bar.h"
#include "common/i18n.h"
#include "common/units.h"

struct _LodgeSelectionPage {
    AdwBin parent_instance;
    GtkLabel *title, *states;
    AdwActionRow *cpu, *vcpus, *memory;
    LodgeVerbBar *verbs;
};

G_DEFINE_FINAL_TYPE(LodgeSelectionPage, lodge_selection_page, ADW_TYPE_BIN)

/* "12 running, 8 shut off" */
static char *count_states(GPtrArray *machines)
{
    g_autoptr(GString) text = g_string_new(NULL);
    guint counts[LODGE_MACHINE_STATES] = {0};

    for (guint i = 0; i < machines->len; i++) {
        counts[lodge_machine_item_get_state(g_ptr_array_index(machines, i))]++;
    }
    for (int state = 0; state < LODGE_MACHINE_STATES; state++) {
        if (counts[state] > 0) {
            g_string_append_printf(text, "%s%u %s", text->len ? ", " : "", counts[state],
                                   state == VIR_DOMAIN_NOSTATE ? _("unknown")
                                                               : lodge_machine_state_name(state));
        }
    }
    return g_strdup(text->str);
}

void lodge_selection_page_show(LodgeSelectionPage *page, GPtrArray *machines)
{
    g_autofree char *title = g_strdup_printf(
        g_dngettext(NULL, "%u machine", "%u machines", machines->len), machines->len);
    g_autofree char *states = count_states(machines);
    g_autofree char *cpu = NULL, *vcpus = NULL, *memory = NULL;
    gdouble used = 0;
    guint64 count = 0, bytes = 0;

    g_return_if_fail(LODGE_IS_SELECTION_PAGE(page));
    for (guint i = 0; i < machines->len; i++) {
        LodgeMachineItem *machine = g_ptr_array_index(machines, i);

        used += lodge_machine_item_get_cpu(machine) * lodge_machine_item_get_vcpus(machine);
        count += lodge_machine_item_get_vcpus(machine);
        bytes += lodge_machine_item_get_memory(machine);
    }
    cpu = g_strdup_printf(_("%.2f host CPUs"), used);
    vcpus = g_strdup_printf("%" G_GUINT64_FORMAT, count);
    memory = lodge_format_rough_bytes(bytes);
    gtk_label_set_text(page->title, title);
    gtk_label_set_text(page->states, states);
    adw_action_row_set_subtitle(page->cpu, cpu);
    adw_action_row_set_subtitle(page->vcpus, vcpus);
    adw_action_row_set_subtitle(page->memory, memory);
    lodge_verb_bar_show(page->verbs, machines);
}

static void lodge_selection_page_class_init(LodgeSelectionPageClass *class)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(class);

    g_type_ensure(LODGE_TYPE_VERB_BAR);
    gtk_widget_class_set_template_from_resource(widget_class,
                                                "/org/lodgevm/Lodge/selection-page.ui");
    gtk_widget_class_bind_template_child(widget_class, LodgeSelectionPage, title);
    gtk_widget_class_bind_template_child(widget_class, LodgeSelectionPage, states);
    gtk_widget_class_bind_template_child(widget_class, LodgeSelectionPage, cpu);
    gtk_widget_class_bind_template_child(widget_class, LodgeSelectionPage, vcpus);
    gtk_widget_class_bind_template_child(widget_class, LodgeSelectionPage, memory);
    gtk_widget_class_bind_template_child(widget_class, LodgeSelectionPage, verbs);
}

static void lodge_selection_page_init(LodgeSelectionPage *page)
{
    gtk_widget_init_template(GTK_WIDGET(page));
}
