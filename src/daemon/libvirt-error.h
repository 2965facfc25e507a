/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Errors as libvirt's clients know them: by number. A GError of this domain has one of
 * <libvirt/virterror.h>; of the others, the one table is here.
 */
#pragma once

#include "wire/libvirt.h"

#include <glib.h>
#include <libvirt/virterror.h>

#define LODGE_LIBVIRT_ERROR (lodge_libvirt_error_quark())

GQuark lodge_libvirt_error_quark(void);

/** Set @error to this number and sentence. Returns FALSE, to be returned. */
gboolean lodge_refuse(GError **error, virErrorNumber number, const char *format, ...)
    G_GNUC_PRINTF(3, 4);

/* Of a message: what errors quote may be as long as a peer likes, and a message must fit the wire. */
#define LODGE_LIBVIRT_ERROR_BYTES_MAX 8192u

/**
 * What goes over the wire: the message is UTF-8, and cut at LODGE_LIBVIRT_ERROR_BYTES_MAX.
 *
 * @text       set to the message, for XDR to point at. Free with g_free() when @error_out is not used
 *             any more.
 * @error_out  borrows @text.
 */
void lodge_libvirt_error_fill(const GError *error, lv_string *text, lv_error *error_out);
