/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * An instruction lies across two pages, and the second page is mapped to other memory: after INVLPG
 * its other half counts, and after a change back the old one.
 *
 *     start  long
 *     state  rax=0x2211 rbx=0x3311 rcx=0x2211
 */
#include "long.inc"

    page 0, FRAMES, P + W
    page 1, FRAMES + 0x1000, P + W

    begin
    mov edi, WINDOW + 0xffe
    mov word ptr [FRAMES + 0xffe], 0x11b8       /* mov eax, imm32; ret */
    mov dword ptr [FRAMES + 0x1000], 0xc3000022
    mov dword ptr [FRAMES + 0x2000], 0xc3000033
    call rdi
    mov esi, eax
    mov dword ptr [window_pt + 8], FRAMES + 0x2000 + P + W
    invlpg [WINDOW + 0x1000]
    call rdi
    mov ebx, eax
    mov dword ptr [window_pt + 8], FRAMES + 0x1000 + P + W
    invlpg [WINDOW + 0x1000]
    call rdi
    mov ecx, eax
    mov eax, esi
done:
    hlt
