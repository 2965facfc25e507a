/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From fields to definitions, and from those to machines. */
#include "app/model/new-machines.h"

#include "app/model/failure.h"
#include "client/machine-xml.h"
#include "common/i18n.h"
#include "config/text.h"
#include "config/xml-node.h"

#include <string.h>

/* What all have that are made here: a PC with a serial console, that lives in its initial RAM disk. */
static const char base[] = "<domain type='lodge'>"
                           "<os><type arch='x86_64'>hvm</type></os>"
                           "<features><acpi/><apic/></features>"
                           "<clock offset='utc'/>"
                           "<on_poweroff>destroy</on_poweroff>"
                           "<on_reboot>restart</on_reboot>"
                           "<on_crash>destroy</on_crash>"
                           "<devices><serial type='pty'/><console type='pty'/></devices>"
                           "</domain>";

typedef struct {
    LodgeConnectionItem *item;
    virConnectPtr connection; /* owned; a worker's */
    char *name, *xml;
    gboolean start;
} Step;

static void step_free(gpointer data)
{
    Step *step = data;

    g_clear_pointer(&step->connection, virConnectClose);
    g_object_unref(step->item);
    g_free(step->name);
    g_free(step->xml);
    g_free(step);
}

static const char *label(gpointer item)
{
    return ((Step *)item)->name;
}

static gboolean make(const Step *step, GError **error)
{
    g_autoptr(virDomain) domain = virDomainDefineXML(step->connection, step->xml);

    if (!domain) {
        return lodge_failure_set(error, _("It was not created"));
    }
    if (step->start && virDomainCreate(domain) < 0) {
        return lodge_failure_set(error, _("It was created, and did not start"));
    }
    return TRUE;
}

static gboolean work(gpointer item, GError **error)
{
    Step *step = item;
    gboolean good = make(step, error);

    /* Here, where it may wait, in case it is the last. */
    g_clear_pointer(&step->connection, virConnectClose);
    return good;
}

static void done(gpointer item, gboolean good)
{
    (void)good;
    lodge_connection_item_look(((Step *)item)->item);
}

static char *nth_name(const LodgeNewMachines *wanted, guint number)
{
    return wanted->count == 1 ? g_strdup(wanted->name)
                              : g_strdup_printf("%s-%u", wanted->name, number);
}

gboolean lodge_new_machines_check(const LodgeNewMachines *wanted, LodgeNewField field,
                                  GError **error)
{
    g_autofree char *longest = NULL;

    switch (field) {
    case LODGE_NEW_NAME:
        longest = nth_name(wanted, wanted->count);
        return lodge_text_check_name(longest, error);
    case LODGE_NEW_KERNEL:
        if (!wanted->kernel) {
            return lodge_error_refuse(error, _("Choose the kernel that they are to boot"));
        }
        return lodge_text_check_path("kernel", wanted->kernel, error);
    case LODGE_NEW_INITRD:
        return !wanted->initrd || lodge_text_check_path("initrd", wanted->initrd, error);
    case LODGE_NEW_COMMAND_LINE:
        return lodge_text_check_line("cmdline", wanted->command_line, error);
    case LODGE_NEW_FIELDS:
        break;
    }
    return TRUE;
}

static GHashTable *taken_names(LodgeConnectionItem *connection)
{
    GListModel *machines = lodge_connection_item_get_machines(connection);
    GHashTable *taken = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);

    for (guint i = 0; i < g_list_model_get_n_items(machines); i++) {
        g_autoptr(LodgeMachineItem) machine = g_list_model_get_item(machines, i);

        g_hash_table_add(taken, g_strdup(lodge_machine_item_get_name(machine)));
    }
    return taken;
}

static xmlDoc *make_definition(const LodgeNewMachines *wanted, GError **error)
{
    const LodgeMachineChanges changes = {
        .kernel = (char *)wanted->kernel,
        .initrd = (char *)wanted->initrd,
        .append = (char *)wanted->command_line,
        .memory_bytes = wanted->memory_bytes,
        .vcpus = wanted->vcpus,
    };
    xmlDoc *definition = lodge_machine_xml_parse(base, strlen(base), NULL, error);

    if (definition) {
        lodge_machine_xml_change(definition, &changes);
    }
    return definition;
}

static GPtrArray *make_steps(const LodgeNewMachines *wanted, LodgeConnectionItem *item,
                             xmlDoc *definition, GError **error)
{
    g_autoptr(GPtrArray) steps = g_ptr_array_new_with_free_func(step_free);
    g_autoptr(GHashTable) taken = taken_names(item);

    for (guint number = 1; steps->len < wanted->count; number++) {
        g_autofree char *name = nth_name(wanted, number);
        Step *step;

        if (!lodge_text_check_name(name, error)) {
            return NULL;
        }
        if (g_hash_table_contains(taken, name)) {
            if (wanted->count == 1) {
                lodge_error_refuse(error, _("There is a machine “%s” already: choose another name"),
                                   name);
                return NULL;
            }
            continue;
        }
        step = g_new0(Step, 1);
        step->item = g_object_ref(item);
        step->connection = lodge_connection_item_ref_connection(item);
        step->xml = lodge_machine_xml_instance(definition, name);
        step->name = g_steal_pointer(&name);
        step->start = wanted->start;
        g_ptr_array_add(steps, step);
        if (!step->connection) {
            lodge_error_refuse(error,
                               _("There is no connection to %s: wait for it, or choose another"),
                               lodge_connection_item_get_title(item));
            return NULL;
        }
    }
    return g_steal_pointer(&steps);
}

LodgeJob *lodge_new_machines_job(const LodgeNewMachines *wanted, LodgeConnectionItem *connection,
                                 GError **error)
{
    static const LodgeJobKind kind = {.work = work, .label = label, .done = done};
    g_autoptr(xmlDoc) definition = NULL;
    g_autofree char *title = NULL;
    GPtrArray *steps;

    g_return_val_if_fail(wanted->count >= 1 && wanted->count <= LODGE_NEW_COUNT_MOST, NULL);
    for (int field = 0; field < LODGE_NEW_FIELDS; field++) {
        if (!lodge_new_machines_check(wanted, (LodgeNewField)field, error)) {
            return NULL;
        }
    }
    definition = make_definition(wanted, error);
    steps = definition ? make_steps(wanted, connection, definition, error) : NULL;
    if (!steps) {
        return NULL;
    }
    title = wanted->count == 1 ? g_strdup_printf(_("Creating: %s"), wanted->name)
                               : g_strdup_printf(_("Creating: %u machines"), wanted->count);
    return lodge_job_new(title, &kind, steps);
}
