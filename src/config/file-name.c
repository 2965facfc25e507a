/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Machines' names as file names: see file-name.h. */
#include "config/file-name.h"

#include "config/text.h"

#include <string.h>

char *lodge_file_name_encode(const char *name)
{
    GString *encoded = g_string_sized_new(strlen(name));

    for (const char *at = name; *at != '\0'; at++) {
        gboolean plain = g_ascii_islower(*at) || g_ascii_isdigit(*at) || strchr("-_", *at) ||
                         (*at == '.' && at != name);

        if (plain) {
            g_string_append_c(encoded, *at);
        } else {
            g_string_append_printf(encoded, "%%%02x", (guint)(guint8)*at);
        }
    }
    return g_string_free(encoded, FALSE);
}

char *lodge_file_name_decode(const char *encoded)
{
    g_autofree char *name = g_uri_unescape_string(encoded, NULL);
    g_autofree char *again = NULL;

    if (!name || !g_utf8_validate(name, -1, NULL) || !lodge_text_check_name(name, NULL)) {
        return NULL;
    }
    /* Digits in upper case, and letters that need none, are somebody else's. */
    again = lodge_file_name_encode(name);
    return strcmp(again, encoded) == 0 ? g_steal_pointer(&name) : NULL;
}
