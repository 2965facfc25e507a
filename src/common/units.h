/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sizes as people write them. */
#pragma once

#include <glib.h>

/**
 * Parse a memory size: digits and an optional K, M or G (binary); bare numbers are MiB.
 *
 * @text       borrowed.
 * @bytes_out  set on success.
 *
 * Returns FALSE with LODGE_ERROR_INPUT naming @text when it is no number, has another suffix, or is
 * beyond 64 bits of bytes.
 */
gboolean lodge_parse_memory(const char *text, guint64 *bytes_out, GError **error);

/** A size for a message: the largest unit that divides it, e.g. "512 MiB". Free with g_free(). */
char *lodge_format_bytes(guint64 bytes);

/** A size for a table, to three digits or more: "950 KiB", "1.50 GiB". Free with g_free(). */
char *lodge_format_rough_bytes(guint64 bytes);

/** A span for a table, to three digits or more: "950ns", "1.34ms", "12.3s". Free with g_free(). */
char *lodge_format_span(guint64 ns);
