/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The sockets that clients come through: virtlodged-sock, and virtlodged-sock-ro for those that only
 * look. They are made here, or came with the process (socket activation). Main thread.
 */
#pragma once

#include "daemon/daemon.h"

typedef struct _LodgeListener LodgeListener;

/**
 * Make both sockets in @folder, and listen. What stands there of a daemon that died is replaced: who
 * calls holds the folder's lock.
 *
 * Returns FALSE with LODGE_ERROR_FAILED naming path and cause.
 */
gboolean lodge_listener_open_folder(LodgeDaemon *daemon, const char *folder, GPtrArray *listeners,
                                    GError **error);

/**
 * Take the sockets that came with the process, as sd_listen_fds(3) tells it to. One whose path ends in
 * "-ro" is read-only.
 *
 * Returns how many; -1 with LODGE_ERROR_INPUT when one is no such socket.
 */
int lodge_listener_take_inherited(LodgeDaemon *daemon, GPtrArray *listeners, GError **error);

/** Stop listening; a socket that was made here is removed. */
void lodge_listener_free(LodgeListener *listener);
