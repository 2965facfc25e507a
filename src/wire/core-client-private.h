/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the parts of the client share: the connection, calls over it, and the machines it knows. */
#pragma once

#include "wire/core-client.h"

#include <errno.h>
#include <gio/gio.h>
#include <pthread.h>
#include <hv/op.h>
#include <hv/stat-pages.h>

#define CORE_STAGING_SLOTS (HV_OP_STAGING_BYTES / LODGE_CORE_COPY_BYTES)

typedef struct CoreCall CoreCall;

/* Something for the events' thread. */
typedef struct {
    enum hv_op op; /* STATE, CONSOLE; ACCEPT: a console takes bytes again */
    hv_handle handle;
    struct hv_domain_status status; /* STATE */
    guint64 position;               /* CONSOLE */
    GBytes *output;                 /* CONSOLE; owned */
} CoreEvent;

struct hv_core {
    /* Set at connection, owned. */
    GSocket *socket;
    guint8 *staging; /* mapped; HV_OP_STAGING_BYTES */
    int stat_fd;     /* -1: none */
    LodgeCoreInfo info;
    const LodgeCoreEvents *events; /* borrowed; may be NULL */
    gpointer user_data;
    GThread *reader, *teller;

    /* POSIX's, not GLib's, which ThreadSanitizer does not see. */
    pthread_mutex_t sending; /* one at a time: GSocket wants it */
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* by CLOCK_MONOTONIC: a machine's state, `lost`, or a staging slot */
    pthread_cond_t news;    /* `events_queued` or `closing` */
    pthread_cond_t told;    /* `telling` */
    pthread_cond_t written; /* `writing` */
    /* Guarded by mutex. */
    gboolean lost, closing;
    guint64 serial;
    GHashTable *calls;                 /* CoreCall.serial -> CoreCall, on its caller's stack */
    GHashTable *domains;               /* hv_domain.handle -> hv_domain, with a reference */
    GQueue events_queued;              /* CoreEvent, owned */
    guint slots;                       /* of staging that are in use, a bit each */
    guint64 writes_asked, writes_done; /* of statistics; those up to the latter are answered */
    gboolean writing;                  /* somebody is asking the core to */
    int write_result;                  /* the last one's */
    const struct hv_domain *telling;   /* the events' thread is at its console; NULL: at none */
};

struct hv_domain {
    /* Set when it is made. */
    struct hv_core *core; /* borrowed */
    guint64 handle;
    char name[64];
    struct hv_platform_layout layout;
    /* Guarded by the core's mutex. */
    guint references;
    guint changes;                        /* states that were told */
    const struct hv_console_ops *console; /* NULL: nobody takes its output */
    void *console_context;
    /* The events' thread alone. */
    GByteArray *output; /* not taken yet */
    guint64 position;   /* of its first byte: what was taken before */
};

/**
 * Ask, and wait for the answer.
 *
 * @request  its body; the header is set here.
 * @body     the body's length.
 * @answer   NULL: there is no body of interest.
 * @wanted   the length of a good answer's body.
 * @fd_out   NULL: none comes; else the answer's descriptor, the caller's to close, or -1.
 *
 * Returns the answer's result; -ENOTCONN. A refusal's reason stands in @answer, if that is given.
 */
HV_MUST_CHECK int core_call(struct hv_core *core, enum hv_op op, struct hv_op_request *request,
                            gsize body, struct hv_op_answer *answer, gsize wanted, int *fd_out);

/** The result of an operation that is younger than its version: a core that does not know it refuses it
 * as malformed. */
static inline int core_result_of_younger(int rc)
{
    return rc == -EPROTO ? -ENOTSUP : rc;
}

/** An operation of a domain, without more to say. */
HV_MUST_CHECK int core_call_domain(struct hv_domain *domain, enum hv_op op,
                                   struct hv_op_answer *answer, gsize wanted);

/** Send what has no answer. Lost, it is forgotten. */
void core_send(struct hv_core *core, enum hv_op op, struct hv_op_request *request, gsize body);

/** Copy a refusal's reason into @why, which may be NULL. */
void core_copy_why(int rc, const struct hv_op_answer *answer, char *why, size_t why_size);

/** Nothing more comes: all who wait are told. Any thread. */
void core_lose(struct hv_core *core);

/** A machine as it was told; with a reference for the caller. */
struct hv_domain *core_domain_add(struct hv_core *core, const struct hv_op_made *made,
                                  const struct hv_console_ops *console, void *context);
/** One that is known, with a reference; or NULL. The mutex is held. */
struct hv_domain *core_domain_find_locked(struct hv_core *core, guint64 handle);
/** The mutex is held; freed with the last. */
void core_domain_unref_locked(struct hv_domain *domain);

void core_status_from(const struct hv_op_status *from, struct hv_domain_status *status_out);

/** An event has come: book it, and leave the rest to the events' thread. */
void core_event_take(struct hv_core *core, const struct hv_op_answer *event);
/** Have a machine's output tried again. */
void core_event_retry(struct hv_domain *domain);
/** The body of the events' thread; its argument is the core. */
gpointer core_event_run(gpointer core);
void core_event_free(gpointer event);
