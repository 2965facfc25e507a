/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A loop whose first instruction is changed by its last one: each turn adds what the turn before
 * wrote. 1 + 2 + … + 100; more changes than a block stays cached for.
 *
 *     start  long
 *     state  rax=5050 rcx=100
 */
#include "long.inc"

    begin
    xor ecx, ecx
turn:
    add eax, 1
    inc ecx
    lea edx, [ecx + 1]
    mov byte ptr [turn + 2], dl         /* add eax, imm8 */
    cmp ecx, 100
    jne turn
done:
    hlt
