/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Global pages: INVLPG drops them, and so do a change of CR4.PGE, and INVPCID of everything; with PGE
 * off the bit means nothing, and loading CR3 drops them.
 *
 *     start  long
 *     state  rbx=0x12345
 */
#include "long.inc"

    page 0, FRAMES + 0x1000, P + W + G

    .macro look
    shl rbx, 4
    or bl, [WINDOW]
    .endm
    .macro is frame
    mov qword ptr [window_pt], FRAMES + (\frame) * 0x1000 + P + W + G
    .endm

    begin
    mov ecx, 5
number:
    mov edi, ecx
    shl edi, 12
    mov [rdi + FRAMES], cl
    dec ecx
    jnz number
    look                                /* 1, with PGE off */
    is 2
    mov rax, cr3
    mov cr3, rax
    look                                /* 2 */
    set_cr 4, CR4_PGE
    look
    shr rbx, 4
    is 3
    invlpg [WINDOW]
    look                                /* 3 */
    is 4
    clear_cr 4, CR4_PGE
    set_cr 4, CR4_PGE
    look                                /* 4 */
    is 5
    mov eax, 2
    invpcid rax, [descriptor]
    look                                /* 5 */
done:
    hlt

descriptor:
    .quad 0, 0
