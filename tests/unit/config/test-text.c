/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Names and paths: which are taken, and what is said of the others. */
#include "common/lodge-error.h"
#include "config/text.h"
#include "lib/tap.h"

#include <string.h>

static void test_names_taken(void)
{
    static const char *const good[] = {
        "web-01",
        "Ünï 日本 \"x\"",
        "it's <so> & so",
        "...",
        ".hidden",
        "%41",
        "a\\b",
        "👩\u200d💻", /* joined by U+200D, which a script may need */
        "123456789012345678901234567890123456789012345678901234567890123",
    };

    for (gsize i = 0; i < G_N_ELEMENTS(good); i++) {
        g_autoptr(GError) error = NULL;

        TAP_OK(lodge_text_check_name(good[i], &error));
        TAP_OK(error == NULL);
    }
}

static void test_names_refused(void)
{
    static const struct {
        const char *name, *said;
    } bad[] = {
        {"", "The name is empty"},
        {".", "names of folders"},
        {"..", "names of folders"},
        {"a/b", "“a/b” holds “/” (U+002F)"},
        {"a\nb", "“a<U+000A>b” holds a line feed (U+000A)"},
        {"a\rb", "a carriage return (U+000D)"},
        {"a\tb", "a tab (U+0009)"},
        {"a\033[2Jb", "the invisible character U+001B"},
        {"a\177", "the invisible character U+007F"},
        {"a\xc2\x85"
         "b",
         "the invisible character U+0085"},
        {"a\u2028b", "the invisible character U+2028"},
        {"gpj.\u202egnp", "the invisible character U+202E"},
        {" a", "begins or ends with a space"},
        {"a ", "begins or ends with a space"},
        {"a\u3000", "begins or ends with a space"},
        {"1234567890123456789012345678901234567890123456789012345678901234",
         "has 64 bytes of UTF-8, and may have 63"},
    };

    for (gsize i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;

        TAP_OK(!lodge_text_check_name(bad[i].name, &error));
        TAP_OK(g_error_matches(error, LODGE_ERROR, LODGE_ERROR_INPUT));
        if (!strstr(error->message, bad[i].said)) {
            TAP_STR(error->message, bad[i].said);
        }
    }
}

static void test_paths(void)
{
    g_autoptr(GError) relative = NULL;
    g_autoptr(GError) empty = NULL;
    g_autoptr(GError) broken = NULL;

    TAP_OK(lodge_text_check_path("kernel", "/boot/ä b", NULL));
    TAP_OK(!lodge_text_check_path("kernel", "boot/vmlinuz", &relative));
    TAP_STR(relative->message,
            "The kernel “boot/vmlinuz” is not an absolute path: begin it with “/”");
    TAP_OK(!lodge_text_check_path("kernel", "", &empty));
    TAP_OK(!lodge_text_check_path("kernel", "/boot/\n", &broken));
    TAP_OK(strstr(broken->message, "a line feed") != NULL);
}

/* However long and strange a value is, a message stays short and on one line. */
static void test_quote(void)
{
    g_autofree char *large = g_strnfill(100000, 'x');
    g_autofree char *cut = lodge_text_quote(large);
    g_autofree char *strange = lodge_text_quote("\033\n\u202e");

    TAP_EQ(g_utf8_strlen(cut, -1), 64 + 3);
    TAP_OK(g_str_has_suffix(cut, "x…”"));
    TAP_STR(strange, "“<U+001B><U+000A><U+202E>”");
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"config.text.names-taken", test_names_taken},
        {"config.text.names-refused", test_names_refused},
        {"config.text.paths", test_paths},
        {"config.text.quote", test_quote},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
