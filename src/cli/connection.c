/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Opening connections; what libvirt's error codes mean to the person at the command line. */
#include "cli/connection.h"

#include "cli/autostart.h"
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

/* What is to be done next is known by the kind of error; the cause is in the library's own words. */
static const struct {
    int code; /* virErrorNumber */
    LodgeError kind;
    const char *step; /* may be NULL */
} meanings[] = {
    {VIR_ERR_NO_DOMAIN, LODGE_ERROR_INPUT, N_("“lodgectl list” names the machines there are")},
    {VIR_ERR_DOM_EXIST, LODGE_ERROR_INPUT, N_("choose another name, or delete the other machine")},
    {VIR_ERR_INVALID_ARG, LODGE_ERROR_INPUT, NULL},
    {VIR_ERR_XML_ERROR, LODGE_ERROR_INPUT, N_("mend the XML")},
    {VIR_ERR_XML_DETAIL, LODGE_ERROR_INPUT, N_("mend the XML")},
    {VIR_ERR_XML_INVALID_SCHEMA, LODGE_ERROR_INPUT, N_("mend the XML")},
    {VIR_ERR_CONFIG_UNSUPPORTED, LODGE_ERROR_INPUT, N_("change the machine's XML")},
    {VIR_ERR_NO_SUPPORT, LODGE_ERROR_FAILED, N_("this connection's hypervisor cannot do it")},
    {VIR_ERR_NO_CONNECT, LODGE_ERROR_INPUT, N_("name another URI by --connect")},
    {VIR_ERR_NO_MEMORY, LODGE_ERROR_FAILED, N_("free some memory")},
    {VIR_ERR_OPERATION_INVALID, LODGE_ERROR_FAILED, N_("“lodgectl list” shows its state")},
    {VIR_ERR_OPERATION_DENIED, LODGE_ERROR_FAILED, N_("connect with the right to change")},
    {VIR_ERR_AUTH_FAILED, LODGE_ERROR_FAILED, N_("connect as a user who may")},
};

int lodge_connection_error_code(void)
{
    virErrorPtr last = virGetLastError();

    return last ? last->code : VIR_ERR_OK;
}

/* One line, whatever a peer has put into it. */
static char *last_message(void)
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

gboolean lodge_connection_set_error(GError **error, const char *format, ...)
{
    int code = lodge_connection_error_code();
    g_autofree char *message = last_message();
    g_autofree char *context = NULL;
    LodgeError kind = LODGE_ERROR_FAILED;
    const char *step = NULL;
    va_list args;

    for (gsize i = 0; i < G_N_ELEMENTS(meanings); i++) {
        if (meanings[i].code == code) {
            kind = meanings[i].kind;
            step = meanings[i].step;
        }
    }
    if (virGetLastErrorDomain() == VIR_FROM_RPC) {
        step = N_("the daemon has gone, or does not answer: “lodgectl doctor”");
    }
    va_start(args, format);
    context = g_strdup_vprintf(format, args);
    va_end(args);
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
    virConnectPtr connection;

    lodge_autostart_announce();
    connection = virConnectOpen(SESSION);
    if (!connection && virGetLastErrorDomain() == VIR_FROM_RPC && lodge_autostart_root()) {
        connection = open_soon(SESSION);
    }
    return connection;
}

virConnectPtr lodge_connection_try(const char *uri, LodgeConnectionUse use, char **why_out)
{
    virConnectPtr connection = NULL;

    virSetErrorFunc(NULL, take_error);
    xmlSetGenericErrorFunc(NULL, take_xml_error);
    if (virInitialize() == 0) {
        if (use == LODGE_CONNECTION_EVENTS) {
            gvir_event_register();
        }
        connection = uri && strcmp(uri, LODGE_CONNECTION_DEFAULT) != 0 ? virConnectOpen(uri)
                                                                       : open_session();
    }
    if (connection && use == LODGE_CONNECTION_EVENTS) {
        /* Drivers in this process have no such thing, and old daemons may not. */
        (void)virConnectSetKeepAlive(connection, KEEPALIVE_S, KEEPALIVE_COUNT);
    }
    *why_out = connection ? NULL : last_message();
    return connection;
}

virConnectPtr lodge_connection_open(const char *uri, LodgeConnectionUse use, GError **error)
{
    g_autofree char *why = NULL;
    virConnectPtr connection = lodge_connection_try(uri, use, &why);

    if (!connection) {
        g_set_error(error, LODGE_ERROR, LODGE_ERROR_FAILED,
                    _("Cannot connect to “%s”: %s; “lodgectl doctor” tells what is missing"),
                    uri ? uri : LODGE_CONNECTION_DEFAULT, why);
    }
    return connection;
}

char *lodge_connection_version_text(unsigned long version)
{
    return g_strdup_printf("%lu.%lu.%lu", version / 1000000, version / 1000 % 1000, version % 1000);
}
