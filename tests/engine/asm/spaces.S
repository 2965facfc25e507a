/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Two address spaces by turns: each load of CR3 gives data and code of the other window, at addresses
 * that were used a moment ago.
 *
 *     start  long
 *     state  rbx=0x12121212 rcx=0x12121212
 */
#include "long.inc"

    page 0, FRAMES, P + W
    second_space

    begin
    mov qword ptr [window_pt_2], FRAMES + 0x1000 + P + W
    mov dword ptr [FRAMES], 0xc301b0            /* mov al, imm8; ret */
    mov dword ptr [FRAMES + 0x1000], 0xc302b0
    mov esi, offset pml4
    mov edi, offset pml4_2
    mov edx, WINDOW
    mov ebp, 8
turn:
    mov cr3, rsi
    shl rbx, 4
    shl rcx, 4
    call rdx
    or bl, al
    or cl, [rdx + 1]
    xchg esi, edi
    dec ebp
    jnz turn
done:
    hlt
