/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Bounded little-endian access to a file's bytes: a reader of hostile headers cannot run past the
 * end. Out of range reads as zero, and lodge_bytes_has() tells beforehand.
 */
#pragma once

#include <glib.h>

#include <string.h>

static inline gboolean lodge_bytes_has(GBytes *bytes, guint64 offset, guint64 length)
{
    guint64 size = g_bytes_get_size(bytes);

    return offset <= size && length <= size - offset;
}

/** Pointer to [offset, offset + length), or NULL when it is not all there. Borrowed from @bytes. */
static inline const guint8 *lodge_bytes_at(GBytes *bytes, guint64 offset, guint64 length)
{
    const guint8 *data = g_bytes_get_data(bytes, NULL);

    return lodge_bytes_has(bytes, offset, length) ? data + offset : NULL;
}

/** A number of @width (1 to 8) bytes; 0 when it is not all there. */
static inline guint64 lodge_bytes_number(GBytes *bytes, guint64 offset, guint width)
{
    const guint8 *at = lodge_bytes_at(bytes, offset, width);
    guint64 value = 0;

    if (at) {
        memcpy(&value, at, width);
    }
    return value;
}
