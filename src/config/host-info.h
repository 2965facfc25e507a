/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The host as libvirt's clients ask for it: memory, CPUs and how they hang together. */
#pragma once

#include <glib.h>

typedef struct {
    guint id;     /* as the kernel numbers CPUs */
    guint node;   /* of memory */
    guint socket; /* numbers as the kernel gives them, with gaps */
    guint core;   /* within the socket */
} LodgeHostCpu;

typedef struct {
    guint64 memory_bytes;
    guint mhz; /* 0: not known */
    /* nodes × sockets × cores × threads is how many CPUs there are: sockets of a node, and so on. */
    guint nodes, sockets, cores, threads;
    GArray *cpus; /* LodgeHostCpu, those online, by id; at least one */
} LodgeHostInfo;

/**
 * Read /proc and /sys.
 *
 * @root  where these two are: "" for the host's own.
 *
 * Returns the host, owned by the caller; NULL with LODGE_ERROR_FAILED when there is no size of memory.
 * A host whose topology cannot be read, or is uneven, has one socket with a core for each CPU: so
 * does libvirt.
 */
LodgeHostInfo *lodge_host_info_read(const char *root, GError **error);
void lodge_host_info_free(LodgeHostInfo *info);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LodgeHostInfo, lodge_host_info_free)
