/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Connections and their errors, for the command line: what to do next is said in its words. */
#pragma once

#include "client/connection.h"

/**
 * Connect.
 *
 * @uri  NULL: the session's Lodge daemon, which is started when it does not run.
 *
 * Returns a connection, owned by the caller: virConnectClose(); NULL with an error that names the
 * URI, the cause and the next step.
 * Context: the main thread; LODGE_CONNECTION_EVENTS before any other connection.
 */
virConnectPtr lodge_connection_open(const char *uri, LodgeConnectionUse use, GError **error);

/**
 * Set @error to "context: what the library says; what to do next".
 *
 * LODGE_ERROR_INPUT where what was given is wrong, else LODGE_ERROR_FAILED. Returns FALSE.
 */
gboolean lodge_connection_set_error(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);
