/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A connection by the stock client library of libvirt, and its errors as ours.
 *
 * A failed call of the library leaves its error with the thread; lodge_connection_set_error_by() takes
 * it from there, in the same thread and before the next call.
 */
#pragma once

#include "common/lodge-error.h"

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
 * Make the library ready: no more than once, and no connection needs it before it.
 *
 * Returns FALSE with the library's error. Context: the main thread, which is then the one that may set
 * environment variables, before there are others; LODGE_CONNECTION_EVENTS before any connection.
 */
gboolean lodge_connection_prepare(LodgeConnectionUse use);

/**
 * Connect.
 *
 * @uri      NULL: the session's Lodge daemon, which is started when it does not run.
 * @why_out  the cause, one line, owned by the caller: g_free(); NULL on success.
 *
 * Returns a connection, owned by the caller: virConnectClose(); NULL on failure.
 * Context: any thread that may wait, once the library is ready; else the main thread.
 */
virConnectPtr lodge_connection_try(const char *uri, LodgeConnectionUse use, char **why_out);

/* What an error's code means to the person before the program, and what is to be done next. */
typedef struct {
    int code; /* virErrorNumber, or LODGE_CONNECTION_GONE; 0 ends a table */
    LodgeError kind;
    const char *step; /* marked by N_(); NULL: none is known */
} LodgeConnectionMeaning;

/* The code of every error that says that the peer has gone, or does not answer. */
#define LODGE_CONNECTION_GONE (-1)

/**
 * Set @error to "context: what the library says; what to do next".
 *
 * @meanings  ends with a code of 0. An error that does not stand there is LODGE_ERROR_FAILED.
 *
 * Returns FALSE.
 */
gboolean lodge_connection_set_error_by(GError **error, const LodgeConnectionMeaning *meanings,
                                       const char *context);

/** What the library says in the calling thread: one line, whatever a peer has put into it. g_free(). */
char *lodge_connection_error_text(void);

/** The code of the calling thread's error: virErrorNumber. */
int lodge_connection_error_code(void);

/** "9.0.0": libvirt's numbers for versions, as people write them. Free with g_free(). */
char *lodge_connection_version_text(unsigned long version);
