/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Lists of CPUs, read and written; what is no list. */
#include "common/lodge-error.h"
#include "config/cpu-set.h"
#include "lib/tap.h"

#include <string.h>

static void test_read_and_written(void)
{
    static const struct {
        const char *given, *written;
    } lists[] = {
        {"0", "0"},
        {"0-3,^2,7", "0-1,3,7"},
        {"3,2,1", "1-3"},
        {" 5 , 6 ", "5-6"},
        {"255", "255"},
        {"0-255", "0-255"},
        {"63,64,65", "63-65"},
        {"^1,0-2", "0-2"}, /* in the order given */
    };

    for (gsize i = 0; i < G_N_ELEMENTS(lists); i++) {
        LodgeCpuSet set, again;
        g_autofree char *text = NULL;

        TAP_OK(lodge_cpu_set_parse(lists[i].given, &set, NULL));
        text = lodge_cpu_set_format(&set);
        TAP_STR(text, lists[i].written);
        TAP_OK(lodge_cpu_set_parse(text, &again, NULL));
        TAP_OK(memcmp(&set, &again, sizeof(set)) == 0);
    }
}

static void test_refused(void)
{
    static const char *const bad[] = {
        "",   ",",    "0,",   "a",    "-1",  "256", "3-1",
        "0-", "^0-1", "0,^0", "1--2", "0x1", "1 2", "99999999999999999999"};

    for (gsize i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;
        LodgeCpuSet set = {{7}};

        TAP_OK(!lodge_cpu_set_parse(bad[i], &set, &error));
        TAP_OK(g_error_matches(error, LODGE_ERROR, LODGE_ERROR_INPUT));
        TAP_OK(strstr(error->message, bad[i]) != NULL);
        TAP_EQ(set.word[0], 7);
    }
}

static void test_members(void)
{
    LodgeCpuSet set = {0}, other;

    TAP_OK(lodge_cpu_set_is_empty(&set));
    TAP_OK(lodge_cpu_set_parse("64,200", &other, NULL));
    lodge_cpu_set_unite(&set, &other);
    TAP_OK(lodge_cpu_set_has(&set, 64) && lodge_cpu_set_has(&set, 200));
    TAP_OK(!lodge_cpu_set_has(&set, 0) && !lodge_cpu_set_has(&set, 256));
    TAP_OK(!lodge_cpu_set_is_empty(&set));
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"config.cpu-set.read-and-written", test_read_and_written},
        {"config.cpu-set.refused", test_refused},
        {"config.cpu-set.members", test_members},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
