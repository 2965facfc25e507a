/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * It never ends.
 *
 *     start  long
 *     insns  100
 *     state  rax=1
 */
#include "long.inc"

    begin
    mov eax, 1
for_ever:
    jmp for_ever
done:
    hlt
