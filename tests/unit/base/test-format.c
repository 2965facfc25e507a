/* SPDX-License-Identifier: GPL-3.0-or-later */
/* base/format: cut, terminated, and honest about what was stored. */
#include "base/format.h"

#include "lib/tap.h"

static void test_fits(void)
{
    char text[16];

    TAP_EQ(hv_format(text, sizeof(text), "%s=%#x", "cr0", 0x31u), 8);
    TAP_STR(text, "cr0=0x31");
    TAP_EQ(hv_format(text, sizeof(text), "%s", ""), 0);
    TAP_STR(text, "");
}

static void test_cut(void)
{
    char text[8] = "xxxxxxx";

    TAP_EQ(hv_format(text, 5, "%s", "abcdef"), 4);
    TAP_STR(text, "abcd");
    TAP_EQ(text[5], 'x');
    TAP_EQ(hv_format(text, 1, "%s", "abcdef"), 0);
    TAP_STR(text, "");
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"base.format.fits", test_fits},
        {"base.format.cut", test_cut},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
