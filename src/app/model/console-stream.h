/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The bytes of a machine's first console, both ways.
 *
 *     (new) --(opened)--> OPEN --(the machine's end, an error, or close)--> ENDED
 *
 * Signals: "data" (GBytes) for what the guest wrote, and "ended" (a sentence why, or NULL) once. What
 * is sent before it is open is kept, up to LODGE_CONSOLE_KEPT_MOST bytes; so is what the guest has not
 * taken yet. More is dropped, as by a serial line.
 * Context: main thread.
 */
#pragma once

#include "app/model/machine-item.h"

#include <gio/gio.h>

#define LODGE_CONSOLE_KEPT_MOST   65536u

#define LODGE_TYPE_CONSOLE_STREAM (lodge_console_stream_get_type())
G_DECLARE_FINAL_TYPE(LodgeConsoleStream, lodge_console_stream, LODGE, CONSOLE_STREAM, GObject)

/** Begin to open it. NULL while the machine's connection is away. */
LodgeConsoleStream *lodge_console_stream_new(LodgeMachineItem *machine);
/** Send the guest bytes. @data is borrowed. */
void lodge_console_stream_send(LodgeConsoleStream *stream, const void *data, gsize bytes);
/** Let go of it, without "ended". */
void lodge_console_stream_close(LodgeConsoleStream *stream);
