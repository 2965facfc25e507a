/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Errors that quote what a peer wrote: whatever that is, they fit the wire, as text. */
#include "lib/tap.h"

#include "common/lodge-error.h"
#include "daemon/libvirt-error.h"
#include "wire/message.h"

#include <string.h>

/* The message of an error that says @said, as a client would read it. It does encode. */
static void carry(const char *said, char **text_out)
{
    g_autoptr(GError) error = g_error_new_literal(LODGE_ERROR, LODGE_ERROR_INPUT, said);
    const LodgeMessageHeader header = {.program = LV_REMOTE, .status = LODGE_MESSAGE_ERROR};
    g_autoptr(GBytes) encoded = NULL;
    lv_error wire;

    lodge_libvirt_error_fill(error, text_out, &wire);
    encoded = lodge_message_encode(&header, (xdrproc_t)xdr_lv_error, &wire, NULL);
    TAP_OK(encoded != NULL);
    TAP_EQ(wire.code, VIR_ERR_INVALID_ARG);
    TAP_OK(*wire.message == *text_out);
    TAP_OK(g_utf8_validate(*text_out, -1, NULL));
    TAP_OK(strlen(*text_out) <= LODGE_LIBVIRT_ERROR_BYTES_MAX);
}

static char *repeat(const char *piece, gsize times)
{
    GString *all = g_string_new(NULL);

    while (times-- > 0) {
        g_string_append(all, piece);
    }
    return g_string_free(all, FALSE);
}

static void test_cut(void)
{
    static const struct {
        const char *piece;
        gsize left; /* bytes of whole characters that fit */
    } texts[] = {{"x", 8192}, {"ä", 8192}, {"€", 8190}, {"😀", 8192}};

    for (gsize i = 0; i < G_N_ELEMENTS(texts); i++) {
        gsize bytes = strlen(texts[i].piece);
        g_autofree char *fits = repeat(texts[i].piece, LODGE_LIBVIRT_ERROR_BYTES_MAX / bytes);
        g_autofree char *longer = g_strconcat(fits, texts[i].piece, NULL);
        g_autofree char *longest = repeat(texts[i].piece, LV_STRING_MAX / bytes + 1);
        g_autofree char *whole = NULL, *cut = NULL, *cut_much = NULL;

        carry(fits, &whole);
        carry(longer, &cut);
        carry(longest, &cut_much);
        TAP_STR(whole, fits);
        TAP_EQ(strlen(cut), texts[i].left);
        TAP_STR(cut, cut_much);
    }
}

static void test_not_utf8(void)
{
    g_autofree char *bytes = repeat("\x80", LV_STRING_MAX + 1);
    g_autofree char *starts = repeat("\xf0", LV_STRING_MAX + 1);
    g_autofree char *short_text = NULL, *continued = NULL, *started = NULL;

    carry("boot\xf0", &short_text);
    carry(bytes, &continued);
    carry(starts, &started);
    TAP_STR(short_text, "boot\xef\xbf\xbd");
    TAP_EQ(strlen(continued), 8190);
    TAP_STR(continued, started);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"daemon.libvirt-error.cut", test_cut},
        {"daemon.libvirt-error.not-utf8", test_not_utf8},
    };

    return tap_run(argc, argv, cases, G_N_ELEMENTS(cases));
}
