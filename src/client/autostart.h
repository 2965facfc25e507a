/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Starting the session's daemon when it does not run.
 *
 * For an ordinary user the client library does it, once it knows where the program is. For root it does
 * not, since root's daemon is the system's: there it is done here.
 */
#pragma once

#include <glib.h>

/** virtlodged: in VIRTD_PATH, beside this program's folder, or installed. NULL: nowhere. g_free(). */
char *lodge_autostart_find(void);

/** Tell the library where the program is, unless VIRTD_PATH tells it. */
void lodge_autostart_announce(void);

/**
 * As root: start the program. It goes on without us, and ends when nobody has needed it for a while.
 *
 * Returns FALSE when there is none, it cannot be started, or we are not root.
 */
gboolean lodge_autostart_root(void);
