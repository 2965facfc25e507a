/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `lodgectl create`: one machine or many alike, from a definition that is there. */
#include "cli/verb.h"

#include "cli/bulk.h"
#include "cli/definition.h"
#include "cli/machines.h"
#include "cli/verb-options.h"
#include "client/machine-xml.h"
#include "common/i18n.h"
#include "common/lodge-error.h"
#include "config/text.h"

#include <string.h>

#define COUNT_MOST 10000
#define VCPUS_MOST 4096 /* where the hypervisor does not tell */

typedef struct {
    char *from, *memory, *vcpus;
    int count;
    gboolean start;
    LodgeMachineChanges changes;
    virConnectPtr connection; /* borrowed */
} Create;

typedef struct {
    char *name, *xml;
} Instance;

static void instance_free(gpointer data)
{
    Instance *instance = data;

    g_free(instance->name);
    g_free(instance->xml);
    g_free(instance);
}

static const char *label(gpointer item)
{
    return ((Instance *)item)->name;
}

static LodgeBulkOutcome create_one(LodgeBulk *bulk, gpointer item, gpointer user_data,
                                   GError **error)
{
    const Create *create = user_data;
    const Instance *instance = item;
    g_autoptr(virDomain) domain = virDomainDefineXML(create->connection, instance->xml);

    (void)bulk;
    if (!domain) {
        lodge_connection_set_error(error, _("cannot be created"));
        return LODGE_BULK_FAILED;
    }
    if (create->start && virDomainCreate(domain) < 0) {
        lodge_connection_set_error(error, _("was created, and cannot be started"));
        return LODGE_BULK_FAILED;
    }
    return LODGE_BULK_DONE;
}

static gboolean check(Create *create, const char *name, GError **error)
{
    if (!create->from) {
        return lodge_error_refuse(error, _("--from is missing: name a file with a definition, a "
                                           "template or a machine"));
    }
    if (create->count < 1 || create->count > COUNT_MOST) {
        return lodge_error_refuse(error, _("--count %d: expected a number from 1 to %d"),
                                  create->count, COUNT_MOST);
    }
    if (create->memory &&
        !lodge_verb_options_take_memory(create->memory, &create->changes.memory_bytes, error)) {
        return FALSE;
    }
    return !name || lodge_text_check_name(name, error);
}

/* How many there may be depends on the hypervisor, which would name the XML and not the option. */
static gboolean take_vcpus(Create *create, GError **error)
{
    int most = create->vcpus ? virConnectGetMaxVcpus(create->connection, NULL) : 0;

    return !create->vcpus || lodge_verb_options_take_count("--vcpus", create->vcpus,
                                                           most > 0 ? (guint)most : VCPUS_MOST,
                                                           &create->changes.vcpus, error);
}

/* "web", or "web-1" and on, those numbers that nobody has. */
static gboolean choose_names(GPtrArray *instances, GPtrArray *machines, const char *base,
                             const Create *create, GError **error)
{
    g_autoptr(GHashTable) taken = g_hash_table_new(g_str_hash, g_str_equal);

    for (guint i = 0; i < machines->len; i++) {
        g_hash_table_add(taken, ((LodgeMachine *)g_ptr_array_index(machines, i))->name);
    }
    if (create->count == 1 && g_hash_table_contains(taken, base)) {
        g_autofree char *quoted = lodge_text_quote(base);

        return lodge_error_refuse(
            error, _("There is a machine %s already: give another name, or delete it"), quoted);
    }
    for (guint number = 1; instances->len < (guint)create->count; number++) {
        g_autofree char *name =
            create->count == 1 ? g_strdup(base) : g_strdup_printf("%s-%u", base, number);
        Instance *instance;

        if (!lodge_text_check_name(name, error)) {
            return FALSE;
        }
        if (g_hash_table_contains(taken, name)) {
            continue;
        }
        instance = g_new0(Instance, 1);
        instance->name = g_steal_pointer(&name);
        g_ptr_array_add(instances, instance);
    }
    return TRUE;
}

