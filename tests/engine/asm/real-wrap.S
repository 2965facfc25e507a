/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Real mode: 16-bit addresses wrap within the segment, a word at FFFFh does not (vector 13, or 12 in
 * the stack segment), 32-bit addresses beyond 64 KiB do not reach; a jump beyond FFFFh faults where it
 * stands; segment and offset reach past 1 MiB.
 *
 *     start  real
 *     event  13 rip=word-IMAGE cs=SEGMENT
 *     event  12 rip=stack_word-IMAGE
 *     event  13 rip=far_away-IMAGE
 *     event  13 rip=jump-IMAGE
 *     event  13 rip=string-IMAGE
 *     state  rbx=0xffff rdx&0xff=0x55 rcx&0xffff=0 rdi&0xffff=0xffff rsi&0xff=0x77
 *     state  word[IMAGE]=0x6666 word[IMAGE+0xfffe]=0x6666
 */
#include "real.inc"

    begin
    mov word ptr [1], 0x55              /* of the image: the first stubs */
    mov bx, 0xffff
    mov si, 2
    mov dl, [bx + si]
    faults word, mov ax, [bx]
    mov bp, bx
    faults stack_word, mov ax, [bp]
    mov eax, 0x10000
    faults far_away, mov al, [eax]
    faults jump, jmp eax
    mov di, 0xfffe
    mov cx, 2
    cld
    mov ax, 0x6666
    rep stosw                           /* the second one at 0 */
    dec di
    sub di, 2
    faults string, stosw
    mov ax, 0xffff
    mov es, ax
    mov byte ptr es:[0x10], 0x77        /* at 1 MiB */
    mov esi, es:[0x10]
done:
    hlt
