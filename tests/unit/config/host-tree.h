/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A host's /proc and /sys, made of files in a temporary folder. */
#pragma once

#include <glib.h>

/**
 * 16 GiB of memory, and so many nodes of so many sockets, cores and threads; none at all when
 * @nodes is 0. CPUs are numbered thread by thread, as kernels do.
 *
 * Returns the folder: host_tree_remove(), and g_free().
 */
char *host_tree_make(guint nodes, guint sockets, guint cores, guint threads);
/** Write, or write over, one file of it. */
gboolean host_tree_write(const char *root, const char *name, const char *text);
void host_tree_remove(const char *root);