static gboolean make_instances(GPtrArray *instances, const char *name, const Create *create,
                               GError **error)
{
    g_autoptr(xmlDoc) definition = lodge_definition_read(create->connection, create->from, error);
    g_autoptr(GPtrArray) machines = NULL;
    g_autofree char *base = NULL;

    if (!definition) {
        return FALSE;
    }
    base = name ? g_strdup(name) : lodge_machine_xml_name(definition);
    if (!base) {
        return lodge_error_refuse(error, _("NAME is missing, and “%s” holds no <name>"),
                                  create->from);
    }
    machines = lodge_machines_list(create->connection, error);
    if (!machines || !choose_names(instances, machines, base, create, error)) {
        return FALSE;
    }
    lodge_machine_xml_change(definition, &create->changes);
    for (guint i = 0; i < instances->len; i++) {
        Instance *instance = g_ptr_array_index(instances, i);

        instance->xml = lodge_machine_xml_instance(definition, instance->name);
    }
    return TRUE;
}

static void create_clear(Create *create)
{
    g_free(create->from);
    g_free(create->memory);
    g_free(create->vcpus);
    g_free(create->changes.kernel);
    g_free(create->changes.initrd);
    g_free(create->changes.append);
}

static int run(Create *create, const LodgeVerbOptions *options)
{
    const LodgeBulkVerb bulk = {
        .doing = N_("creating"),
        .done = create->start ? N_("created and started") : N_("created"),
        .act = create_one,
        .label = label,
        .json = options->json,
    };
    g_autoptr(GPtrArray) instances = g_ptr_array_new_with_free_func(instance_free);
    g_autoptr(virConnect) connection = NULL;
    g_autoptr(GError) error = NULL;

    if (check(create, options->parameters[0], &error)) {
        connection = lodge_connection_open(options->connect, LODGE_CONNECTION_EVENTS, &error);
        create->connection = connection;
    }
    if (!connection || !take_vcpus(create, &error) ||
        !make_instances(instances, options->parameters[0], create, &error)) {
        return lodge_verb_fail(error);
    }
    return lodge_bulk_run(&bulk, instances, (guint)options->jobs, create);
}

int lodge_verb_create(int argc, char **argv)
{
    static const LodgeVerbHelp help = {
        .verb = "create",
        .parameters = N_("[NAME]"),
        .summary = N_("Creates a machine, or many alike, from a definition."),
        .description =
            N_("With --count N the machines are NAME-1 and on; numbers that are taken are "
               "left out.\nNAME is the definition's own unless it is given."),
        .max = 1,
        .jobs = 8,
    };
    Create create = {.count = 1};
    const GOptionEntry own[] = {
        {"from", 'f', 0, G_OPTION_ARG_FILENAME, &create.from,
         N_("a file (“-”: standard input), a template, or a machine to make it like"),
         N_("FILE|TEMPLATE|MACHINE")},
        {"count", 'n', 0, G_OPTION_ARG_INT, &create.count, N_("how many (default 1)"), N_("N")},
        {"start", 0, 0, G_OPTION_ARG_NONE, &create.start, N_("and start them"), NULL},
        {"kernel", 0, 0, G_OPTION_ARG_FILENAME, &create.changes.kernel, N_("another kernel"),
         N_("FILE")},
        {"initrd", 0, 0, G_OPTION_ARG_FILENAME, &create.changes.initrd,
         N_("another initial RAM disk"), N_("FILE")},
        {"append", 0, 0, G_OPTION_ARG_STRING, &create.changes.append,
         N_("another kernel command line"), N_("TEXT")},
        {"memory", 'm', 0, G_OPTION_ARG_FILENAME, &create.memory, N_("another size, such as 512M"),
         N_("N[K|M|G]")},
        {"vcpus", 0, 0, G_OPTION_ARG_FILENAME, &create.vcpus, N_("another number of virtual CPUs"),
         N_("N")},
        {NULL},
    };
    g_auto(LodgeVerbOptions) options = {0};
    g_autoptr(GError) error = NULL;
    int status;

    if (lodge_verb_options_parse(&options, &help, LODGE_VERB_OPTION_JOBS | LODGE_VERB_OPTION_JSON,
                                 own, argc, argv, &error)) {
        status = run(&create, &options);
    } else {
        status = lodge_verb_fail(error);
    }
    create_clear(&create);
    return status;
}
