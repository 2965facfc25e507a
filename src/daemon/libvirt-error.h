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

/**
 * What goes over the wire.
 *
 * @text       room for the message's pointer, as XDR wants it.
 * @error_out  borrows from @error and @text.
 */
void lodge_libvirt_error_fill(const GError *error, lv_string *text, lv_error *error_out);
