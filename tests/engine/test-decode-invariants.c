/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The decoder's invariants over random bytes and over every two-byte beginning. */
#include "engine/decode-invariants.h"
#include "lib/tap.h"

#include <string.h>

#define RANDOM_INSNS 300000u

static void check(enum soft_mode mode, const uint8_t *bytes, size_t available)
{
    const char *text = decode_invariants(mode, bytes, available);

    if (text)
        tap_fail(__FILE__, __LINE__, "mode %u: %02x %02x %02x %02x %02x %02x %02x: %s", mode,
                 bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], text);
}

static void test_random(void)
{
    static const uint8_t starts[] = {0x0f, 0x0f, 0xc4, 0xc5, 0x66, 0xf3, 0xf2, 0xf0, 0x67, 0x48};

    for (unsigned i = 0; i < RANDOM_INSNS && !tap_failed(); i++) {
        uint64_t noise[2] = {tap_rng(), tap_rng()};
        uint8_t bytes[16];

        memcpy(bytes, noise, sizeof(bytes));
        if (i & 1)
            bytes[0] = starts[tap_rng() % sizeof(starts)];
        check((enum soft_mode)(i % 3), bytes, i % 5 ? sizeof(bytes) : 1 + tap_rng() % 15);
    }
}

static void test_beginnings(void)
{
    for (unsigned i = 0; i < 3u << 16 && !tap_failed(); i++) {
        uint8_t bytes[16] = {(uint8_t)(i >> 8), (uint8_t)i, 0xc1, 0x90};

        check((enum soft_mode)(i >> 16), bytes, sizeof(bytes));
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.decode-invariants.random", test_random},
        {"engine.decode-invariants.beginnings", test_beginnings},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
