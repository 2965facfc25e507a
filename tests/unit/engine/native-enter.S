/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Into and out of the instruction: see native.c. All registers are the guest's in between, RSP too;
 * what must be found again stands at fixed addresses. */
    .intel_syntax noprefix
    .text
    .globl native_enter
    .globl native_return
    .type native_enter, @function

    /* void native_enter(struct native *native, void *code) */
native_enter:
    push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
    mov [rip + native_rsp], rsp
    mov [rip + native_state], rdi
    mov [rip + native_target], rsi
    mov eax, 7
    xor edx, edx
    xrstor64 [rdi + 256]
    push qword ptr [rdi + 128]
    popfq
    mov rax, [rdi + 0]
    mov rcx, [rdi + 8]
    mov rdx, [rdi + 16]
    mov rbx, [rdi + 24]
    mov rsp, [rdi + 32]
    mov rbp, [rdi + 40]
    mov rsi, [rdi + 48]
    mov r8, [rdi + 64]
    mov r9, [rdi + 72]
    mov r10, [rdi + 80]
    mov r11, [rdi + 88]
    mov r12, [rdi + 96]
    mov r13, [rdi + 104]
    mov r14, [rdi + 112]
    mov r15, [rdi + 120]
    mov rdi, [rdi + 56]
    jmp [rip + native_target]

native_return:
    mov [rip + native_rdi], rdi
    mov rdi, [rip + native_state]
    mov [rdi + 0], rax
    mov [rdi + 8], rcx
    mov [rdi + 16], rdx
    mov [rdi + 24], rbx
    mov [rdi + 32], rsp
    mov rsp, [rip + native_rsp]
    pushfq
    pop rax
    mov [rdi + 128], rax
    mov rax, [rip + native_rdi]
    mov [rdi + 56], rax
    mov [rdi + 40], rbp
    mov [rdi + 48], rsi
    mov [rdi + 64], r8
    mov [rdi + 72], r9
    mov [rdi + 80], r10
    mov [rdi + 88], r11
    mov [rdi + 96], r12
    mov [rdi + 104], r13
    mov [rdi + 112], r14
    mov [rdi + 120], r15
    mov eax, 7
    xor edx, edx
    xsave64 [rdi + 256]
    fninit
    vzeroupper
    cld
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbp
    pop rbx
    ret
    .size native_enter, . - native_enter

    .bss
    .balign 8
native_rsp:    .skip 8
native_rdi:    .skip 8
native_state:  .skip 8
native_target: .skip 8
    .section .note.GNU-stack, "", @progbits
