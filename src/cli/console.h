/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The terminal, or a file, as a machine's serial port.
 *
 *     vCPU thread --write--> ring (64 KiB) --writer thread--> terminal or file
 *     terminal --main loop--> Ctrl-A filter --> hv_domain_console_input()
 *
 * A terminal that does not take bytes fills the ring and then holds back the guest's own
 * transmitter; it never holds a vCPU. The terminal is raw while the console is open.
 */
#pragma once

#include <hv/domain.h>

#include <glib.h>

typedef struct _LodgeConsole LodgeConsole;

/** Called on the main thread when the person typed Ctrl-A X. */
typedef void LodgeConsoleLeave(gpointer user_data);

/**
 * Open a console that writes to @fd (borrowed), and reads the terminal's input when @input.
 *
 * @leave  may be NULL.
 *
 * Returns NULL when the host has no thread for it.
 */
LodgeConsole *lodge_console_new(int fd, gboolean input, LodgeConsoleLeave *leave,
                                gpointer user_data, GError **error);

/** What to give to hv_domain_create(). */
extern const struct hv_console_ops lodge_console_ops;

/** Connect the domain behind it, before it runs; NULL before the domain goes. */
void lodge_console_attach(LodgeConsole *console, struct hv_domain *domain);

/**
 * Wait until what the machine wrote is out, or the limit has passed. The domain is gone.
 *
 * Returns 0, or the errno with which the other end refused bytes (EPIPE: it has gone).
 */
int lodge_console_flush(LodgeConsole *console);

/** Somebody wants us gone: lodge_console_flush() shall wait for @limit_us at most, not a second. */
void lodge_console_hurry(LodgeConsole *console, gint64 limit_us);

/** Restore the terminal: what is written from here on comes after the machine. */
void lodge_console_release_terminal(LodgeConsole *console);

/** Flush, restore the terminal, free. */
void lodge_console_free(LodgeConsole *console);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LodgeConsole, lodge_console_free)
