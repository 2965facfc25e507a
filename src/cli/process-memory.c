/* SPDX-License-Identifier: GPL-3.0-or-later */
/* smaps, mapping by mapping; status. Source: proc(5). */
#include "cli/process-memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* hv-core/mem/backing.c names the file that guests' memory is of. */
#define GUEST_MAPPING "/memfd:lodge-guest"

static gboolean is_ours(const char *name)
{
    static const char *const names[] = {"lodge-core", "virtlodged", "lodgectl"};

    for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            return TRUE;
        }
    }
    return FALSE;
}

/* "7f0000000000-7f0000001000 rw-s 00000000 00:01 1027  /memfd:lodge-guest (deleted)": its name and the
 * line's end; NULL: a line of another kind. */
static const char *mapping_name(const char *line)
{
    int name = 0;

    if (!g_ascii_isxdigit(line[0]) || sscanf(line, "%*x-%*x %*4s %*x %*s %*u%*[ ]%n", &name) < 0 ||
        name == 0) {
        return NULL;
    }
    return line + name;
}

/* An anonymous mapping is guests' memory when it is kept out of core dumps: nothing else of ours is. */
static gboolean is_guest(const char *name, const char *flags)
{
    return g_str_has_prefix(name, GUEST_MAPPING) || (name[0] == '\n' && strstr(flags, " dd "));
}

/* Each mapping is its head, sizes, and last its flags. */
static void read_mappings(FILE *file, LodgeProcessMemory *memory)
{
    g_autofree char *name = g_strdup("");
    char *line = NULL;
    size_t room = 0;
    guint64 bytes = 0;

    while (getline(&line, &room, file) > 0) {
        const char *head = mapping_name(line);

        if (head) {
            g_free(name);
            name = g_strdup(head);
        } else if (g_str_has_prefix(line, "Rss:")) {
            bytes = g_ascii_strtoull(line + strlen("Rss:"), NULL, 10) * 1024;
        } else if (g_str_has_prefix(line, "VmFlags:")) {
            gboolean program = name[0] == '/' && !g_str_has_prefix(name, "/memfd:");

            memory->resident_bytes += bytes;
            *(is_guest(name, line) ? &memory->guest_bytes
              : program            ? &memory->file_bytes
                                   : &memory->own_bytes) += bytes;
        }
    }
    free(line);
}

/* The number that a line of status begins with; FALSE: there is no such line. */
static gboolean find_number(const char *status, const char *key, guint64 *number_out)
{
    const char *at = g_str_has_prefix(status, key + 1) ? status : strstr(status, key);

    if (!at) {
        return FALSE;
    }
    *number_out = g_ascii_strtoull(strchr(at, ':') + 1, NULL, 10);
    return TRUE;
}

/* Whether it is a process of ours, and the caller's; then its name and its sum. The folder's owner is
 * root for one that lets nobody look: the status tells whose it is. */
static gboolean read_status(const char *folder, LodgeProcessMemory *memory)
{
    g_autofree char *comm = g_strconcat(folder, "/comm", NULL);
    g_autofree char *path = g_strconcat(folder, "/status", NULL);
    g_autofree char *name = NULL, *status = NULL;
    guint64 user, resident_kib;

    if (!g_file_get_contents(comm, &name, NULL, NULL) || !is_ours(g_strchomp(name)) ||
        !g_file_get_contents(path, &status, NULL, NULL) || !find_number(status, "\nUid:", &user) ||
        user != getuid() || !find_number(status, "\nVmRSS:", &resident_kib)) {
        return FALSE;
    }
    g_strlcpy(memory->name, name, sizeof(memory->name));
    memory->resident_bytes = resident_kib * 1024;
    return resident_kib > 0; /* else it has just ended */
}

static gboolean read_process(const char *pid, LodgeProcessMemory *memory)
{
    g_autofree char *folder = g_strconcat("/proc/", pid, NULL);
    g_autofree char *smaps = g_strconcat(folder, "/smaps", NULL);
    FILE *file;

    memset(memory, 0, sizeof(*memory));
    memory->pid = atoi(pid);
    if (!g_ascii_isdigit(pid[0]) || memory->pid == getpid() || !read_status(folder, memory)) {
        return FALSE;
    }
    file = fopen(smaps, "re");
    if (file) {
        LodgeProcessMemory parts = *memory;

        parts.resident_bytes = 0;
        read_mappings(file, &parts);
        fclose(file);
        /* Some kernels let it be opened, and say nothing. */
        if (parts.resident_bytes > 0) {
            *memory = parts;
            memory->divided = TRUE;
        }
    }
    return TRUE;
}

static int by_pid(gconstpointer a, gconstpointer b)
{
    const LodgeProcessMemory *left = a, *right = b;

    return left->pid < right->pid ? -1 : left->pid > right->pid;
}

GArray *lodge_process_memory_read(void)
{
    GArray *processes = g_array_new(FALSE, TRUE, sizeof(LodgeProcessMemory));
    GDir *folder = g_dir_open("/proc", 0, NULL);
    const char *pid;

    while (folder && (pid = g_dir_read_name(folder))) {
        LodgeProcessMemory memory;

        if (read_process(pid, &memory)) {
            g_array_append_val(processes, memory);
        }
    }
    if (folder) {
        g_dir_close(folder);
    }
    g_array_sort(processes, by_pid);
    return processes;
}
