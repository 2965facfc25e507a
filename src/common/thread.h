/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Threads above the core, which a host may not have. */
#pragma once

#include <glib.h>

/**
 * As g_thread_try_new().
 *
 * Returns NULL with LODGE_ERROR_FAILED, which says what to do, when the host has none.
 */
GThread *lodge_thread_new(const char *name, GThreadFunc function, gpointer data, GError **error);

/**
 * Make sure that the next thread of somebody who does not check, such as GLib's own for signals, can
 * be made: one that has ended leaves its stack behind.
 *
 * Returns FALSE with LODGE_ERROR_FAILED.
 */
gboolean lodge_thread_reserve(GError **error);
