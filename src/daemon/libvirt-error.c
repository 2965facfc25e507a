/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From GError to libvirt's error. */
#include "daemon/libvirt-error.h"

#include "common/lodge-error.h"

#include <string.h>

G_DEFINE_QUARK(lodge - libvirt - error - quark, lodge_libvirt_error)

gboolean lodge_refuse(GError **error, virErrorNumber number, const char *format, ...)
{
    g_autofree char *text = NULL;
    va_list args;

    va_start(args, format);
    text = g_strdup_vprintf(format, args);
    va_end(args);
    g_set_error_literal(error, LODGE_LIBVIRT_ERROR, (gint)number, text);
    return FALSE;
}

static int number_of(const GError *error)
{
    if (error->domain == LODGE_LIBVIRT_ERROR) {
        return error->code;
    }
    if (g_error_matches(error, LODGE_ERROR, LODGE_ERROR_INPUT)) {
        return VIR_ERR_INVALID_ARG;
    }
    return VIR_ERR_OPERATION_FAILED;
}

/* The beginning, up to a whole character. */
static char *bound(const char *message)
{
    gsize bytes = strnlen(message, LODGE_LIBVIRT_ERROR_BYTES_MAX + 1);
    char *valid = g_utf8_make_valid(message, (gssize)bytes);
    gsize cut = LODGE_LIBVIRT_ERROR_BYTES_MAX;

    if (strlen(valid) > cut) {
        while (((guchar)valid[cut] & 0xc0) == 0x80) {
            cut--;
        }
        valid[cut] = '\0';
    }
    return valid;
}

void lodge_libvirt_error_fill(const GError *error, lv_string *text, lv_error *error_out)
{
    *text = bound(error->message);
    /* Some of libvirt's own domains make its clients print or do other things. */
    *error_out = (lv_error){
        .code = number_of(error),
        .domain = VIR_FROM_NONE,
        .message = text,
        .level = VIR_ERR_ERROR,
    };
}
