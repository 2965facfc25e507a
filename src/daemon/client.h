/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A client's connection: messages in and out, calls under way, streams.
 *
 *     bytes -> message -> call -> a worker -> reply -\
 *                      \-> stream <-> console         >-> queue -> bytes
 *                                     events --------/
 *
 * Calls run at once and are answered in the order in which they end. Of a client that does not read, no
 * more calls are read, and its streams wait; one that lets events pile up is cut off.
 */
#pragma once

#include "daemon/daemon.h"
#include "daemon/stream.h"
#include "wire/message.h"

/* Main thread. */

/** @fd: moved. */
LodgeClient *lodge_client_new(LodgeDaemon *daemon, int fd, gboolean read_only);
/** Cut it off, and let go. It is freed when the last call has ended. */
void lodge_client_close(LodgeClient *client);

/* Any thread, with a reference. */

LodgeClient *lodge_client_ref(LodgeClient *client);
void lodge_client_unref(LodgeClient *client);
/** Send, if it is still there. @message: borrowed. */
void lodge_client_send(LodgeClient *client, GBytes *message);
/** The same for what it need not have asked for: too much of that cuts it off. */
void lodge_client_send_event(gpointer client, GBytes *message);
/** Bytes that wait for it to read. */
gsize lodge_client_backlog(LodgeClient *client);
/** Look for work on the main thread soon. */
void lodge_client_wake(LodgeClient *client);

/** A call begins, and ends. */
void lodge_client_begin_call(LodgeClient *client);
void lodge_client_end_call(LodgeClient *client);

/** FALSE: it was open already. @uri: copied. */
gboolean lodge_client_open(LodgeClient *client, const char *uri, gboolean read_only);
gboolean lodge_client_is_open(LodgeClient *client);
gboolean lodge_client_is_read_only(LodgeClient *client);
/** As it was opened; free with g_free(). */
char *lodge_client_get_uri(LodgeClient *client);

/** @stream: moved. It does nothing before lodge_client_start_stream(). */
void lodge_client_add_stream(LodgeClient *client, LodgeStream *stream);
void lodge_client_start_stream(LodgeClient *client, LodgeStream *stream);
