/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Names, paths and lines: see text.h. */
#include "config/text.h"

#include "common/i18n.h"
#include "common/lodge-error.h"

#include <string.h>

#define SHOWN_CHARACTERS 64

/* It breaks a line, moves the cursor, or turns the direction of what follows. */
static gboolean is_control(gunichar c)
{
    GUnicodeType type = g_unichar_type(c);

    return type == G_UNICODE_CONTROL || type == G_UNICODE_LINE_SEPARATOR ||
           type == G_UNICODE_PARAGRAPH_SEPARATOR || (c >= 0x202a && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069);
}

static void append_character(GString *to, gunichar c)
{
    if (is_control(c)) {
        g_string_append_printf(to, "<U+%04X>", c);
    } else {
        g_string_append_unichar(to, c);
    }
}

char *lodge_text_show(const char *text, guint max)
{
    GString *shown = g_string_new(NULL);
    const char *at = text;

    for (guint count = 0; *at != '\0' && count < max; count++) {
        append_character(shown, g_utf8_get_char(at));
        at = g_utf8_next_char(at);
    }
    if (*at != '\0') {
        g_string_append(shown, "…");
    }
    return g_string_free(shown, FALSE);
}

char *lodge_text_quote(const char *text)
{
    g_autofree char *shown = lodge_text_show(text, SHOWN_CHARACTERS);

    return g_strdup_printf("“%s”", shown);
}

/* How a person finds the character: by sight, by its name, or by its number alone. */
static char *character_name(gunichar c)
{
    GString *name = NULL;

    switch (c) {
    case '\n':
        return g_strdup(_("a line feed (U+000A)"));
    case '\r':
        return g_strdup(_("a carriage return (U+000D)"));
    case '\t':
        return g_strdup(_("a tab (U+0009)"));
    case ' ':
        return g_strdup(_("a space (U+0020)"));
    default:
        break;
    }
    if (is_control(c) || g_unichar_isspace(c)) {
        return g_strdup_printf(_("the invisible character U+%04X"), c);
    }
    name = g_string_new("“");
    append_character(name, c);
    g_string_append_printf(name, "” (U+%04X)", c);
    return g_string_free(name, FALSE);
}

static const char *find_control(const char *text)
{
    while (*text != '\0' && !is_control(g_utf8_get_char(text))) {
        text = g_utf8_next_char(text);
    }
    return *text != '\0' ? text : NULL;
}

/* "The name “a/b” holds “/” (U+002F), which no name may." */
static gboolean refuse_character(GError **error, const char *what, const char *text, const char *at)
{
    g_autofree char *quoted = lodge_text_quote(text);
    g_autofree char *character = character_name(g_utf8_get_char(at));

    return lodge_error_refuse(error, _("The %s %s holds %s, which it may not"), what, quoted,
                              character);
}

static gboolean refuse_name(GError **error, const char *name, const char *rule)
{
    g_autofree char *quoted = lodge_text_quote(name);

    return lodge_error_refuse(error, _("The name %s cannot be used: %s"), quoted, rule);
}

gboolean lodge_text_check_name(const char *name, GError **error)
{
    gsize bytes = strlen(name);
    const char *bad = NULL;
    const char *last;

    if (bytes == 0) {
        return lodge_error_refuse(error, _("The name is empty: give it at least one character"));
    }
    if (bytes > LODGE_NAME_BYTES_MAX) {
        g_autofree char *rule = g_strdup_printf(_("it has %zu bytes of UTF-8, and may have %d"),
                                                bytes, LODGE_NAME_BYTES_MAX);

        return refuse_name(error, name, rule);
    }
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return refuse_name(error, name, _("“.” and “..” are names of folders"));
    }
    bad = strchr(name, '/');
    if (!bad) {
        bad = find_control(name);
    }
    if (bad) {
        return refuse_character(error, _("name"), name, bad);
    }
    last = g_utf8_prev_char(name + bytes);
    if (g_unichar_isspace(g_utf8_get_char(name)) || g_unichar_isspace(g_utf8_get_char(last))) {
        return refuse_name(error, name, _("it begins or ends with a space, which nobody sees"));
    }
    return TRUE;
}

gboolean lodge_text_check_line(const char *what, const char *text, GError **error)
{
    const char *bad = find_control(text);

    return bad ? refuse_character(error, what, text, bad) : TRUE;
}

gboolean lodge_text_check_path(const char *what, const char *path, GError **error)
{
    if (path[0] != '/') {
        g_autofree char *quoted = lodge_text_quote(path);

        return lodge_error_refuse(error, _("The %s %s is not an absolute path: begin it with “/”"),
                                  what, quoted);
    }
    return lodge_text_check_line(what, path, error);
}
