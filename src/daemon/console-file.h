/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A serial port to a file: a thread that reads the machine's ring and writes. A slow disk holds up the
 * guest that writes, and nobody else.
 */
#pragma once

#include "daemon/console.h"

struct hv_domain;

typedef struct _LodgeConsoleFile LodgeConsoleFile;

/**
 * Open, or make, the file; it is as before until the machine writes.
 *
 * @append  keep what it holds; else it is emptied by lodge_console_file_start().
 *
 * Returns NULL with an error that names the path: it cannot be opened for writing, is no regular file (a
 * pipe's other end, or a terminal, would hold the guest up for as long as it likes), or is locked, as it
 * is while another machine writes to it.
 */
LodgeConsoleFile *lodge_console_file_open(const char *path, gboolean append, GError **error);

/** Whether it is what @path names, by whatever other name. @path: may be NULL. */
gboolean lodge_console_file_is(LodgeConsoleFile *file, const char *path);

/**
 * Before it starts: of what the ring gives, leave out what the file holds already. For a file that holds
 * nothing but the machine's output, by a daemon before this one.
 *
 * @position  how many bytes of the machine come before the first that the ring gives.
 */
void lodge_console_file_skip(LodgeConsoleFile *file, guint64 position);

/**
 * Read the ring from now on.
 *
 * @ring    whose only reader it is; borrowed until lodge_console_file_close().
 * @domain  whose console it is; borrowed as well.
 */
gboolean lodge_console_file_start(LodgeConsoleFile *file, LodgeConsoleRing *ring,
                                  struct hv_domain *domain, GError **error);

/** Write what the ring holds still, and close. NULL is accepted. */
void lodge_console_file_close(LodgeConsoleFile *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LodgeConsoleFile, lodge_console_file_close)
