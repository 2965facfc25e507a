/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * An instruction lies across two pages; its half in the second page is changed, then the half in the
 * first, then both by one store that crosses itself.
 *
 *     start  long
 *     state  rax=0x11223344 rbx=0x11225544 rcx=0x11225566 rdx=0x11227788
 */
#include "long.inc"

    page 0, FRAMES, P + W
    page 1, FRAMES + 0x2000, P + W

    begin
    mov edi, WINDOW + 0xffe
    mov dword ptr [rdi], 0x223344b8     /* mov eax, imm32; ret */
    mov word ptr [rdi + 4], 0xc311
    call rdi
    mov esi, eax
    mov byte ptr [WINDOW + 0x1000], 0x55
    call rdi
    mov ebx, eax
    mov byte ptr [WINDOW + 0xfff], 0x66
    call rdi
    mov ecx, eax
    mov word ptr [WINDOW + 0xfff], 0x7788
    call rdi
    mov edx, eax
    mov eax, esi
done:
    hlt
