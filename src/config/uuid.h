/* SPDX-License-Identifier: GPL-3.0-or-later */
/* UUIDs as libvirt's clients carry them: 16 bytes, in the order in which they are written. */
#pragma once

#include <glib.h>

#define LODGE_UUID_BYTES 16

/** Hexadecimal digits, with hyphens or white space anywhere between bytes. FALSE for any other. */
gboolean lodge_uuid_parse(const char *text, guint8 uuid_out[LODGE_UUID_BYTES]);
/** In lower case, 8-4-4-4-12. Free with g_free(). */
char *lodge_uuid_format(const guint8 uuid[LODGE_UUID_BYTES]);
/** A random one, of version 4. */
void lodge_uuid_generate(guint8 uuid_out[LODGE_UUID_BYTES]);
