/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Ground under the payloads: Multiboot header, entry, traps, the way into real and long mode.
 *
 * A trap in "resume" mode never returns to where it came from: it gives the CPU its segments and its
 * stack back, unblocks NMIs by an IRET, and calls machine_resume(cpu). So does the 64-bit variant, in
 * compatibility mode. Nothing here trusts a register.
 */
#include "machine-layout.h"

        .section .multiboot, "ax"
        .align 4
        .long 0x1badb002, 0, -0x1badb002

        .text
        .code32
        .globl entry
entry:
        mov $(stacks + STACK_BYTES), %esp
        lgdt gdt_pointer
        ljmp $CODE32, $1f
1:      mov $DATA32, %ax
        mov %ax, %ds
        mov %ax, %es
        mov %ax, %ss
        push %ebx
        call payload_main
2:      cli
        hlt
        jmp 2b

/* ---- Traps, 32-bit: one stub a CPU, all 256 vectors of its table lead to it ----------------------- */

        .altmacro
        .macro resume_stub cpu
        .globl resume_stub_\cpu
resume_stub_\cpu:
        mov $DATA32, %ax
        mov %ax, %ds
        mov %ax, %es
        mov %ax, %ss
        mov $(stacks + STACK_BYTES * (\cpu + 1)), %esp
        lgdt gdt_pointer
        cld
        /* An IRET, for NMIs stay blocked without. */
        pushl $2
        pushl $CODE32
        pushl $1f
        iret
1:      pushl $\cpu
        call machine_resume
        .endm
        resume_stub 0
        resume_stub 1
        resume_stub 2
        resume_stub 3

/* Handlers that do return, for storms: plain, and one that skips what faulted by two bytes. */
        .globl return_stub, eoi_stub, nest_stub
return_stub:
        iret
eoi_stub:
        push %eax
        movl $0, LAPIC + 0xb0
        mov $0x20, %al
        out %al, $0x20
        out %al, $0xa0
        pop %eax
        iret
/* Says the number of its CPU, which needs no stack but its own. */
        .globl tell_stub
tell_stub:
        push %eax
        push %edx
        mov LAPIC + 0x20, %eax
        shr $24, %eax
        add $'0', %al
        mov $0x3f8, %dx
        out %al, %dx
        pop %edx
        pop %eax
        iret
nest_stub:
        int $0x40
        iret

/* void machine_jump(const uint32_t registers[8], uint32_t flags, uint32_t target) */
        .globl machine_jump
machine_jump:
        mov 4(%esp), %esi
        mov 8(%esp), %ebx
        mov 12(%esp), %eax
        pushl %eax
        pushl %ebx
        sub $32, %esp
        mov %esp, %edi
        mov $8, %ecx
        cld
        rep movsl
        popa
        popf
        ret

/* ---- Real mode ------------------------------------------------------------------------------------ */

/*
 * Copied to TRAMPOLINE. A started CPU and every vector of the real-mode table arrive here:
 * offset 0 the former, offset REAL_TRAP the latter. Position: CS = TRAMPOLINE / 16, or anything.
 */
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
        ljmpl $CODE32, $ap_entry
        .org trampoline + REAL_TRAP
        cli
        mov $(TRAMPOLINE >> 4), %ax
        mov %ax, %ds
        lgdtl (trampoline_gdt - trampoline)
        lidtl (trampoline_idt - trampoline)
        mov $1, %eax
        mov %eax, %cr0
        ljmpl $CODE32, $resume_stub_0
trampoline_gdt:
        .word GDT_ENTRIES * 8 - 1
        .long gdt
trampoline_idt:
        .word 256 * 8 - 1
        .long idts
trampoline_end:

        .code32
