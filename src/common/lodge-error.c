/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The one table between errno and sentences. */
#include "common/lodge-error.h"

#include "common/i18n.h"

#include <errno.h>

G_DEFINE_QUARK(lodge - error - quark, lodge_error)

static const struct {
    int number;
    LodgeError code;
    const char *text;
} meanings[] = {
    {EINVAL, LODGE_ERROR_INPUT, N_("the value is not valid")},
    {ENOENT, LODGE_ERROR_INPUT, N_("there is no such thing")},
    {EEXIST, LODGE_ERROR_INPUT, N_("it exists already")},
    {ENOSPC, LODGE_ERROR_INPUT, N_("the limit is reached")},
    {EBUSY, LODGE_ERROR_FAILED, N_("the machine's state does not allow it now")},
    {EPERM, LODGE_ERROR_FAILED, N_("it is not allowed")},
    {ENOMEM, LODGE_ERROR_FAILED, N_("the host has not enough memory")},
    {EAGAIN, LODGE_ERROR_FAILED, N_("the host is short of a resource; try again")},
    {ENOTSUP, LODGE_ERROR_FAILED, N_("this host or engine cannot do it")},
    {ECANCELED, LODGE_ERROR_FAILED, N_("the machine is going away")},
    {EOVERFLOW, LODGE_ERROR_INPUT, N_("a size or count is out of range")},
    {EPROTO, LODGE_ERROR_FAILED, N_("the data is malformed")},
    {EIO, LODGE_ERROR_FAILED, N_("a device failed")},
    {ENOTCONN, LODGE_ERROR_FAILED, N_("the connection to the core is lost")},
    {ETIMEDOUT, LODGE_ERROR_FAILED, N_("it took too long")},
};

static gsize find(int negative_errno)
{
    gsize i = 0;

    while (i < G_N_ELEMENTS(meanings) && meanings[i].number != -negative_errno) {
        i++;
    }
    return i;
}

const char *lodge_errno_text(int negative_errno)
{
    gsize i = find(negative_errno);

    return i < G_N_ELEMENTS(meanings) ? _(meanings[i].text) : g_strerror(-negative_errno);
}

gboolean lodge_error_refuse(GError **error, const char *format, ...)
{
    g_autofree char *text = NULL;
    va_list args;

    va_start(args, format);
    text = g_strdup_vprintf(format, args);
    va_end(args);
    g_set_error_literal(error, LODGE_ERROR, LODGE_ERROR_INPUT, text);
    return FALSE;
}

void lodge_error_set_errno(GError **error, int negative_errno, const char *format, ...)
{
    gsize i = find(negative_errno);
    g_autofree char *context = NULL;
    va_list args;

    va_start(args, format);
    context = g_strdup_vprintf(format, args);
    va_end(args);
    g_set_error(error, LODGE_ERROR,
                i < G_N_ELEMENTS(meanings) ? meanings[i].code : LODGE_ERROR_FAILED, "%s: %s",
                context, lodge_errno_text(negative_errno));
}
