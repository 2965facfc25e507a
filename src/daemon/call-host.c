/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The host: what it is and does, and what machines it can have. */
#include "daemon/call.h"

#include "common/i18n.h"
#include "config/capabilities.h"
#include "daemon/host-stats.h"

#include <libvirt/libvirt.h>

static gboolean get_node_info(LodgeCall *call, void *args, void *ret, GError **error)
{
    const LodgeHostInfo *host = call->daemon->host;
    lv_node_info_ret *answer = ret;
    const char *model = "x86_64";

    (void)args, (void)error;
    for (gsize i = 0; model[i]; i++) {
        answer->model[i] = (unsigned char)model[i];
    }
    answer->memory = host->memory_bytes / HV_KIB;
    answer->cpus = (int)host->cpus->len;
    answer->mhz = (int)host->mhz;
    answer->nodes = (int)host->nodes;
    answer->sockets = (int)host->sockets;
    answer->cores = (int)host->cores;
    answer->threads = (int)host->threads;
    return TRUE;
}

static gboolean get_capabilities(LodgeCall *call, void *args, void *ret, GError **error)
{
    lv_string_ret *answer = ret;

    (void)args, (void)error;
    answer->text = lodge_capabilities_format(call->daemon->host, call->daemon->emulator);
    return TRUE;
}

static gboolean get_domain_capabilities(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_domain_capabilities_args *asked = args;
    const LodgeDomainCapabilitiesRequest request = {
        .emulator = lodge_call_text(asked->emulator),
        .arch = lodge_call_text(asked->arch),
        .machine = lodge_call_text(asked->machine),
        .type = lodge_call_text(asked->type),
    };
    lv_string_ret *answer = ret;

    if (!lodge_call_check_flags(asked->flags, 0, error) ||
        !lodge_call_check_text(_("emulator"), request.emulator, error) ||
        !lodge_call_check_text(_("architecture"), request.arch, error) ||
        !lodge_call_check_text(_("machine type"), request.machine, error) ||
        !lodge_call_check_text(_("kind of machine"), request.type, error)) {
        return FALSE;
    }
    answer->text = lodge_domain_capabilities_format(call->daemon->emulator, &request, error);
    return answer->text != NULL;
}

static gboolean get_free_memory(LodgeCall *call, void *args, void *ret, GError **error)
{
    lv_ulong_ret *answer = ret;
    LodgeHostMemory memory;

    (void)call, (void)args;
    if (!lodge_host_memory_read(&memory, error)) {
        return FALSE;
    }
    answer->value = memory.free_kib * HV_KIB;
    return TRUE;
}

/* Of a list that a client has too little room for, it gets nothing but the size. */
static gboolean answer_stats(const lv_host_stat *stats, guint count, int room,
                             lv_node_stats_ret *answer, GError **error)
{
    if (room != 0 && room < (int)count) {
        return lodge_refuse(error, VIR_ERR_INVALID_ARG, _("There are %u figures, and room for %d"),
                            count, room);
    }
    answer->nparams = (int)count;
    if (room > 0) {
        answer->params.params_len = count;
        answer->params.params_val = g_new0(lv_host_stat, count);
    }
    for (guint i = 0; i < answer->params.params_len; i++) {
        answer->params.params_val[i].field = g_strdup(stats[i].field);
        answer->params.params_val[i].value = stats[i].value;
    }
    return TRUE;
}

static gboolean get_cpu_stats(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_node_stats_args *asked = args;
    LodgeHostTimes times;

    (void)call;
    if (!lodge_call_check_flags(asked->flags, 0, error)) {
        return FALSE;
    }
    if (asked->which < VIR_NODE_CPU_STATS_ALL_CPUS ||
        !lodge_host_times_read(asked->which, &times)) {
        return lodge_refuse(error, VIR_ERR_INVALID_ARG, _("The host has no CPU %d"), asked->which);
    }
    const lv_host_stat stats[] = {
        {(char *)VIR_NODE_CPU_STATS_KERNEL, times.system},
        {(char *)VIR_NODE_CPU_STATS_USER, times.user},
        {(char *)VIR_NODE_CPU_STATS_IDLE, times.idle},
        {(char *)VIR_NODE_CPU_STATS_IOWAIT, times.iowait},
    };
    return answer_stats(stats, G_N_ELEMENTS(stats), asked->nparams, ret, error);
}

static gboolean get_memory_stats(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_node_memory_stats_args *asked = args;
    LodgeHostMemory memory;

    (void)call;
    if (!lodge_call_check_flags(asked->flags, 0, error) ||
        !lodge_host_memory_read(&memory, error)) {
        return FALSE;
    }
    if (asked->cell != VIR_NODE_MEMORY_STATS_ALL_CELLS) {
        return lodge_refuse(error, VIR_ERR_NO_SUPPORT,
                            _("Memory is counted for the whole host, not for its cell %d"),
                            asked->cell);
    }
    const lv_host_stat stats[] = {
        {(char *)VIR_NODE_MEMORY_STATS_TOTAL, memory.total_kib},
        {(char *)VIR_NODE_MEMORY_STATS_FREE, memory.free_kib},
        {(char *)VIR_NODE_MEMORY_STATS_BUFFERS, memory.buffers_kib},
        {(char *)VIR_NODE_MEMORY_STATS_CACHED, memory.cached_kib},
    };
    return answer_stats(stats, G_N_ELEMENTS(stats), asked->nparams, ret, error);
}

/* CPUs are those online, when the daemon started. */
static gboolean get_cpu_map(LodgeCall *call, void *args, void *ret, GError **error)
{
    const GArray *cpus = call->daemon->host->cpus;
    const lv_cpu_map_args *asked = args;
    lv_cpu_map_ret *answer = ret;
    guint count = g_array_index(cpus, LodgeHostCpu, cpus->len - 1).id + 1;

    if (!lodge_call_check_flags(asked->flags, 0, error)) {
        return FALSE;
    }
    answer->count = (int)count;
    answer->online = asked->need_online ? cpus->len : 0;
    if (asked->need_map) {
        answer->map.map_len = (count + 7) / 8;
        answer->map.map_val = g_malloc0(answer->map.map_len);
        for (guint i = 0; i < cpus->len; i++) {
            guint cpu = g_array_index(cpus, LodgeHostCpu, i).id;

            answer->map.map_val[cpu / 8] = (char)(answer->map.map_val[cpu / 8] | 1 << cpu % 8);
        }
    }
    return TRUE;
}

static const LodgeCallEntry entries[] = {
    {LV_NODE_GET_INFO, LODGE_CALL_READS, get_node_info, FALSE},
    {LV_CONNECT_GET_CAPABILITIES, LODGE_CALL_READS, get_capabilities, FALSE},
    {LV_CONNECT_GET_DOMAIN_CAPABILITIES, LODGE_CALL_READS, get_domain_capabilities, FALSE},
    {LV_NODE_GET_FREE_MEMORY, LODGE_CALL_READS, get_free_memory, FALSE},
    {LV_NODE_GET_CPU_STATS, LODGE_CALL_READS, get_cpu_stats, FALSE},
    {LV_NODE_GET_MEMORY_STATS, LODGE_CALL_READS, get_memory_stats, FALSE},
    {LV_NODE_GET_CPU_MAP, LODGE_CALL_READS, get_cpu_map, FALSE},
};

const LodgeCallFamily lodge_calls_host = {LV_REMOTE, entries, G_N_ELEMENTS(entries)};
