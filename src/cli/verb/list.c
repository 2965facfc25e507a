/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `lodgectl list`: all machines, running or not. */
#include "cli/verb.h"

#include "cli/machines.h"
#include "cli/table.h"
#include "cli/verb-options.h"
#include "common/i18n.h"

enum { NAME, STATE, VCPUS, MEMORY, CPU, ID, UUID };

static const LodgeColumn columns[] = {
    [NAME] = {"name", N_("NAME"), LODGE_CELL_TEXT},
    [STATE] = {"state", N_("STATE"), LODGE_CELL_TEXT},
    [VCPUS] = {"vcpus", N_("VCPUS"), LODGE_CELL_NUMBER},
    [MEMORY] = {"memory_bytes", N_("MEMORY"), LODGE_CELL_BYTES},
    [CPU] = {"cpu_time_ns", N_("CPU TIME"), LODGE_CELL_SPAN},
    [ID] = {"id", NULL, LODGE_CELL_NUMBER},
    [UUID] = {"uuid", NULL, LODGE_CELL_TEXT},
};

static void add_machine(LodgeTable *table, const LodgeMachine *machine)
{
    lodge_table_add_row(table);
    lodge_table_set_text(table, NAME, machine->name);
    lodge_table_set_text(table, STATE, lodge_machine_state_name(machine->state));
    lodge_table_set_number(table, VCPUS, machine->vcpus);
    lodge_table_set_number(table, MEMORY, machine->memory_bytes);
    if (machine->active) {
        lodge_table_set_number(table, CPU, machine->cpu_ns);
        lodge_table_set_number(table, ID, (guint64)machine->id);
    }
    lodge_table_set_text(table, UUID, machine->uuid);
}

static char *to_text(GPtrArray *machines, gboolean names, gboolean json)
{
    g_autoptr(LodgeTable) table = lodge_table_new(columns, G_N_ELEMENTS(columns));
    GString *lines = NULL;

    if (names && !json) {
        lines = g_string_new(NULL);
        for (guint i = 0; i < machines->len; i++) {
            const LodgeMachine *machine = g_ptr_array_index(machines, i);

            g_string_append_printf(lines, "%s\n", machine->name);
        }
        return g_string_free(lines, FALSE);
    }
    for (guint i = 0; i < machines->len; i++) {
        add_machine(table, g_ptr_array_index(machines, i));
    }
    return json ? lodge_table_to_json(table) : lodge_table_to_text(table, 0);
}

int lodge_verb_list(int argc, char **argv)
{
    static const LodgeVerbHelp help = {
        .verb = "list",
        .parameters = N_("[NAME|GLOB…]"),
        .summary = N_("Lists machines, running or not: all, or those that are named."),
        .max = LODGE_VERB_MANY,
    };
    gboolean names = FALSE;
    const GOptionEntry own[] = {
        {"names", 0, 0, G_OPTION_ARG_NONE, &names, N_("names alone, one a line"), NULL},
        {NULL},
    };
    g_auto(LodgeVerbOptions) options = {0};
    g_autoptr(virConnect) connection = NULL;
    g_autoptr(GPtrArray) machines = NULL;
    g_autoptr(GPtrArray) chosen = NULL;
    g_autoptr(GError) error = NULL;
    g_autofree char *text = NULL;

    if (lodge_verb_options_parse(&options, &help, LODGE_VERB_OPTION_JSON, own, argc, argv,
                                 &error)) {
        machines =
            lodge_machines_open(options.connect, LODGE_CONNECTION_CALLS, &connection, &error);
    }
    if (machines) {
        chosen =
            lodge_machines_select(machines, options.parameters, !options.parameters[0], &error);
    }
    if (!chosen) {
        return lodge_verb_fail(error);
    }
    text = to_text(chosen, names, options.json);
    g_print("%s", text);
    return LODGE_EXIT_OK;
}
