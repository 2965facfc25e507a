/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The source of a REP MOVSQ ends in the middle of an element: that element is not begun. A repeat of
 * no iterations touches neither place, whatever the registers hold.
 *
 *     start  long
 *     event  #PF error=0 rip=copy cr2=WINDOW+0x1000
 *     state  rcx=0 rsi=WINDOW+0xffc rdi=FRAMES+0x1010 r8=3 r9=WINDOW+0xffc
 *     state  quad[FRAMES+0x1000]=0x1111111111111111 quad[FRAMES+0x1010]=0x3333333333333333
 */
#include "long.inc"

    page 0, FRAMES, P + W

    begin
    mov ecx, 0xfec
    mov al, 0x22
    mov edi, FRAMES
    rep stosb
    mov ecx, 8
    mov al, 0x11
    rep stosb                           /* FECh to FF3h */
    mov rax, 0x3333333333333333
    mov [FRAMES + 0x1010], rax
    mov esi, WINDOW + 0xfec
    mov edi, FRAMES + 0x1000
    mov ecx, 5
    faults copy, rep movsq
    mov r8, rcx
    mov r9, rsi
    xor ecx, ecx
    rep movsb
    xchg rsi, rdi
    rep movsb
    rep stosb
    xchg rsi, rdi
done:
    hlt
