/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A host of files: see host-tree.h. */
#include "host-tree.h"

#include <ftw.h>
#include <stdio.h>

gboolean host_tree_write(const char *root, const char *name, const char *text)
{
    g_autofree char *path = g_strconcat(root, name, NULL);
    g_autofree char *folder = g_path_get_dirname(path);

    return g_mkdir_with_parents(folder, 0755) == 0 && g_file_set_contents(path, text, -1, NULL);
}

static void write_number(const char *root, guint cpu, const char *file, guint number)
{
    g_autofree char *name = g_strdup_printf("/sys/devices/system/cpu/cpu%u/topology/%s", cpu, file);
    g_autofree char *text = g_strdup_printf("%u\n", number);

    host_tree_write(root, name, text);
}

char *host_tree_make(guint nodes, guint sockets, guint cores, guint threads)
{
    char *root = g_dir_make_tmp("lodge-host-XXXXXX", NULL);
    guint all_cores = nodes * sockets * cores;
    g_autofree char *online = g_strdup_printf("0-%u\n", all_cores * threads - 1);
    g_autofree char *all_nodes = g_strdup_printf("0-%u\n", nodes - 1);

    host_tree_write(root, "/proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\n");
    if (nodes == 0) {
        return root;
    }
    host_tree_write(root, "/proc/cpuinfo", "processor\t: 0\ncpu MHz\t\t: 2100.123\n");
    host_tree_write(root, "/sys/devices/system/cpu/online", online);
    host_tree_write(root, "/sys/devices/system/node/online", all_nodes);
    for (guint cpu = 0; cpu < all_cores * threads; cpu++) {
        guint core = cpu % all_cores;

        write_number(root, cpu, "physical_package_id", core / cores);
        write_number(root, cpu, "core_id", core % cores);
    }
    for (guint node = 0; node < nodes; node++) {
        g_autofree char *name = g_strdup_printf("/sys/devices/system/node/node%u/cpulist", node);
        g_autoptr(GString) list = g_string_new(NULL);

        for (guint thread = 0; thread < threads; thread++) {
            guint first = thread * all_cores + node * sockets * cores;

            g_string_append_printf(list, "%s%u-%u", thread ? "," : "", first,
                                   first + sockets * cores - 1);
        }
        host_tree_write(root, name, list->str);
    }
    return root;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status;
    (void)type;
    (void)at;
    return remove(path);
}

void host_tree_remove(const char *root)
{
    nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}
