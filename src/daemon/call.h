/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A call of a client, and the functions that answer. A family of procedures is a file, call-FAMILY.c,
 * with a table of its own; dispatch.c knows the tables.
 */
#pragma once

#include "daemon/client.h"
#include "daemon/daemon.h"
#include "daemon/libvirt-error.h"
#include "wire/libvirt.h"

#include <libvirt/libvirt.h>

typedef struct {
    LodgeDaemon *daemon;
    LodgeClient *client;
    LodgeStreamName name;
    GUnixFDList *fds;      /* that came with it, or NULL: with LODGE_CALL_WRITES_WITH_FDS */
    LodgeMachine *machine; /* that the call is about: with LodgeCallEntry.on_machine */
    /* Called when the reply is on its way: what follows it, such as a stream's first bytes. */
    void (*then)(LodgeClient *client, gpointer data);
    gpointer then_data;
} LodgeCall;

/**
 * Answer.
 *
 * @args  of the procedure's type in libvirt.x; freed after the call. NULL when it takes nothing.
 * @ret   zeroed, of the procedure's type. XDR frees what is in it by free(): memory of g_malloc() is
 *        that of malloc().
 *
 * Returns FALSE with an error. Context: a worker; several calls of one client at once.
 */
typedef gboolean LodgeHandler(LodgeCall *call, void *args, void *ret, GError **error);

typedef enum {
    LODGE_CALL_WRITES,          /* not for clients that only look */
    LODGE_CALL_WRITES_WITH_FDS, /* likewise; of all others, descriptors that come along are closed */
    LODGE_CALL_READS,           /* for those too */
    LODGE_CALL_BEFORE_OPENING,  /* without an open connection too */
} LodgeCallRight;

typedef struct {
    guint32 procedure;
    LodgeCallRight right;
    LodgeHandler *handler;
    gboolean on_machine; /* its arguments begin with an lv_domain: there must be such a machine */
} LodgeCallEntry;

typedef struct {
    guint32 program;
    const LodgeCallEntry *entries;
    gsize count;
} LodgeCallFamily;

extern const LodgeCallFamily lodge_calls_connect, lodge_calls_host, lodge_calls_list,
    lodge_calls_lifecycle, lodge_calls_define, lodge_calls_domain, lodge_calls_metadata,
    lodge_calls_tune, lodge_calls_vcpu, lodge_calls_stats, lodge_calls_stream, lodge_calls_monitor;

/** NULL when there is none. */
static inline const char *lodge_call_text(const lv_maybe_string text)
{
    return text ? *text : NULL;
}
/** Refuse a text that is not UTF-8; NULL is none. @what names its role. */
gboolean lodge_call_check_text(const char *what, const char *text, GError **error);

#define LODGE_CALL_AFFECT (VIR_DOMAIN_AFFECT_LIVE | VIR_DOMAIN_AFFECT_CONFIG)

/**
 * What LODGE_CALL_AFFECT's bits in @flags mean for the machine as it is: of those who say nothing, the
 * instance if there is one.
 */
void lodge_call_scope(LodgeMachine *machine, guint flags, gboolean *live_out, gboolean *stored_out);
/** Is it one of those that @filter (VIR_CONNECT_LIST_DOMAINS_…) lets pass? */
gboolean lodge_call_passes(const LodgeMachineView *view, guint filter);
/** The one definition that they mean, for who only looks; owned by the caller, or NULL. */
LodgeDomainConfig *lodge_call_copy_definition(LodgeMachine *machine, guint flags, GError **error);
/** Refuse flags that are not in @known. */
gboolean lodge_call_check_flags(guint flags, guint known, GError **error);
