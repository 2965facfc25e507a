/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Lists of machines: fetched, ordered, chosen from. */
#include "cli/machines.h"

#include "common/i18n.h"
#include "common/lodge-error.h"
#include "config/text.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

static void machine_free(gpointer data)
{
    LodgeMachine *machine = data;

    virDomainFree(machine->domain);
    g_free(machine->name);
    g_free(machine->uuid);
    g_free(machine);
}

/* Takes @domain. NULL when it has gone since it was listed. */
static LodgeMachine *machine_new(virDomainPtr domain)
{
    LodgeMachine *machine = g_new0(LodgeMachine, 1);
    char uuid[VIR_UUID_STRING_BUFLEN] = "";
    virDomainInfo info;

    machine->domain = domain;
    machine->name = g_utf8_make_valid(virDomainGetName(domain), -1);
    if (virDomainGetInfo(domain, &info) < 0 || virDomainGetUUIDString(domain, uuid) < 0) {
        machine_free(machine);
        return NULL;
    }
    machine->uuid = g_strdup(uuid);
    machine->state = info.state;
    machine->active = lodge_machine_is_active(info.state);
    machine->id = machine->active ? (int)virDomainGetID(domain) : -1;
    machine->vcpus = info.nrVirtCpu;
    machine->memory_bytes = (guint64)info.maxMem * 1024;
    machine->cpu_ns = info.cpuTime;
    return machine;
}

static int by_name(gconstpointer a, gconstpointer b)
{
    const LodgeMachine *left = *(LodgeMachine *const *)a, *right = *(LodgeMachine *const *)b;

    return lodge_machine_compare_names(left->name, right->name);
}

GPtrArray *lodge_machines_list(virConnectPtr connection, GError **error)
{
    virDomainPtr *domains = NULL;
    GPtrArray *machines;
    int count = virConnectListAllDomains(connection, &domains, 0);

    if (count < 0) {
        lodge_connection_set_error(error, _("Cannot list the machines"));
        return NULL;
    }
    machines = g_ptr_array_new_with_free_func(machine_free);
    for (int i = 0; i < count; i++) {
        LodgeMachine *machine = machine_new(domains[i]);

        if (machine) {
            g_ptr_array_add(machines, machine);
        }
    }
    free(domains);
    g_ptr_array_sort(machines, by_name);
    return machines;
}

GPtrArray *lodge_machines_open(const char *uri, LodgeConnectionUse use,
                               virConnectPtr *connection_out, GError **error)
{
    *connection_out = lodge_connection_open(uri, use, error);
    return *connection_out ? lodge_machines_list(*connection_out, error) : NULL;
}

/* By name, else by UUID. */
static LodgeMachine *find(GPtrArray *machines, const char *word)
{
    for (guint i = 0; i < machines->len; i++) {
        LodgeMachine *machine = g_ptr_array_index(machines, i);

        if (strcmp(machine->name, word) == 0) {
            return machine;
        }
    }
    for (guint i = 0; i < machines->len; i++) {
        LodgeMachine *machine = g_ptr_array_index(machines, i);

        if (g_ascii_strcasecmp(machine->uuid, word) == 0) {
            return machine;
        }
    }
    return NULL;
}

gboolean lodge_machine_is_meant(const char *name, const char *word)
{
    return strcmp(name, word) == 0 || fnmatch(word, name, 0) == 0;
}

gboolean lodge_machine_refuse_word(GError **error, const char *word)
{
    g_autofree char *quoted = lodge_text_quote(word);

    return lodge_error_refuse(
        error,
        strpbrk(word, "*?[")
            ? _("No machine's name matches %s; “lodgectl list” names the machines there are")
            : _("There is no machine %s; “lodgectl list” names the machines there are"),
        quoted);
}

LodgeMachine *lodge_machines_find(GPtrArray *machines, const char *word, GError **error)
{
    LodgeMachine *machine = find(machines, word);

    if (!machine) {
        lodge_machine_refuse_word(error, word);
    }
    return machine;
}

/* Mark in @chosen what @word means. FALSE: nothing. */
static gboolean choose(GPtrArray *machines, const char *word, GHashTable *chosen)
{
    LodgeMachine *one = find(machines, word);
    gboolean any = one != NULL;

    if (one) {
        g_hash_table_add(chosen, one);
        return TRUE;
    }
    for (guint i = 0; i < machines->len; i++) {
        LodgeMachine *machine = g_ptr_array_index(machines, i);

        if (lodge_machine_is_meant(machine->name, word)) {
            g_hash_table_add(chosen, machine);
            any = TRUE;
        }
    }
    return any;
}

GPtrArray *lodge_machines_select(GPtrArray *machines, GStrv words, gboolean all, GError **error)
{
    g_autoptr(GHashTable) chosen = g_hash_table_new(NULL, NULL);
    GPtrArray *selected;

    if (all && words[0]) {
        lodge_error_refuse(error, _("“%s” and --all: give names or globs, or --all"), words[0]);
        return NULL;
    }
    if (!all && !words[0]) {
        lodge_error_refuse(error,
                           _("Which machines? Give names or globs, such as “web-*”, or --all"));
        return NULL;
    }
    for (guint i = 0; words[i]; i++) {
        if (!choose(machines, words[i], chosen)) {
            lodge_machine_refuse_word(error, words[i]);
            return NULL;
        }
    }
    selected = g_ptr_array_new();
    for (guint i = 0; i < machines->len; i++) {
        gpointer machine = g_ptr_array_index(machines, i);

        if (all || g_hash_table_contains(chosen, machine)) {
            g_ptr_array_add(selected, machine);
        }
    }
    return selected;
}
