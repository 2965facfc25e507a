/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Code is changed through another linear address of the same memory, and runs at both: blocks belong
 * to physical memory, not to the address they were met at.
 *
 *     start  long
 *     state  rax=7 rbx=8 rcx=9 rdx=1
 */
#include "long.inc"

    page 0, FRAMES, P + W
    page 1, FRAMES, P + W

    begin
    mov dword ptr [FRAMES], 0xc301b0    /* mov al, 1; ret */
    call first
    mov edx, eax
    mov byte ptr [WINDOW + 1], 7        /* while both addresses have been run at */
    call first
    mov esi, eax
    mov byte ptr [WINDOW + 0x1001], 8
    call first
    mov ebx, eax
    mov byte ptr [FRAMES + 1], 9
    call second
    mov ecx, eax
    mov eax, esi
done:
    hlt
first:
    mov edi, WINDOW
    call rdi
    mov edi, WINDOW + 0x1000
    jmp rdi
second:
    mov edi, WINDOW + 0x1000
    call rdi
    mov edi, WINDOW
    jmp rdi
