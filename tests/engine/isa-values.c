/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Values of registers and memory that find edges. */
#include "engine/isa-case.h"

#include "base/bits.h"
#include "cpu/state.h"

#include <string.h>

static uint64_t edge_value(struct isa_random *random)
{
    uint64_t noise = isa_random(random);

    switch (isa_random_below(random, 6)) {
    case 0:
        return noise & 0xff;
    case 1:
        return HV_BIT(noise & 63);
    case 2:
        return HV_BIT(noise & 63) - 1;
    case 3:
        return noise & 1 ? UINT64_MAX : 0;
    case 4:
        return (uint64_t)(int64_t)(int32_t)noise;
    default:
        return noise;
    }
}

/* Integers, floats near one and of all sizes, special values. */
static uint64_t vector_value(struct isa_random *random)
{
    static const uint64_t special[] = {0,
                                       0x8000000000000000,
                                       0x7ff0000000000000,
                                       0xfff8000000000000,
                                       0x3ff0000000000000,
                                       0x7f8000003f800000,
                                       0x0000000180000000,
                                       0x4023800043e00000};
    uint64_t noise = isa_random(random);

    switch (isa_random_below(random, 4)) {
    case 0:
        return special[noise % HV_ARRAY_LEN(special)];
    case 1: /* a double between 2^-15 and 2^16, or two floats of such sizes */
        return (noise & 0x801fffffffffffff) |
               (0x3f00000000000000 + (noise >> 8 & 0xf0000000000000));
    case 2:
        return (noise & 0x807fffff807fffff) | 0x3f0000003f000000;
    default:
        return noise;
    }
}

void isa_memory_fill(struct isa_random *random, uint8_t *sandbox)
{
    /* Made once, from a seed of its own; a sandbox is a piece of it. */
    static uint64_t pool[8 * ISA_SANDBOX_BYTES / 8];
    const unsigned pieces = HV_ARRAY_LEN(pool) - ISA_SANDBOX_BYTES / 8;
    struct isa_random own = {1};

    if (pool[0] == 0) {
        for (size_t i = 0; i < HV_ARRAY_LEN(pool); i++)
            pool[i] = isa_random(&own) & 1 ? vector_value(&own) : edge_value(&own);
        pool[0] |= 1;
    }
    memcpy(sandbox, &pool[isa_random_below(random, pieces)], ISA_SANDBOX_BYTES);
}

void isa_state_randomize(struct isa_random *random, struct isa_state *state)
{
    for (unsigned i = 0; i < 16; i++) {
        state->gpr[i] = edge_value(random);
        for (unsigned k = 0; k < 4; k++)
            hv_store_le(state->ymm[i] + (size_t)8 * k, vector_value(random), 8);
    }
    state->rflags = isa_random(random) & (HV_RFLAGS_ARITH | HV_RFLAGS_DF);
    /* All exceptions masked, any rounding; the sticky flags and those of the last compare free. */
    state->mxcsr = (uint32_t)(0x1f80 | (isa_random(random) & 0x603f));
    state->fcw =
        (uint16_t)(0x7f | (isa_random(random) & 0xc00) | (isa_random(random) & 1 ? 0x300 : 0x200));
    state->fsw = (uint16_t)(isa_random(random) & 0x7f00 & ~0x8080u);
    state->ftw = (uint8_t)isa_random(random);
    for (unsigned i = 0; i < 8; i++) {
        uint64_t exponent = 0x3ff0 + isa_random_below(random, 32);

        memset(state->st[i], 0, sizeof(state->st[i]));
        hv_store_le(state->st[i], isa_random(random) | HV_BIT(63), 8);
        hv_store_le(state->st[i] + 8, exponent | (isa_random(random) & 0x8000), 2);
    }
}