ap_entry:
        mov $DATA32, %ax
        mov %ax, %ds
        mov %ax, %es
        mov %ax, %ss
        /* Its APIC's id is its number: one that is started again has its own stack again. */
        mov LAPIC + 0x20, %ebx
        shr $24, %ebx
        and $(CPUS - 1), %ebx
        lock incl cpus_started
        lea 1(%ebx), %eax
        imul $STACK_BYTES, %eax, %eax
        lea stacks(%eax), %esp
        push %ebx
        call machine_ap_main
3:      cli
        hlt
        jmp 3b

/* void machine_jump_real(const uint32_t registers[8], uint32_t flags, uint32_t segment) */
        .globl machine_jump_real
machine_jump_real:
        mov 4(%esp), %esi
        mov 8(%esp), %ebx
        mov 12(%esp), %edi
        lidt real_idt_pointer
        ljmp $CODE16, $(TRAMPOLINE + 0x800)
        .globl real_part, real_part_end
        .code16
real_part:
        mov %cr0, %eax
        and $0x7ffffffe, %eax
        mov %eax, %cr0
        ljmp $(TRAMPOLINE >> 4), $(0x800 + 1f - real_part)
1:      xor %ax, %ax
        mov %ax, %ss
        mov $0x7000, %esp
        mov %di, %ds
        mov %di, %es
        pushl %ebx
        pushw %di
        pushw $0
        mov %ax, %fs
        mov %fs:(REAL_REGISTERS + 0), %eax
        mov %fs:(REAL_REGISTERS + 4), %ecx
        mov %fs:(REAL_REGISTERS + 8), %edx
        mov %fs:(REAL_REGISTERS + 12), %ebx
        mov %fs:(REAL_REGISTERS + 16), %ebp
        mov %fs:(REAL_REGISTERS + 20), %esi
        popfw
        lret
real_part_end:
        .code32

/* ---- Long mode ------------------------------------------------------------------------------------ */

/* void machine_enter_long(uint32_t cr3): into compatibility mode. */
        .globl machine_enter_long
machine_enter_long:
        mov 4(%esp), %eax
        mov %eax, %cr3
        mov $(1 << 5 | 3 << 9 | 1 << 18), %eax
        mov %eax, %cr4
        mov $0xc0000080, %ecx
        mov $0x901, %eax
        xor %edx, %edx
        wrmsr
        mov $0x80000033, %eax
        mov %eax, %cr0
        ret

/* void machine_jump_long(const uint64_t registers[18]): 16 registers, flags, target. */
        .globl machine_jump_long, resume_long
machine_jump_long:
        mov 4(%esp), %edi
        ljmp $CODE64, $1f
        .code64
1:      mov %edi, %edi
        push 17 * 8(%rdi)
        push 16 * 8(%rdi)
        mov 0 * 8(%rdi), %rax
        mov 1 * 8(%rdi), %rcx
        mov 2 * 8(%rdi), %rdx
        mov 3 * 8(%rdi), %rbx
        mov 5 * 8(%rdi), %rbp
        mov 6 * 8(%rdi), %rsi
        mov 8 * 8(%rdi), %r8
        mov 9 * 8(%rdi), %r9
        mov 10 * 8(%rdi), %r10
        mov 11 * 8(%rdi), %r11
        mov 12 * 8(%rdi), %r12
        mov 13 * 8(%rdi), %r13
        mov 14 * 8(%rdi), %r14
        mov 15 * 8(%rdi), %r15
        mov 7 * 8(%rdi), %rdi
        popfq
        ret

resume_long:
        mov $DATA32, %eax
        mov %eax, %ds
        mov %eax, %es
        mov %eax, %ss
        mov $(stacks + STACK_BYTES), %esp
        mov $gdt_pointer, %eax
        lgdt (%rax)
        cld
        mov %rsp, %rax
        pushq $DATA32
        push %rax
        pushq $2
        pushq $CODE32
        mov $1f, %eax
        push %rax
        iretq
        .code32
1:      pushl $0
        call machine_resume

        .section .note.GNU-stack, "", @progbits
