/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the host does at present: time of its CPUs, and memory. */
#pragma once

#include <glib.h>

/* Nanoseconds since the host started. */
typedef struct {
    guint64 user, system, idle, iowait;
} LodgeHostTimes;

/** @cpu: its number; -1: all together. FALSE: there is none of that number. */
gboolean lodge_host_times_read(int cpu, LodgeHostTimes *times_out);

typedef struct {
    guint64 total_kib, free_kib, buffers_kib, cached_kib;
} LodgeHostMemory;

/** Returns FALSE with LODGE_ERROR_FAILED when /proc does not tell. */
gboolean lodge_host_memory_read(LodgeHostMemory *memory_out, GError **error);
