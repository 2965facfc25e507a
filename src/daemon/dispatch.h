/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From a message to the function that answers it. */
#pragma once

#include "daemon/client.h"

/**
 * A call has come: check it, decode it, give it to a worker. Whatever is wrong with it, there is an
 * answer. Main thread.
 *
 * @fds  that came with it: moved; NULL: none.
 */
void lodge_dispatch(LodgeDaemon *daemon, LodgeClient *client, const LodgeMessageHeader *header,
                    const guint8 *payload, gsize bytes, GUnixFDList *fds);

/** The workers' function; @data is a call. */
void lodge_dispatch_run(gpointer data, gpointer daemon);

/** An error's message, for a call or a stream. */
GBytes *lodge_dispatch_encode_error(const LodgeMessageHeader *header, const GError *error);
