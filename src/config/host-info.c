/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The host: see host-info.h. */
#include "config/host-info.h"

#include "common/i18n.h"
#include "common/lodge-error.h"

#include <hv/types.h>
#include <string.h>
#include <unistd.h>

/* As many as a kernel for x86-64 can have. */
#define CPUS_MAX  8192u
#define NODES_MAX 1024u

/* The text of a file below @root, or NULL. */
static char *read_text(const char *root, const char *name)
{
    g_autofree char *path = g_strconcat(root, name, NULL);
    char *text = NULL;

    g_file_get_contents(path, &text, NULL, NULL);
    return text ? g_strstrip(text) : NULL;
}

static gboolean take_number(const char *text, guint *number_out)
{
    guint64 number = 0;

    if (!text || !g_ascii_string_to_unsigned(text, 10, 0, G_MAXINT32, &number, NULL)) {
        return FALSE;
    }
    *number_out = (guint)number;
    return TRUE;
}

/* "0-3,8" into a set of @max bytes, one a number. FALSE when it is something else. */
static gboolean take_list(const char *text, guint8 *set, guint max)
{
    g_auto(GStrv) parts = g_strsplit(text ? text : "", ",", -1);
    gboolean any = FALSE;

    for (guint i = 0; parts[i]; i++) {
        char *dash = strchr(parts[i], '-');
        guint first = 0, last = 0;

        if (dash) {
            *dash = '\0';
        }
        if (!take_number(parts[i], &first) || !take_number(dash ? dash + 1 : parts[i], &last) ||
            last >= max) {
            return FALSE;
        }
        for (guint n = first; n <= last; n++) {
            set[n] = 1;
            any = TRUE;
        }
    }
    return any;
}

static gboolean read_memory(LodgeHostInfo *info, const char *root, GError **error)
{
    g_autofree char *text = read_text(root, "/proc/meminfo");
    const char *line = text ? strstr(text, "MemTotal:") : NULL;
    guint64 kib = line ? g_ascii_strtoull(line + strlen("MemTotal:"), NULL, 10) : 0;

    if (kib == 0 || kib > G_MAXUINT64 / HV_KIB) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED,
                    _("Cannot tell how much memory the host has: %s/proc/meminfo has no MemTotal"),
                    root);
        return FALSE;
    }
    info->memory_bytes = kib * HV_KIB;
    return TRUE;
}

static guint read_mhz(const char *root)
{
    g_autofree char *text = read_text(root, "/proc/cpuinfo");
    const char *line = text ? strstr(text, "cpu MHz") : NULL;
    const char *colon = line ? strchr(line, ':') : NULL;

    return colon ? (guint)g_ascii_strtoull(colon + 2, NULL, 10) : 0;
}

/* The CPUs online, in one socket and one node. */
static void list_cpus(LodgeHostInfo *info, const char *root)
{
    g_autofree guint8 *online = g_new0(guint8, CPUS_MAX);
    g_autofree char *text = read_text(root, "/sys/devices/system/cpu/online");
    long count = sysconf(_SC_NPROCESSORS_ONLN);

    if (!take_list(text, online, CPUS_MAX)) {
        memset(online, 0, CPUS_MAX);
        memset(online, 1, (gsize)CLAMP(count, 1, (long)CPUS_MAX));
    }
    for (guint id = 0; id < CPUS_MAX; id++) {
        if (online[id]) {
            LodgeHostCpu cpu = {.id = id, .core = id};

            g_array_append_val(info->cpus, cpu);
        }
    }
}

static gboolean read_cpu_number(const char *root, guint cpu, const char *file, guint *number_out)
{
    g_autofree char *name = g_strdup_printf("/sys/devices/system/cpu/cpu%u/topology/%s", cpu, file);
    g_autofree char *text = read_text(root, name);

    return take_number(text, number_out);
}

