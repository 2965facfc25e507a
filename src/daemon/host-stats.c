/* SPDX-License-Identifier: GPL-3.0-or-later */
/* /proc/stat and /proc/meminfo: proc(5). */
#include "daemon/host-stats.h"

#include "common/i18n.h"
#include "common/lodge-error.h"

#include <hv/types.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

gboolean lodge_host_times_read(int cpu, LodgeHostTimes *times_out)
{
    g_autofree char *text = NULL;
    g_autofree char *title = cpu < 0 ? g_strdup("cpu ") : g_strdup_printf("cpu%d ", cpu);
    guint64 tick = HV_NS_PER_S / (guint64)sysconf(_SC_CLK_TCK);
    guint64 user, nice, system, idle, iowait;

    *times_out = (LodgeHostTimes){0};
    if (!g_file_get_contents("/proc/stat", &text, NULL, NULL)) {
        return FALSE;
    }
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (g_str_has_prefix(line, title) && sscanf(line + strlen(title), "%lu %lu %lu %lu %lu",
                                                    &user, &nice, &system, &idle, &iowait) == 5) {
            *times_out = (LodgeHostTimes){
                .user = (user + nice) * tick,
                .system = system * tick,
                .idle = idle * tick,
                .iowait = iowait * tick,
            };
            return TRUE;
        }
    }
    return FALSE;
}

/* The number behind a line's title, which is its beginning; 0 without one. */
static guint64 take(const char *text, const char *title)
{
    const char *found = strstr(text, title);

    while (found && found != text && found[-1] != '\n') {
        found = strstr(found + 1, title);
    }
    return found ? g_ascii_strtoull(found + strlen(title), NULL, 10) : 0;
}

gboolean lodge_host_memory_read(LodgeHostMemory *memory_out, GError **error)
{
    g_autofree char *text = NULL;
    g_autoptr(GError) cause = NULL;

    if (!g_file_get_contents("/proc/meminfo", &text, NULL, &cause)) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED,
                    _("Cannot tell how much memory the host has: %s"), cause->message);
        return FALSE;
    }
    *memory_out = (LodgeHostMemory){
        .total_kib = take(text, "MemTotal:"),
        .free_kib = take(text, "MemFree:"),
        .buffers_kib = take(text, "Buffers:"),
        .cached_kib = take(text, "Cached:"),
    };
    return TRUE;
}
