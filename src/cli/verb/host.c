/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `lodgectl host`: the hypervisor at the other end, and what Lodge's processes hold here. */
#include "cli/verb.h"

#include "cli/machines.h"
#include "cli/process-memory.h"
#include "cli/table.h"
#include "cli/verb-options.h"
#include "common/i18n.h"
#include "common/lodge-error.h"

#include <stdlib.h>

enum { URI, HOST, TYPE, VERSION, CPUS, MODEL, MHZ, MEMORY, FREE, MACHINES, RUNNING, GIVEN };

static const LodgeColumn host_columns[] = {
    [URI] = {"uri", N_("Connection"), LODGE_CELL_TEXT},
    [HOST] = {"hostname", N_("Host"), LODGE_CELL_TEXT},
    [TYPE] = {"hypervisor", N_("Hypervisor"), LODGE_CELL_TEXT},
    [VERSION] = {"version", N_("Its version"), LODGE_CELL_TEXT},
    [CPUS] = {"cpus", N_("CPUs"), LODGE_CELL_NUMBER},
    [MODEL] = {"cpu_model", N_("CPU model"), LODGE_CELL_TEXT},
    [MHZ] = {"cpu_mhz", N_("CPU MHz"), LODGE_CELL_NUMBER},
    [MEMORY] = {"memory_bytes", N_("Memory"), LODGE_CELL_BYTES},
    [FREE] = {"free_bytes", N_("Free memory"), LODGE_CELL_BYTES},
    [MACHINES] = {"machines", N_("Machines"), LODGE_CELL_NUMBER},
    [RUNNING] = {"running", N_("Running"), LODGE_CELL_NUMBER},
    [GIVEN] = {"given_bytes", N_("Their memory"), LODGE_CELL_BYTES},
};

static const LodgeColumn memory_columns[] = {
    {"process", N_("PROCESS"), LODGE_CELL_TEXT},
    {"pid", N_("PID"), LODGE_CELL_NUMBER},
    {"resident_bytes", N_("RESIDENT"), LODGE_CELL_BYTES},
    {"guest_bytes", N_("GUESTS'"), LODGE_CELL_BYTES},
    {"file_bytes", N_("PROGRAM"), LODGE_CELL_BYTES},
    {"own_bytes", N_("OWN"), LODGE_CELL_BYTES},
};

/* The library gives these to be freed. */
static void take_text(LodgeTable *table, guint column, char *text)
{
    lodge_table_set_text(table, column, text);
    free(text);
}

static void add_node(LodgeTable *table, virConnectPtr connection)
{
    virNodeInfo node;
    unsigned long long available = virNodeGetFreeMemory(connection);

    if (virNodeGetInfo(connection, &node) == 0) {
        g_autofree char *model = g_strndup(node.model, sizeof(node.model));

        lodge_table_set_number(table, CPUS, node.cpus);
        lodge_table_set_text(table, MODEL, model);
        lodge_table_set_number(table, MHZ, node.mhz);
        lodge_table_set_number(table, MEMORY, (guint64)node.memory * 1024);
    }
    if (available > 0) {
        lodge_table_set_number(table, FREE, available);
    }
}

/* What the hypervisor does not tell stays unset. */
static LodgeTable *host_table(virConnectPtr connection, GPtrArray *machines)
{
    LodgeTable *table = lodge_table_new(host_columns, G_N_ELEMENTS(host_columns));
    guint64 running = 0, given = 0;
    unsigned long version;

    for (guint i = 0; i < machines->len; i++) {
        const LodgeMachine *machine = g_ptr_array_index(machines, i);

        running += machine->active;
        given += machine->active ? machine->memory_bytes : 0;
    }
    lodge_table_add_row(table);
    take_text(table, URI, virConnectGetURI(connection));
    take_text(table, HOST, virConnectGetHostname(connection));
    lodge_table_set_text(table, TYPE, virConnectGetType(connection));
    if (virConnectGetVersion(connection, &version) == 0) {
        g_autofree char *text = lodge_connection_version_text(version);

        lodge_table_set_text(table, VERSION, text);
    }
    add_node(table, connection);
    lodge_table_set_number(table, MACHINES, machines->len);
    lodge_table_set_number(table, RUNNING, running);
    lodge_table_set_number(table, GIVEN, given);
    return table;
}

static LodgeTable *memory_table(void)
{
    LodgeTable *table = lodge_table_new(memory_columns, G_N_ELEMENTS(memory_columns));
    g_autoptr(GArray) processes = lodge_process_memory_read();

    for (guint i = 0; i < processes->len; i++) {
        const LodgeProcessMemory *memory = &g_array_index(processes, LodgeProcessMemory, i);

        lodge_table_add_row(table);
        lodge_table_set_text(table, 0, memory->name);
        lodge_table_set_number(table, 1, (guint64)memory->pid);
        lodge_table_set_number(table, 2, memory->resident_bytes);
        if (memory->divided) {
            lodge_table_set_number(table, 3, memory->guest_bytes);
            lodge_table_set_number(table, 4, memory->file_bytes);
            lodge_table_set_number(table, 5, memory->own_bytes);
        }
    }
    return table;
}

int lodge_verb_host(int argc, char **argv)
{
    static const LodgeVerbHelp help = {
        .verb = "host",
        .summary = N_("Shows the hypervisor at the other end of a connection; or what Lodge's "
                      "processes hold of this\nhost's memory."),
    };
    gboolean memory = FALSE;
    const GOptionEntry own[] = {
        {"memory", 0, 0, G_OPTION_ARG_NONE, &memory,
         N_("your processes of Lodge here: memory of guests, of programs, and their own"), NULL},
        {NULL},
    };
    g_auto(LodgeVerbOptions) options = {0};
    g_autoptr(virConnect) connection = NULL;
    g_autoptr(GPtrArray) machines = NULL;
    g_autoptr(LodgeTable) table = NULL;
    g_autoptr(GError) error = NULL;
    g_autofree char *text = NULL;

    if (!lodge_verb_options_parse(&options, &help, LODGE_VERB_OPTION_JSON, own, argc, argv,
                                  &error)) {
        return lodge_verb_fail(error);
    }
    if (memory && options.connect) {
        lodge_error_refuse(&error,
                           _("--memory is of this host's processes: leave out --connect %s"),
                           options.connect);
    } else if (!memory) {
        machines =
            lodge_machines_open(options.connect, LODGE_CONNECTION_CALLS, &connection, &error);
    }
    if (error) {
        return lodge_verb_fail(error);
    }
    table = memory ? memory_table() : host_table(connection, machines);
    if (options.json) {
        text = lodge_table_to_json(table);
    } else {
        text = memory ? lodge_table_to_text(table, 0) : lodge_table_to_fields(table);
    }
    g_print("%s", text);
    return LODGE_EXIT_OK;
}