static gboolean read_topology(LodgeHostInfo *info, const char *root)
{
    for (guint i = 0; i < info->cpus->len; i++) {
        LodgeHostCpu *cpu = &g_array_index(info->cpus, LodgeHostCpu, i);

        if (!read_cpu_number(root, cpu->id, "physical_package_id", &cpu->socket) ||
            !read_cpu_number(root, cpu->id, "core_id", &cpu->core)) {
            return FALSE;
        }
    }
    return TRUE;
}

static void read_nodes(LodgeHostInfo *info, const char *root)
{
    g_autofree guint8 *nodes = g_new0(guint8, NODES_MAX);
    g_autofree guint8 *members = g_new0(guint8, CPUS_MAX);
    g_autofree char *text = read_text(root, "/sys/devices/system/node/online");

    if (!take_list(text, nodes, NODES_MAX)) {
        return;
    }
    for (guint node = 0; node < NODES_MAX; node++) {
        g_autofree char *name = g_strdup_printf("/sys/devices/system/node/node%u/cpulist", node);
        g_autofree char *list = nodes[node] ? read_text(root, name) : NULL;

        memset(members, 0, CPUS_MAX);
        if (!list || !take_list(list, members, CPUS_MAX)) {
            continue;
        }
        for (guint i = 0; i < info->cpus->len; i++) {
            LodgeHostCpu *cpu = &g_array_index(info->cpus, LodgeHostCpu, i);

            cpu->node = members[cpu->id] ? node : cpu->node;
        }
    }
}

/* How many different values @part gives of the CPUs. */
static guint count_different(const GArray *cpus, guint64 (*part)(const LodgeHostCpu *cpu))
{
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);

    for (guint i = 0; i < cpus->len; i++) {
        guint64 value = part(&g_array_index(cpus, LodgeHostCpu, i));

        g_hash_table_add(seen, g_memdup2(&value, sizeof(value)));
    }
    return g_hash_table_size(seen);
}

static guint64 node_of(const LodgeHostCpu *cpu)
{
    return cpu->node;
}

static guint64 socket_of(const LodgeHostCpu *cpu)
{
    return (guint64)cpu->node << 32 | cpu->socket;
}

/* A core's number counts within its socket; a socket that spans nodes counts in each. */
static guint64 core_of(const LodgeHostCpu *cpu)
{
    return (guint64)cpu->node << 48 ^ (guint64)cpu->socket << 32 ^ cpu->core;
}

static void count_topology(LodgeHostInfo *info)
{
    guint cpus = info->cpus->len;
    guint sockets = count_different(info->cpus, socket_of);
    guint cores = count_different(info->cpus, core_of);

    info->nodes = count_different(info->cpus, node_of);
    info->sockets = sockets / info->nodes;
    info->cores = cores / sockets;
    info->threads = cpus / cores;
    if (info->nodes * info->sockets * info->cores * info->threads != cpus) {
        info->nodes = info->sockets = info->threads = 1;
        info->cores = cpus;
    }
}

LodgeHostInfo *lodge_host_info_read(const char *root, GError **error)
{
    g_autoptr(LodgeHostInfo) info = g_new0(LodgeHostInfo, 1);

    info->cpus = g_array_new(FALSE, FALSE, sizeof(LodgeHostCpu));
    if (!read_memory(info, root, error)) {
        return NULL;
    }
    info->mhz = read_mhz(root);
    list_cpus(info, root);
    if (!read_topology(info, root)) {
        for (guint i = 0; i < info->cpus->len; i++) {
            LodgeHostCpu *cpu = &g_array_index(info->cpus, LodgeHostCpu, i);

            *cpu = (LodgeHostCpu){.id = cpu->id, .core = cpu->id};
        }
    }
    read_nodes(info, root);
    count_topology(info);
    return g_steal_pointer(&info);
}

void lodge_host_info_free(LodgeHostInfo *info)
{
    if (info) {
        g_array_unref(info->cpus);
        g_free(info);
    }
}
