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

/* What a listing shows, and what it is asked for as one call for all. */
#define GROUPS                                                                        \
    (VIR_DOMAIN_STATS_STATE | VIR_DOMAIN_STATS_CPU_TOTAL | VIR_DOMAIN_STATS_BALLOON | \
     VIR_DOMAIN_STATS_VCPU)

/* FALSE: not all of it is there. */
static gboolean take_record(const virDomainStatsRecord *record, virDomainInfo *info_out)
{
    unsigned long long memory_kib, cpu_ns = 0;
    unsigned int vcpus;
    int state;

    if (virTypedParamsGetInt(record->params, record->nparams, "state.state", &state) != 1 ||
        virTypedParamsGetUInt(record->params, record->nparams, "vcpu.current", &vcpus) != 1 ||
        virTypedParamsGetULLong(record->params, record->nparams, "balloon.maximum", &memory_kib) !=
            1 ||
        (virTypedParamsGetULLong(record->params, record->nparams, "cpu.time", &cpu_ns) != 1 &&
         lodge_machine_is_active(state))) {
        return FALSE;
    }
    *info_out = (virDomainInfo){
        .state = (unsigned char)state,
        .maxMem = (unsigned long)memory_kib,
        .nrVirtCpu = (unsigned short)MIN(vcpus, G_MAXUINT16),
        .cpuTime = cpu_ns,
    };
    return TRUE;
}

/* Takes @domain; @info may be NULL, when it is to be asked. NULL when it has gone since it was listed. */
static LodgeMachine *machine_new(virDomainPtr domain, const virDomainInfo *info)
{
    LodgeMachine *machine = g_new0(LodgeMachine, 1);
    char uuid[VIR_UUID_STRING_BUFLEN] = "";
    virDomainInfo asked;

    machine->domain = domain;
    machine->name = g_utf8_make_valid(virDomainGetName(domain), -1);
    if ((!info && virDomainGetInfo(domain, &asked) < 0) ||
        virDomainGetUUIDString(domain, uuid) < 0) {
        machine_free(machine);
        return NULL;
    }
    if (!info) {
        info = &asked;
    }
    machine->uuid = g_strdup(uuid);
    machine->state = info->state;
    machine->active = lodge_machine_is_active(info->state);
    machine->id = machine->active ? (int)virDomainGetID(domain) : -1;
    machine->vcpus = info->nrVirtCpu;
    machine->memory_bytes = (guint64)info->maxMem * 1024;
    machine->cpu_ns = info->cpuTime;
    return machine;
}

static int by_name(gconstpointer a, gconstpointer b)
{
    const LodgeMachine *left = *(LodgeMachine *const *)a, *right = *(LodgeMachine *const *)b;

    return lodge_machine_compare_names(left->name, right->name);
}

static void add(GPtrArray *machines, LodgeMachine *machine)
{
    if (machine) {
        g_ptr_array_add(machines, machine);
    }
}

/* FALSE: this hypervisor gives no statistics. */
static gboolean list_by_stats(virConnectPtr connection, GPtrArray *machines)
{
    virDomainStatsRecordPtr *records = NULL;
    int count = virConnectGetAllDomainStats(connection, GROUPS, &records, 0);

    for (int i = 0; i < count; i++) {
        virDomainInfo info;
        gboolean whole = take_record(records[i], &info);

        /* The record's own reference goes with it. */
        virDomainRef(records[i]->dom);
        add(machines, machine_new(records[i]->dom, whole ? &info : NULL));
    }
    virDomainStatsRecordListFree(records);
    return count >= 0;
}

/* A call for the list, and one for each. */
static gboolean list_one_by_one(virConnectPtr connection, GPtrArray *machines, GError **error)
{
    virDomainPtr *domains = NULL;
    int count = virConnectListAllDomains(connection, &domains, 0);

    for (int i = 0; i < count; i++) {
        add(machines, machine_new(domains[i], NULL));
    }
    free(domains);
    return count >= 0 || lodge_connection_set_error(error, _("Cannot list the machines"));
}

GPtrArray *lodge_machines_list(virConnectPtr connection, GError **error)
{
    g_autoptr(GPtrArray) machines = g_ptr_array_new_with_free_func(machine_free);

    if (!list_by_stats(connection, machines) && !list_one_by_one(connection, machines, error)) {
        return NULL;
    }
    g_ptr_array_sort(machines, by_name);
    return g_steal_pointer(&machines);
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
