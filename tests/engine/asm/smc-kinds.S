/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Code is changed by every kind of store: locked, exchanging, bit, MMX, vector, x87, string.
 *
 *     start  long
 *     state  rbx=0x123456789
 */
#include "long.inc"

    .macro again
    call function
    shl rbx, 4
    or bl, al
    .endm

    begin
    call function
    lock inc byte ptr [function + 1]
    again
    mov dl, 2
    xchg byte ptr [function + 1], dl
    again
    mov dl, 3
    lock cmpxchg byte ptr [function + 1], dl
    again
    mov dl, 1
    lock xadd byte ptr [function + 1], dl
    again
    lock bts dword ptr [function], 8
    again
    movd xmm0, dword ptr [six]
    movd dword ptr [function], xmm0
    again
    movups xmm0, [seven]
    movups [function], xmm0
    again
    fild word ptr [eight + 1]
    fistp word ptr [function + 1]
    again
    mov edi, offset function
    mov eax, 0x90c309b0
    stosd
    again
done:
    hlt

    .balign 16
function:
    mov al, 0
    ret
    .balign 16
six:
    mov al, 6
    ret
    .balign 16
seven:
    mov al, 7
    ret
    .balign 16
eight:
    mov al, 8
    ret
    .balign 16
