/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The host: what it is, and what machines it can have. */
#include "daemon/call.h"

#include "config/capabilities.h"

static gboolean get_node_info(LodgeCall *call, void *args, void *ret, GError **error)
{
    const LodgeHostInfo *host = call->daemon->host;
    lv_node_info_ret *answer = ret;
    const char *model = "x86_64";

    (void)args, (void)error;
    for (gsize i = 0; model[i]; i++) {
        answer->model[i] = model[i];
    }
    answer->memory = host->memory_bytes / 1024;
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

static const LodgeCallEntry entries[] = {
    {LV_NODE_GET_INFO, LODGE_CALL_READS, get_node_info, FALSE},
    {LV_CONNECT_GET_CAPABILITIES, LODGE_CALL_READS, get_capabilities, FALSE},
};

const LodgeCallFamily lodge_calls_host = {LV_REMOTE, entries, G_N_ELEMENTS(entries)};
