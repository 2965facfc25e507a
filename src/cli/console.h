/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The terminal, or a file, as the other end of a machine's serial port.
 *
 *     machine --lodge_console_write()--> ring (64 KiB) --writer thread--> terminal or file
 *     terminal --main loop--> Ctrl-A filter --LodgeConsoleMachine.input()--> machine
 *
 * A terminal that does not take bytes fills the ring and then holds back the machine's own
 * transmitter; nobody else waits for it. The terminal is raw while the console is open.
 */
#pragma once

#include <glib.h>

typedef struct _LodgeConsole LodgeConsole;

/* What is connected: a domain of this process, or a stream from a daemon. */
typedef struct {
    /** Take some bytes that were typed. Returns how many. Context: the main thread. */
    gsize (*input)(gpointer machine, const guint8 *data, gsize bytes);
    /** lodge_console_write() took less than all, and there is room again. Context: any thread. */
    void (*writable)(gpointer machine);
} LodgeConsoleMachine;

/** Called on the main thread when the person typed Ctrl-A X. */
typedef void LodgeConsoleLeave(gpointer user_data);

/**
 * Open a console that writes to @fd (borrowed), and reads the terminal's input when @input.
 *
 * @leave    may be NULL.
 * @leaving  what Ctrl-A X does, for the help: marked by N_(). NULL when @input is FALSE.
 *
 * Returns NULL when the host has no thread for it.
 */
LodgeConsole *lodge_console_new(int fd, gboolean input, const char *leaving,
                                LodgeConsoleLeave *leave, gpointer user_data, GError **error);

/**
 * Connect the machine, before it runs; NULL before it goes.
 *
 * @ops  static.
 */
void lodge_console_attach(LodgeConsole *console, const LodgeConsoleMachine *ops, gpointer machine);

/**
 * The machine writes.
 *
 * Returns how many bytes were taken; when not all, writable() will be called.
 * Context: any thread, one at a time.
 */
gsize lodge_console_write(LodgeConsole *console, const guint8 *data, gsize bytes);

/** Has the other end refused bytes for good? What is written is thrown away from then on. */
gboolean lodge_console_is_broken(LodgeConsole *console);

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
