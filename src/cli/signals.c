/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A source for each: GLib does not tell a callback which signal it was. */
#include "cli/signals.h"

#include <glib-unix.h>
#include <signal.h>

static gboolean on_hangup(gpointer data)
{
    LodgeSignals *signals = data;

    signals->heard(SIGHUP, signals->user_data);
    return G_SOURCE_CONTINUE;
}

static gboolean on_interrupt(gpointer data)
{
    LodgeSignals *signals = data;

    signals->heard(SIGINT, signals->user_data);
    return G_SOURCE_CONTINUE;
}

static gboolean on_terminate(gpointer data)
{
    LodgeSignals *signals = data;

    signals->heard(SIGTERM, signals->user_data);
    return G_SOURCE_CONTINUE;
}

void lodge_signals_watch(LodgeSignals *signals, LodgeSignalFunc *heard, gpointer user_data)
{
    signals->heard = heard;
    signals->user_data = user_data;
    signals->sources[0] = g_unix_signal_add(SIGHUP, on_hangup, signals);
    signals->sources[1] = g_unix_signal_add(SIGINT, on_interrupt, signals);
    signals->sources[2] = g_unix_signal_add(SIGTERM, on_terminate, signals);
}

void lodge_signals_forget(LodgeSignals *signals)
{
    for (gsize i = 0; i < G_N_ELEMENTS(signals->sources); i++) {
        g_clear_handle_id(&signals->sources[i], g_source_remove);
    }
}
