/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Threads: see thread.h. */
#include "common/thread.h"

#include "common/i18n.h"
#include "common/lodge-error.h"

GThread *lodge_thread_new(const char *name, GThreadFunc function, gpointer data, GError **error)
{
    g_autoptr(GError) cause = NULL;
    GThread *thread = g_thread_try_new(name, function, data, &cause);

    if (!thread) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED,
                    _("Cannot start the thread “%s”: %s; free some memory, or raise the limits on "
                      "it and on processes"),
                    name, cause->message);
    }
    return thread;
}

static gpointer return_at_once(gpointer data)
{
    return data;
}

gboolean lodge_thread_reserve(GError **error)
{
    GThread *thread = lodge_thread_new("signals", return_at_once, NULL, error);

    if (!thread) {
        return FALSE;
    }
    g_thread_join(thread);
    return TRUE;
}
