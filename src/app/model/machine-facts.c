/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One call for all machines, and one more for each of which it does not tell enough. */
#include "app/model/machine-facts.h"

#include "client/stats.h"

#include <libvirt/virterror.h>

#include <stdlib.h>

/* What a row shows, and no more: locks and timers are for their own pages. */
#define WANTED                                                                        \
    (VIR_DOMAIN_STATS_STATE | VIR_DOMAIN_STATS_CPU_TOTAL | VIR_DOMAIN_STATS_BALLOON | \
     VIR_DOMAIN_STATS_VCPU)

void lodge_machine_facts_free(LodgeMachineFacts *facts)
{
    if (!facts) {
        return;
    }
    g_clear_pointer(&facts->domain, virDomainFree);
    g_free(facts->name);
    g_free(facts->uuid);
    g_free(facts);
}

static void free_facts(gpointer facts)
{
    lodge_machine_facts_free(facts);
}

/* Takes @domain. NULL: it has gone since. */
static LodgeMachineFacts *facts_new(virDomainPtr domain)
{
    g_autoptr(LodgeMachineFacts) facts = g_new0(LodgeMachineFacts, 1);
    char uuid[VIR_UUID_STRING_BUFLEN] = "";

    facts->domain = domain;
    facts->name = g_utf8_make_valid(virDomainGetName(domain), -1);
    facts->moment_us = g_get_monotonic_time();
    if (virDomainGetUUIDString(domain, uuid) < 0) {
        return NULL;
    }
    facts->uuid = g_strdup(uuid);
    return g_steal_pointer(&facts);
}

static gboolean ask(LodgeMachineFacts *facts)
{
    virDomainInfo info;

    if (virDomainGetInfo(facts->domain, &info) < 0) {
        return FALSE;
    }
    facts->state = info.state;
    facts->vcpus = info.nrVirtCpu;
    facts->memory_bytes = (guint64)info.maxMem * 1024;
    facts->cpu_ns = info.cpuTime;
    return TRUE;
}

static gboolean take_stats(LodgeMachineFacts *facts, const LodgeStats *stats)
{
    guint64 state, vcpus, memory_kib;
    gboolean whole = lodge_stats_number(stats, "state.state", &state);

    whole = lodge_stats_number(stats, "vcpu.maximum", &vcpus) && whole;
    whole = lodge_stats_number(stats, "balloon.maximum", &memory_kib) && whole;
    facts->state = (int)MIN(state, LODGE_MACHINE_STATES);
    facts->vcpus = (guint)MIN(vcpus, G_MAXUINT);
    facts->memory_bytes = MIN(memory_kib, G_MAXUINT64 / 1024) * 1024;
    (void)lodge_stats_number(stats, "cpu.time", &facts->cpu_ns);
    return whole;
}

static void add(GPtrArray *all, LodgeMachineFacts *facts, gboolean whole)
{
    if (facts && (whole || ask(facts))) {
        g_ptr_array_add(all, facts);
    } else {
        lodge_machine_facts_free(facts);
    }
}

static GPtrArray *look_one_by_one(virConnectPtr connection)
{
    virDomainPtr *domains = NULL;
    int count = virConnectListAllDomains(connection, &domains, 0);
    GPtrArray *all;

    if (count < 0) {
        return NULL;
    }
    all = g_ptr_array_new_with_free_func(free_facts);
    for (int i = 0; i < count; i++) {
        add(all, facts_new(domains[i]), FALSE);
    }
    free(domains);
    return all;
}

GPtrArray *lodge_machine_facts_look(virConnectPtr connection)
{
    virDomainStatsRecordPtr *records = NULL;
    int count = virConnectGetAllDomainStats(connection, WANTED, &records, 0);
    GPtrArray *all;

    if (count < 0) {
        int code = lodge_connection_error_code();

        return code == VIR_ERR_NO_SUPPORT || code == VIR_ERR_ARGUMENT_UNSUPPORTED
                   ? look_one_by_one(connection)
                   : NULL;
    }
    all = g_ptr_array_new_with_free_func(free_facts);
    for (int i = 0; i < count; i++) {
        g_autoptr(LodgeStats) stats = lodge_stats_new(records[i]);
        LodgeMachineFacts *facts =
            virDomainRef(records[i]->dom) == 0 ? facts_new(records[i]->dom) : NULL;

        add(all, facts, facts && take_stats(facts, stats));
    }
    virDomainStatsRecordListFree(records);
    return all;
}
