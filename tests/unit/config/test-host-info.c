/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Hosts of several shapes, made of files; and the one that we are on. */
#include "common/lodge-error.h"
#include "config/host-info.h"
#include "host-tree.h"
#include "lib/tap.h"

#include <string.h>

static void test_even(void)
{
    g_autofree char *root = host_tree_make(2, 2, 4, 2);
    g_autoptr(LodgeHostInfo) host = lodge_host_info_read(root, NULL);

    TAP_OK(host != NULL);
    TAP_EQ(host->memory_bytes, 16384ull << 20);
    TAP_EQ(host->mhz, 2100);
    TAP_EQ(host->nodes, 2);
    TAP_EQ(host->sockets, 2);
    TAP_EQ(host->cores, 4);
    TAP_EQ(host->threads, 2);
    TAP_EQ(host->cpus->len, 32);
    TAP_EQ(g_array_index(host->cpus, LodgeHostCpu, 31).node, 1);
    host_tree_remove(root);
}

/* A CPU is off: libvirt's four numbers cannot say that, so all is one socket. */
static void test_uneven(void)
{
    g_autofree char *root = host_tree_make(1, 1, 2, 2);
    g_autoptr(LodgeHostInfo) host = NULL;

    TAP_OK(host_tree_write(root, "/sys/devices/system/cpu/online", "0-1,3\n"));
    host = lodge_host_info_read(root, NULL);
    TAP_OK(host != NULL);
    TAP_EQ(host->cpus->len, 3);
    TAP_EQ(host->nodes * host->sockets * host->threads, 1);
    TAP_EQ(host->cores, 3);
    host_tree_remove(root);
}

/* A container may hide all of /sys. */
static void test_bare(void)
{
    g_autofree char *root = host_tree_make(0, 0, 0, 0);
    g_autoptr(LodgeHostInfo) host = lodge_host_info_read(root, NULL);

    TAP_OK(host != NULL);
    TAP_OK(host->cpus->len >= 1);
    TAP_EQ(host->cores, host->cpus->len);
    host_tree_remove(root);
}

static void test_nonsense(void)
{
    static const char *const lists[] = {"", "x", "3-", "-1", "0-99999999", "4294967295"};
    g_autofree char *root = host_tree_make(1, 1, 2, 1);

    for (gsize i = 0; i < G_N_ELEMENTS(lists); i++) {
        g_autoptr(LodgeHostInfo) host = NULL;

        TAP_OK(host_tree_write(root, "/sys/devices/system/cpu/online", lists[i]));
        TAP_OK(host_tree_write(root, "/sys/devices/system/node/online", lists[i]));
        host = lodge_host_info_read(root, NULL);
        TAP_OK(host && host->cpus->len >= 1);
        TAP_EQ(host->nodes * host->sockets * host->cores * host->threads, host->cpus->len);
    }
    host_tree_remove(root);
}

static void test_no_memory_size(void)
{
    g_autoptr(GError) error = NULL;

    TAP_OK(!lodge_host_info_read("/nonexistent", &error));
    TAP_OK(g_error_matches(error, LODGE_ERROR, LODGE_ERROR_FAILED));
    TAP_OK(strstr(error->message, "/nonexistent/proc/meminfo has no MemTotal") != NULL);
}

static void test_this_host(void)
{
    g_autoptr(LodgeHostInfo) host = lodge_host_info_read("", NULL);

    TAP_OK(host != NULL);
    TAP_EQ(host->nodes * host->sockets * host->cores * host->threads, host->cpus->len);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"config.host-info.even", test_even},
        {"config.host-info.uneven", test_uneven},
        {"config.host-info.bare", test_bare},
        {"config.host-info.nonsense", test_nonsense},
        {"config.host-info.no-memory-size", test_no_memory_size},
        {"config.host-info.this-host", test_this_host},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
