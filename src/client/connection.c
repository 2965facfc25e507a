/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Opening connections; errors of libvirt as ours. */
#include "client/connection.h"

#include "client/autostart.h"
#include "common/i18n.h"
#include "common/lodge-error.h"

#include <libvirt-glib/libvirt-glib.h>
#include <libvirt/virterror.h>
#include <libxml/xmlerror.h>

#include <string.h>
#include <unistd.h>

/*
 * A daemon that has been silent for so long has gone. The pings are needed for another reason, too:
 * libvirt 9.0's client may forget to send a thread's call while another thread waits for an answer,
 * and whatever else is sent reminds it.
 */
#define KEEPALIVE_S     1
#define KEEPALIVE_COUNT 20

/* LODGE_CONNECTION_DEFAULT, and no other daemon in its place: only then may it be started. */
#define SESSION         "lodge:///session?mode=direct"
#define START_LIMIT_US  (5 * G_TIME_SPAN_SECOND)
#define START_RETRY_US  (10 * G_TIME_SPAN_MILLISECOND)

int lodge_connection_error_code(void)
{
    virErrorPtr last = virGetLastError();

    return last ? last->code : VIR_ERR_OK;
}

char *lodge_connection_error_text(void)
{
    virErrorPtr last = virGetLastError();
    g_autofree char *text = g_utf8_make_valid(
        last && last->message ? last->message : _("the library names no cause"), -1);

    for (char *at = text; *at; at++) {
        if (g_ascii_iscntrl(*at)) {
            *at = ' ';
        }
    }
    return g_strdup(g_strstrip(text));
}

gboolean lodge_connection_set_error_by(GError **error, const LodgeConnectionMeaning *meanings,
                                       const char *context)
{
    int code = lodge_connection_error_code();
    g_autofree char *message = lodge_connection_error_text();
    LodgeError kind = LODGE_ERROR_FAILED;
    const char *step = NULL;

    if (virGetLastErrorDomain() == VIR_FROM_RPC) {
        code = LODGE_CONNECTION_GONE;
    }
    for (; meanings->code; meanings++) {
        if (meanings->code == code) {
            kind = meanings->kind;
            step = meanings->step;
        }
    }
    if (step) {
        g_set_error(error, LODGE_ERROR, kind, "%s: %s; %s", context, message, _(step));
    } else {
        g_set_error(error, LODGE_ERROR, kind, "%s: %s", context, message);
    }
    return FALSE;
}

/* The library prints errors by itself unless somebody takes them. */
static void take_error(void *data, virErrorPtr last)
{
    (void)data;
    (void)last;
}

/* So does libxml2, in those drivers that run in this process. */
static void take_xml_error(void *data, const char *format, ...)
{
    (void)data;
    (void)format;
}

/* A daemon that was just started listens soon; the library, too, tries for 5 s where it starts one. */
static virConnectPtr open_soon(const char *name)
{
    gint64 limit = g_get_monotonic_time() + START_LIMIT_US;
    virConnectPtr connection;

    do {
        g_usleep(START_RETRY_US);
        connection = virConnectOpen(name);
    } while (!connection && g_get_monotonic_time() < limit);
    return connection;
}

static virConnectPtr open_session(void)
{
    virConnectPtr connection = virConnectOpen(SESSION);

    if (!connection && virGetLastErrorDomain() == VIR_FROM_RPC && lodge_autostart_root()) {
        connection = open_soon(SESSION);
    }
    return connection;
}

gboolean lodge_connection_prepare(LodgeConnectionUse use)
{
    static gsize announced, events;

    virSetErrorFunc(NULL, take_error);
    if (virInitialize() < 0) {
        return FALSE;
    }
    if (g_once_init_enter(&announced)) {
        lodge_autostart_announce();
        g_once_init_leave(&announced, 1);
    }
    if (use == LODGE_CONNECTION_EVENTS && g_once_init_enter(&events)) {
        gvir_event_register();
        g_once_init_leave(&events, 1);
    }
    return TRUE;
}

virConnectPtr lodge_connection_try(const char *uri, LodgeConnectionUse use, char **why_out)
{
    virConnectPtr connection = NULL;

    /* Each thread has its own. */
    xmlSetGenericErrorFunc(NULL, take_xml_error);
    if (lodge_connection_prepare(use)) {
        connection = uri && strcmp(uri, LODGE_CONNECTION_DEFAULT) != 0 ? virConnectOpen(uri)
                                                                       : open_session();
    }
    if (connection && use == LODGE_CONNECTION_EVENTS) {
        /* Drivers in this process have no such thing, and old daemons may not. */
        (void)virConnectSetKeepAlive(connection, KEEPALIVE_S, KEEPALIVE_COUNT);
    }
    *why_out = connection ? NULL : lodge_connection_error_text();
    return connection;
}

char *lodge_connection_version_text(unsigned long version)
{
    return g_strdup_printf("%lu.%lu.%lu", version / 1000000, version / 1000 % 1000, version % 1000);
}
