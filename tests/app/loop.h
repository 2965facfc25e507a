/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Waiting for the main thread's sources: on the event, with a limit that only ends what hangs. */
#pragma once

#include <glib.h>

#define LOOP_LIMIT_S 60

static inline gboolean loop_hangs(gpointer what)
{
    g_error("not within %d s: %s", LOOP_LIMIT_S, (const char *)what);
    return G_SOURCE_REMOVE;
}

/* Iterate until @condition. */
#define LOOP_UNTIL(condition)                                                                 \
    do {                                                                                      \
        guint limit = g_timeout_add_seconds(LOOP_LIMIT_S, loop_hangs, (gpointer) #condition); \
                                                                                              \
        while (!(condition)) {                                                                \
            g_main_context_iteration(NULL, TRUE);                                             \
        }                                                                                     \
        g_source_remove(limit);                                                               \
    } while (0)
