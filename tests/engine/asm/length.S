/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Instructions of 15 bytes run; with one prefix more it is #GP, also when the last byte that counts is
 * the last of a page and nothing is behind it; with the fifteenth byte missing it is #PF.
 *
 *     start  long
 *     event  #GP error=0 rip=too_long
 *     event  #GP error=0 rip=WINDOW+0xff1
 *     event  #PF error=0x10 rip=WINDOW+0xff2 cr2=WINDOW+0x1000
 *     state  rax=5
 */
#include "long.inc"

    page 0, FRAMES, P + W

    begin
    .fill 14, 1, 0x66
    nop
    mov eax, 5
    resume_at next
too_long:
    .fill 15, 1, 0x66
    nop
next:
    mov edi, WINDOW + 0xff0
    mov ecx, 16
    mov al, 0x66
    rep stosb
    mov eax, 5
    mov edi, WINDOW + 0xff1
    resume_at shorter
    jmp rdi
shorter:
    inc edi
    resume_at done
    jmp rdi
done:
    hlt
