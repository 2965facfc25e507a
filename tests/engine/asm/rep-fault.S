/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * REP MOVSB, upwards and downwards, and REP STOSW whose element lies across the page's end, fault in
 * the middle: the registers say exactly how far they came, and after the handler has mapped the page
 * they go on from there.
 *
 *     start  long
 *     state  quad[counts]=91 quad[counts+8]=91 quad[counts+16]=96
 *     state  r8=WINDOW+0x1000 r9=source+9 r10=WINDOW+0x1fff r11=WINDOW+0x2fff
 *     state  byte[FRAMES+0xff7]=1 byte[FRAMES+0xfff]=9 byte[FRAMES+0x1000]=10 byte[FRAMES+0x105a]=100
 *     state  byte[FRAMES+0x2000]=92 byte[FRAMES+0x1fff]=91 byte[FRAMES+0x1fa5]=1
 *     state  quad[FRAMES+0x2ff0]=0x1122112211221100 quad[FRAMES+0x2ff8]=0x1122112211221122
 *     state  rcx=0
 */
#include "long.inc"

    page 0, FRAMES, P + W
    page 2, FRAMES + 0x2000, P + W

    begin
    handler 14, mapper
    mov ecx, 100
number:
    mov [rcx + source - 1], cl
    dec ecx
    jnz number
    mov esi, offset source
    mov edi, WINDOW + 0xff7
    mov ecx, 100
    rep movsb
    std
    and byte ptr [window_pt + 8], ~P
    invlpg [WINDOW + 0x1000]
    mov esi, offset source + 99
    mov edi, WINDOW + 0x2008
    mov ecx, 100
    rep movsb
    cld
    mov eax, 0x2211
    mov edi, WINDOW + 0x2ff1
    mov ecx, 103
    mov byte ptr [window_pt + 0x18], 0
    rep stosw
done:
    hlt

    /* Note where it stands, and map the page that is missing. */
mapper:
    mov eax, [calls]
    mov [rax * 8 + counts], rcx
    inc dword ptr [calls]
    cmp eax, 1
    cmovb r8, rdi
    cmovb r9, rsi
    cmove r10, rdi
    cmova r11, rdi
    mov rbx, cr2
    and ebx, 0x1ff000
    lea edx, [rbx + FRAMES + P + W]
    shr ebx, 9
    mov [rbx + window_pt], rdx
    mov eax, 0x2211
    add rsp, 8
    iretq

calls:
    .long 0
counts:
    .quad 0, 0, 0
source:
    .skip 100
