/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The table of next steps. */
#include "app/model/failure.h"

#include "common/i18n.h"

#include <libvirt/virterror.h>

static const LodgeConnectionMeaning meanings[] = {
    {VIR_ERR_NO_DOMAIN, LODGE_ERROR_INPUT, N_("somebody else has deleted it")},
    {VIR_ERR_DOM_EXIST, LODGE_ERROR_INPUT, N_("choose another name, or delete the other machine")},
    {VIR_ERR_XML_ERROR, LODGE_ERROR_INPUT, N_("change its definition")},
    {VIR_ERR_XML_DETAIL, LODGE_ERROR_INPUT, N_("change its definition")},
    {VIR_ERR_CONFIG_UNSUPPORTED, LODGE_ERROR_INPUT, N_("change its definition")},
    {VIR_ERR_NO_SUPPORT, LODGE_ERROR_FAILED, N_("this connection’s hypervisor cannot do it")},
    {VIR_ERR_NO_MEMORY, LODGE_ERROR_FAILED, N_("stop other machines, or give it less memory")},
    {VIR_ERR_OPERATION_DENIED, LODGE_ERROR_FAILED, N_("connect as a user who may")},
    {VIR_ERR_AUTH_FAILED, LODGE_ERROR_FAILED, N_("connect as a user who may")},
    {LODGE_CONNECTION_GONE, LODGE_ERROR_FAILED, N_("try again when the daemon is back")},
    {0},
};

gboolean lodge_failure_set(GError **error, const char *format, ...)
{
    g_autofree char *context = NULL;
    va_list args;

    va_start(args, format);
    context = g_strdup_vprintf(format, args);
    va_end(args);
    return lodge_connection_set_error_by(error, meanings, context);
}
