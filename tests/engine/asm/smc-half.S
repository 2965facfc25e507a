/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Data beside code in one page, in one cache line: stores to it leave the code as it is, and the code
 * that reads it sees them.
 *
 *     start  long
 *     state  rax=5050 dword[counter]=0
 */
#include "long.inc"

    begin
    jmp turn
counter:
    .long 100
turn:
    add eax, [counter]
    dec dword ptr [counter]
    jnz turn
done:
    hlt
