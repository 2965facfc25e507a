/* SPDX-License-Identifier: GPL-3.0-or-later */
/* SIGHUP, SIGINT and SIGTERM, heard in the default main context. */
#pragma once

#include <glib.h>

typedef void LodgeSignalFunc(int number, gpointer user_data);

/* Zeroed: hears nothing. Stays in place while it does. */
typedef struct {
    LodgeSignalFunc *heard;
    gpointer user_data;
    guint sources[3];
} LodgeSignals;

/**
 * Hear each of them, as often as it comes. lodge_thread_reserve() comes before: GLib makes a thread
 * for it.
 */
void lodge_signals_watch(LodgeSignals *signals, LodgeSignalFunc *heard, gpointer user_data);

/** Let them end the process again, as they do by default. */
void lodge_signals_forget(LodgeSignals *signals);
