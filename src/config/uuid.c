/* SPDX-License-Identifier: GPL-3.0-or-later */
/* UUIDs: see uuid.h. */
#include "config/uuid.h"

#include <string.h>

gboolean lodge_uuid_parse(const char *text, guint8 uuid_out[LODGE_UUID_BYTES])
{
    guint8 uuid[LODGE_UUID_BYTES];
    guint bytes = 0;

    while (*text != '\0') {
        int high, low;

        if (*text == '-' || g_ascii_isspace(*text)) {
            text++;
            continue;
        }
        high = g_ascii_xdigit_value(text[0]);
        low = high >= 0 ? g_ascii_xdigit_value(text[1]) : -1;
        if (low < 0 || bytes == LODGE_UUID_BYTES) {
            return FALSE;
        }
        uuid[bytes++] = (guint8)(high << 4 | low);
        text += 2;
    }
    if (bytes != LODGE_UUID_BYTES) {
        return FALSE;
    }
    memcpy(uuid_out, uuid, sizeof(uuid));
    return TRUE;
}

char *lodge_uuid_format(const guint8 uuid[LODGE_UUID_BYTES])
{
    GString *text = g_string_sized_new(36);

    for (guint i = 0; i < LODGE_UUID_BYTES; i++) {
        g_string_append_printf(text, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
                               uuid[i]);
    }
    return g_string_free(text, FALSE);
}

void lodge_uuid_generate(guint8 uuid_out[LODGE_UUID_BYTES])
{
    g_autofree char *text = g_uuid_string_random();
    gboolean parsed = lodge_uuid_parse(text, uuid_out);

    g_assert(parsed);
}
