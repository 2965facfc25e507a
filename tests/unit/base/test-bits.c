/* SPDX-License-Identifier: GPL-3.0-or-later */
/* base/bits: parts of registers, at both ends of their ranges. */
#include "base/bits.h"

#include "lib/tap.h"

static void test_mask(void)
{
    TAP_EQ(hv_bytes_mask(1), 0xff);
    TAP_EQ(hv_bytes_mask(7), UINT64_MAX >> 8);
    TAP_EQ(hv_bytes_mask(8), UINT64_MAX);
    TAP_EQ(hv_bits(0xabcd, 4, 8), 0xbc);
    TAP_EQ(hv_bits(UINT64_MAX, 1, 63), UINT64_MAX >> 1);
}

static void test_bytes(void)
{
    const uint64_t value = UINT64_C(0x8877665544332211);

    TAP_EQ(hv_bytes_get(value, 0, 8), value);
    TAP_EQ(hv_bytes_get(value, 7, 1), 0x88);
    TAP_EQ(hv_bytes_get(value, 2, 4), 0x66554433);
    TAP_EQ(hv_bytes_put(value, 0, 8, 5), 5);
    TAP_EQ(hv_bytes_put(value, 7, 1, 0xff99), UINT64_C(0x9977665544332211));
    TAP_EQ(hv_bytes_put(value, 2, 2, UINT64_MAX), UINT64_C(0x88776655ffff2211));
}

/* What was put is read back, and nothing beside it has changed. */
static void test_bytes_apart(void)
{
    for (unsigned bytes = 1; bytes <= 8; bytes++) {
        for (unsigned offset = 0; offset + bytes <= 8; offset++) {
            uint64_t value = tap_rng(), part = tap_rng();
            uint64_t put = hv_bytes_put(value, offset, bytes, part);

            TAP_EQ(hv_bytes_get(put, offset, bytes), part & hv_bytes_mask(bytes));
            TAP_EQ(hv_bytes_put(put, offset, bytes, value >> offset * 8), value);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"base.bits.mask", test_mask},
        {"base.bits.bytes", test_bytes},
        {"base.bits.bytes-apart", test_bytes_apart},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
