/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The decoder under libFuzzer: the first byte chooses the mode, the rest is the instruction. A broken
 * invariant traps; memory errors are the sanitizers' business.
 */
#include "engine/decode-invariants.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes;

    if (size < 1) {
        return 0;
    }
    /* A copy of exactly this size, so that a read beyond it is seen. */
    bytes = malloc(size - 1);
    if (!bytes && size > 1) {
        return 0;
    }
    memcpy(bytes, data + 1, size - 1);
    if (decode_invariants((enum soft_mode)(data[0] % 3), bytes, size - 1))
        __builtin_trap();
    free(bytes);
    return 0;
}
