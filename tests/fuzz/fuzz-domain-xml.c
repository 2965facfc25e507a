/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Domain XML under libFuzzer: refused with an error, or read, written and read as the same. */
#include "../unit/config/domain-invariants.h"

#include <stdint.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* A copy of exactly this size, so that a read beyond it is seen. */
    g_autofree char *xml = g_memdup2(data, size);
    g_autofree char *wrong = domain_invariants_check(xml ? xml : "", size);

    if (wrong) {
        fprintf(stderr, "%s\n", wrong);
        __builtin_trap();
    }
    return 0;
}
