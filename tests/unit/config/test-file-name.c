/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Names as file names: there and back, and never two the same. */
#include "config/file-name.h"
#include "config/text.h"
#include "lib/tap.h"

#include <string.h>

static void test_table(void)
{
    static const struct {
        const char *name, *encoded;
    } names[] = {
        {"web-01", "web-01"},     {"a.b_c", "a.b_c"},
        {".hidden", "%2ehidden"}, {"...", "%2e.."},
        {"Web", "%57eb"},         {"a b", "a%20b"},
        {"50%", "50%25"},         {"\u00fc\"", "%c3%bc%22"},
        {"u\u0308", "u%cc%88"}, /* the same letter to a reader, another name */
    };

    for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *encoded = lodge_file_name_encode(names[i].name);
        g_autofree char *decoded = lodge_file_name_decode(names[i].encoded);

        TAP_STR(encoded, names[i].encoded);
        TAP_STR(decoded, names[i].name);
    }
}

/* What no name is encoded as is somebody else's file. */
static void test_foreign(void)
{
    static const char *const foreign[] = {
        "",      "Web",   "a b", ".a", "a%",  "a%4",  "a%zz",  "%41%C3",   "%61",  "a%2Fb",
        "a%2fb", "a%00b", "%ff", "a~", "%2e", "%2e.", "a%0ab", "\xc3\xbc", "%20a", "a#b"};

    for (gsize i = 0; i < G_N_ELEMENTS(foreign); i++) {
        g_autofree char *name = lodge_file_name_decode(foreign[i]);

        if (name) {
            tap_fail(__FILE__, __LINE__, "\"%s\" is taken for the name \"%s\"", foreign[i], name);
            return;
        }
    }
}

/* Random names: back to the same, no longer than a file's name may be, in characters of any disk. */
static void test_random(void)
{
    static const char *const pieces[] = {"a",       "A",      "z",          "0",  ".",  "-",
                                         "_",       " ",      "%",          "2e", "\"", "\u00fc",
                                         "u\u0308", "\u65e5", "\U0001f600", "~",  "\\"};

    for (guint round = 0; round < 2000; round++) {
        g_autoptr(GString) name = g_string_new(NULL);
        g_autofree char *encoded = NULL;
        g_autofree char *decoded = NULL;

        for (guint i = tap_rng() % 20 + 1; i > 0; i--) {
            g_string_append(name, pieces[tap_rng() % G_N_ELEMENTS(pieces)]);
        }
        if (!lodge_text_check_name(name->str, NULL)) {
            continue;
        }
        encoded = lodge_file_name_encode(name->str);
        decoded = lodge_file_name_decode(encoded);
        TAP_STR(decoded, name->str);
        TAP_OK(strlen(encoded) + strlen(".autostart") <= 255);
        TAP_EQ(strspn(encoded, "abcdefghijklmnopqrstuvwxyz0123456789._-%"), strlen(encoded));
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"config.file-name.table", test_table},
        {"config.file-name.foreign", test_foreign},
        {"config.file-name.random", test_random},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
