/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What Lodge's own processes hold of the host's memory, by /proc/PID/smaps. lodge-core lets nobody but
 * root look into it (PR_SET_DUMPABLE): others are told its sum alone, by /proc/PID/status.
 */
#pragma once

#include <glib.h>

typedef struct {
    int pid;
    char name[16];          /* "lodge-core", "virtlodged", "lodgectl" */
    guint64 resident_bytes; /* all of it, shared pages too */
    gboolean divided;       /* what follows is known */
    guint64 guest_bytes;    /* of it, guests' memory that was touched */
    guint64 file_bytes;     /* of it, programs and libraries */
    guint64 own_bytes;      /* of it, the rest: what Lodge itself needs */
} LodgeProcessMemory;

/**
 * Of all processes of Lodge that are the caller's, but this one.
 *
 * Returns an array of LodgeProcessMemory by pid, owned by the caller. What ends meanwhile is left out.
 */
GArray *lodge_process_memory_read(void);
