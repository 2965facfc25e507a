/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a descriptor has loaded stays in the segment register when protected mode is left: a 4 GiB
 * limit for DS, and its base until the register is loaded; ES has kept 64 KiB.
 *
 *     start  real
 *     event  13 rip=limited-IMAGE
 *     state  rax=0x11223344 rbx=0x11223344 dword[0x300000]=0x11223344 rcx&0xffff=SEGMENT
 */
#include "real.inc"

    begin
    lgdt [gdt_register - IMAGE]
    mov eax, cr0
    or al, CR0_PE
    mov cr0, eax
    mov bx, 8
    mov ds, bx
    and al, ~CR0_PE
    mov cr0, eax
    mov ebx, 0x2ff000
    mov dword ptr [ebx], 0x11223344     /* base 1000h */
    xor ecx, ecx
    mov fs, cx
    mov cx, SEGMENT
    mov ds, cx
    mov ebx, 0x300000 - IMAGE
    mov ebx, [ebx]                      /* base 20000h now, the limit as it was */
    mov eax, 0x10000
    faults limited, mov es:[eax], ebx
    mov eax, ebx
done:
    hlt

gdt_register:
    .word 15
    .long gdt
gdt:
    .quad 0
    .quad 0x00cf93001000ffff
