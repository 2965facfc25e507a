/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sizes as people write them, and what is refused. */
#include "common/lodge-error.h"
#include "common/units.h"
#include "lib/tap.h"

#include <errno.h>
#include <string.h>

static void test_parse(void)
{
    static const struct {
        const char *text;
        guint64 bytes;
    } good[] = {{"512", 512u << 20},
                {"512M", 512u << 20},
                {"4K", 4096},
                {"0", 0},
                {"1G", 1u << 30},
                {"3g", 3ull << 30},
                {"17592186044415", 0xffffffffffful << 20}};

    for (gsize i = 0; i < G_N_ELEMENTS(good); i++) {
        guint64 bytes = 1;

        TAP_OK(lodge_parse_memory(good[i].text, &bytes, NULL));
        TAP_EQ(bytes, good[i].bytes);
    }
}

static void test_refuse(void)
{
    static const char *const bad[] = {"",
                                      "-1",
                                      "abc",
                                      "1T",
                                      "1MB",
                                      "1.5G",
                                      " 1",
                                      "0x10",
                                      "17592186044416",
                                      "99999999999999999999999",
                                      "17179869184G"};

    for (gsize i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;
        guint64 bytes = 7;

        TAP_OK(!lodge_parse_memory(bad[i], &bytes, &error));
        TAP_OK(g_error_matches(error, LODGE_ERROR, LODGE_ERROR_INPUT));
        TAP_OK(strstr(error->message, bad[i]) != NULL);
        TAP_EQ(bytes, 7);
    }
}

static void test_format(void)
{
    g_autofree char *gib = lodge_format_bytes(2ull << 30);
    g_autofree char *mib = lodge_format_bytes(3u << 20);
    g_autofree char *odd = lodge_format_bytes(1025);

    TAP_STR(gib, "2 GiB");
    TAP_STR(mib, "3 MiB");
    TAP_STR(odd, "1025 bytes");
}

static void test_errno(void)
{
    g_autoptr(GError) input = NULL;
    g_autoptr(GError) failure = NULL;

    lodge_error_set_errno(&input, -EINVAL, "%s", "Thing");
    lodge_error_set_errno(&failure, -ENOMEM, "%s", "Thing");
    TAP_OK(g_error_matches(input, LODGE_ERROR, LODGE_ERROR_INPUT));
    TAP_OK(g_error_matches(failure, LODGE_ERROR, LODGE_ERROR_FAILED));
    TAP_STR(failure->message, "Thing: the host has not enough memory");
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"common.units.parse", test_parse},
        {"common.units.refuse", test_refuse},
        {"common.units.format", test_format},
        {"common.error.errno", test_errno},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
