/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What libvirt's error codes mean to the person at the command line. */
#include "cli/connection.h"

#include "common/i18n.h"

#include <libvirt/virterror.h>

/* What is to be done next is known by the kind of error; the cause is in the library's own words. */
static const LodgeConnectionMeaning meanings[] = {
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
    {LODGE_CONNECTION_GONE, LODGE_ERROR_FAILED,
     N_("the daemon has gone, or does not answer: “lodgectl doctor”")},
    {0},
};

gboolean lodge_connection_set_error(GError **error, const char *format, ...)
{
    g_autofree char *context = NULL;
    va_list args;

    va_start(args, format);
    context = g_strdup_vprintf(format, args);
    va_end(args);
    return lodge_connection_set_error_by(error, meanings, context);
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
