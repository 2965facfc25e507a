/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * From real mode to 32-bit protected mode, with PAE into compatibility mode, on to 64-bit mode, and
 * all the way back: each step is told by what an instruction means there.
 *
 *     start  real
 *     state  rdx=0x7f00000042 rcx&0xffff=0x1234 rbx=0x11 rsi=0x8765 rdi=0x22 efer&0x500=0x100
 *     state  cr0&CR0_PE+CR0_PG=0 cs=SEGMENT cpl=0
 */
#include "real.inc"

    .set CODE32, 8
    .set DATA, 16
    .set CODE64, 24
    .set CODE16, 32

    .macro far_jump selector, label, size
    .byte 0xea
    .\size \label
    .word \selector
    .endm

    begin
    mov cx, 0x1234
    lgdt [gdt_register - IMAGE]
    mov eax, cr0
    or al, CR0_PE
    mov cr0, eax
    .byte 0x66
    far_jump CODE32, protected, long
    .code32
protected:
    mov eax, DATA
    mov ds, eax
    mov ss, eax
    mov bl, 0x11
    movzx ebx, bl
    mov eax, offset pml4
    mov cr3, eax
    mov eax, cr4
    or eax, CR4_PAE
    mov cr4, eax
    mov edi, ecx
    mov ecx, MSR_EFER
    mov eax, EFER_LME
    xor edx, edx
    wrmsr
    mov ecx, edi
    mov eax, cr0
    or eax, CR0_PG
    mov cr0, eax
    /* Compatibility mode: 40h is INC. */
    mov eax, 0x41
    inc eax
    far_jump CODE64, in_long, long
    .code64
in_long:
    mov edx, eax
    mov rdi, 0x7f00000000
    or rdx, rdi
    .byte 0x40                          /* a prefix here */
    mov sil, 0x65
    jmp qword ptr [rip + 1f]
1:  .quad high
high:
    mov esi, 0x8765
    .byte 0xff, 0x2c, 0x25              /* JMP far [absolute] */
    .long pointer
    .code32
compatible:
    mov eax, cr0
    and eax, ~CR0_PG
    mov cr0, eax
    mov edi, 0x21
    .byte 0x47                          /* INC EDI again, no prefix */
    far_jump CODE16, in_16, long
    .code16
in_16:
    mov eax, cr0
    and al, ~CR0_PE
    mov cr0, eax
    far_jump SEGMENT, real-IMAGE, word
real:
done:
    hlt

pointer:
    .long compatible
    .word CODE32
gdt_register:
    .word 39
    .long gdt
    .balign 8
gdt:
    .quad 0
    .quad 0x00cf9b000000ffff            /* CODE32 */
    .quad 0x00cf93000000ffff            /* DATA */
    .quad 0x00af9b000000ffff            /* CODE64 */
    .quad 0x000f9b000000ffff            /* CODE16 */

    .section .tables, "aw"
    .balign 4096
pml4:
    .quad pdpt + 3
    .fill 511, 8, 0
pdpt:
    .quad pd + 3
    .fill 511, 8, 0
pd:
    .quad 0x83
