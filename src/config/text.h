/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Names, paths and lines that a person gave: what may stand in them, and how they are shown when
 * something may not.
 *
 * Each check returns FALSE with LODGE_ERROR_INPUT, a sentence with the value, the character by
 * name, and the rule. Texts are valid UTF-8.
 */
#pragma once

#include <glib.h>

/* As long as the core takes them: hv/domain.h. Encoded as a file name it still fits everywhere. */
#define LODGE_NAME_BYTES_MAX 63

/** At most @max characters of @text, control characters as <U+000A>. Free with g_free(). */
char *lodge_text_show(const char *text, guint max);
/** A value in a message: 64 characters of it, in quotation marks. Free with g_free(). */
char *lodge_text_quote(const char *text);

/**
 * A machine's name: 1 to LODGE_NAME_BYTES_MAX bytes of any script, quotes and spaces included; no
 * "/", nothing that breaks or turns a line, no space at either end, and not "." or "..".
 */
gboolean lodge_text_check_name(const char *name, GError **error);

/** A path begins with "/" and holds no control character. @what names its role. */
gboolean lodge_text_check_path(const char *what, const char *path, GError **error);

/** One line: no control character. @what names its role. */
gboolean lodge_text_check_line(const char *what, const char *text, GError **error);
