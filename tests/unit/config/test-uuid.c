/* SPDX-License-Identifier: GPL-3.0-or-later */
/* UUIDs in the forms that people write. */
#include "config/uuid.h"
#include "lib/tap.h"

#include <string.h>

static void test_forms(void)
{
    static const char *const same[] = {
        "00112233-4455-6677-8899-aabbccddeeff",
        "00112233445566778899AABBCCDDEEFF",
        " 00112233-4455-6677-8899-aabbccddeeff\n",
        "0011-2233-4455-6677-8899-aabb-ccdd-eeff",
    };

    for (gsize i = 0; i < G_N_ELEMENTS(same); i++) {
        guint8 uuid[LODGE_UUID_BYTES];
        g_autofree char *text = NULL;

        TAP_OK(lodge_uuid_parse(same[i], uuid));
        TAP_EQ(uuid[0], 0x00);
        TAP_EQ(uuid[15], 0xff);
        text = lodge_uuid_format(uuid);
        TAP_STR(text, same[0]);
    }
}

static void test_refused(void)
{
    static const char *const bad[] = {"",
                                      "00112233-4455-6677-8899-aabbccddeef",
                                      "00112233-4455-6677-8899-aabbccddeeff0",
                                      "00112233-4455-6677-8899-aabbccddeeff00",
                                      "00112233-4455-6677-8899-aabbccddeefg",
                                      "0 0112233445566778899aabbccddeeff",
                                      "{00112233-4455-6677-8899-aabbccddeeff}"};

    for (gsize i = 0; i < G_N_ELEMENTS(bad); i++) {
        guint8 uuid[LODGE_UUID_BYTES] = {9};

        TAP_OK(!lodge_uuid_parse(bad[i], uuid));
        TAP_EQ(uuid[0], 9);
    }
}

static void test_generated(void)
{
    guint8 one[LODGE_UUID_BYTES], other[LODGE_UUID_BYTES];

    lodge_uuid_generate(one);
    lodge_uuid_generate(other);
    TAP_OK(memcmp(one, other, sizeof(one)) != 0);
    TAP_EQ(one[6] >> 4, 4); /* RFC 4122, 4.1.3: random */
    TAP_EQ(one[8] >> 6, 2);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"config.uuid.forms", test_forms},
        {"config.uuid.refused", test_refused},
        {"config.uuid.generated", test_generated},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
