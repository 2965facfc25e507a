/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A connection by the stock client library of libvirt, and its errors as ours.
 *
 * A failed call of the library leaves its error with the thread; lodge_connection_set_error() takes
 * it from there, in the same thread and before the next call.
 */
#pragma once

#include <glib.h>
#include <libvirt/libvirt.h>

#define LODGE_CONNECTION_DEFAULT "lodge:///session"

G_DEFINE_AUTOPTR_CLEANUP_FUNC(virConnect, virConnectClose)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(virDomain, virDomainFree)

typedef enum {
    LODGE_CONNECTION_CALLS, /* asks and gets answers */
    /* Hears of events, streams and a daemon that is silent, too, in the default main context; for
     * calls of several threads. */
    LODGE_CONNECTION_EVENTS,
} LodgeConnectionUse;

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

/** The same; NULL with the cause alone, owned by the caller: g_free(). */
virConnectPtr lodge_connection_try(const char *uri, LodgeConnectionUse use, char **why_out);

/**
 * Set @error to "context: what the library says; what to do next".
 *
 * LODGE_ERROR_INPUT where what was given is wrong, else LODGE_ERROR_FAILED. Returns FALSE.
 */
gboolean lodge_connection_set_error(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);

/** The code of the calling thread's error: virErrorNumber. */
int lodge_connection_error_code(void);

/** "9.0.0": libvirt's numbers for versions, as people write them. Free with g_free(). */
char *lodge_connection_version_text(unsigned long version);
