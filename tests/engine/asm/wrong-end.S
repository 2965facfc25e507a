/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * It halts, and should shut down.
 *
 *     start  long
 *     end    shutdown
 */
#include "long.inc"

    begin
    mov eax, 1
done:
    hlt
