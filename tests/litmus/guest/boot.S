/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * From 32-bit protected mode, or a start-up IPI, to 64-bit C. Below 4 GiB every address is itself, in
 * pages of 2 MiB, but for the window.
 */
#include "layout.h"

        .macro enter_long label
        mov $DATA, %ax
        mov %ax, %ds
        mov %ax, %es
        mov %ax, %ss
        mov $level4, %eax
        mov %eax, %cr3
        mov $0x6a0, %eax                /* PAE, PGE, OSFXSR, OSXMMEXCPT */
        mov %eax, %cr4
        mov $0xc0000080, %ecx
        mov $0x900, %eax                /* LME, NXE */
        xor %edx, %edx
        wrmsr
        mov $0x80010033, %eax           /* PG, WP, NE, ET, MP, PE */
        mov %eax, %cr0
        ljmp $CODE64, $\label
        .endm

        .section .entry, "ax"
        .code32
        .globl entry
entry:
        cli
        lgdt gdt_pointer
        ljmp $CODE32, $1f
1:      enter_long first_long

        .text
        .code64
first_long:
        mov $(stacks + STACK_BYTES), %rsp
        call machine_main
2:      cli
        hlt
        jmp 2b

/* Copied to TRAMPOLINE. */
        .globl trampoline, trampoline_end
        .code16
trampoline:
        cli
        mov $(TRAMPOLINE >> 4), %ax
        mov %ax, %ds
        lgdtl (trampoline_gdt - trampoline)
        mov %cr0, %eax
        or $1, %al
        mov %eax, %cr0
        ljmpl $CODE32, $started
trampoline_gdt:
        .word gdt_end - gdt - 1
        .long gdt
trampoline_end:

        .code32
started:
        enter_long started_long
        .code64
started_long:
        /* The local APIC's id is the CPU's number. */
        mov $LAPIC, %eax
        mov 0x20(%rax), %edi
        shr $24, %edi
        lea 1(%rdi), %eax
        imul $STACK_BYTES, %eax, %eax
        lea stacks(%rax), %rsp
        call machine_started
3:      cli
        hlt
        jmp 3b

        .data
        .balign 8
gdt:
        .quad 0
        .quad 0x00cf9b000000ffff        /* CODE32 */
        .quad 0x00cf93000000ffff        /* DATA */
        .quad 0x00af9b000000ffff        /* CODE64 */
gdt_end:
gdt_pointer:
        .word gdt_end - gdt - 1
        .long gdt

        .balign 4096
level4:
        .quad level3 + 3
        .fill 511, 8, 0
level3:
        .set table, 0
        .rept 4
        .quad level2 + 4096 * table + 3
        .set table, table + 1
        .endr
        .fill 508, 8, 0
level2:
        .set page, 0
        .rept 2048
        .if page == WINDOW >> 21
        .quad window_table + 3
        .else
        .quad page * 0x200000 + 0x83
        .endif
        .set page, page + 1
        .endr

        .bss
        .balign 16
        .globl stacks
stacks:
        .skip STACK_BYTES * CPUS_MOST

        .section .note.GNU-stack, "", @progbits
