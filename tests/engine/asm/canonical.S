/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Addresses that are not canonical: #GP, but #SS where the stack segment is meant (RSP, RBP); branches
 * fault where they stand. Hints do not fault.
 *
 *     start  long
 *     event  #GP error=0 rip=load
 *     event  #GP error=0 rip=edge
 *     event  #SS error=0 rip=frame
 *     event  #SS error=0 rip=stack
 *     event  #GP error=0 rip=segment
 *     event  #SS error=0 rip=pushes rsp=HIGH+0x100
 *     event  #SS error=0 rip=calls rsp=HIGH+0x100
 *     event  #SS error=0 rip=pops rsp=HIGH
 *     event  #SS error=0 rip=iret rsp=HIGH
 *     event  #SS error=0 rip=interrupt rsp=HIGH+0x100
 *     event  #GP error=0 rip=jumps
 *     event  #GP error=0 rip=jumps_memory
 *     event  #GP error=0 rip=calls_to rsp=stack_top
 *     event  #GP error=0 rip=calls_memory rsp=stack_top
 *     event  #GP error=0 rip=returns rsp=stack_top-8
 *     event  #GP error=0 rip=returns_more rsp=stack_top-8
 *     event  #GP error=0 rip=string
 *     event  #GP error=0 rip=fs_base
 *     state  rbx=0x77 rsi=HIGH rcx=MSR_FS_BASE
 */
#include "long.inc"

    .set HIGH, 1 << 47
    .set MSR_FS_BASE, 0xc0000100

    begin
    own_stack 12
    mov ebx, 0x77
    mov rsi, HIGH
    mov rbp, rsi
    faults load, mov ebx, [rsi]
    faults edge, mov rbx, [rsi - 4]
    faults frame, mov ebx, [rbp]
    resume_at stack_after
    mov rsp, rsi
stack:
    mov ebx, [rsp + 8]
stack_after:
    faults segment, mov ebx, fs:[rbp]
    resume_at pushes_after
    lea rsp, [rsi + 0x100]
pushes:
    push rbx
pushes_after:
    resume_at calls_after
    lea rsp, [rsi + 0x100]
calls:
    call done
calls_after:
    resume_at pops_after
    mov rsp, rsi
pops:
    pop rbx
pops_after:
    resume_at iret_after
    mov rsp, rsi
iret:
    iretq
iret_after:
    resume_at interrupt_after
    lea rsp, [rsi + 0x100]
interrupt:
    int 0x20
interrupt_after:
    mov [pointer], rsi
    faults jumps, jmp rsi
    faults jumps_memory, jmp qword ptr [pointer]
    faults calls_to, call rsi
    faults calls_memory, call qword ptr [pointer]
    resume_at returns_after
    push rsi
returns:
    ret
returns_after:
    resume_at returns_more_after
    push rsi
returns_more:
    ret 8
returns_more_after:
    faults string, lodsb
    prefetcht0 [rsi]
    invlpg [rsi]
    lea rdi, [rsi]
    mov ecx, MSR_FS_BASE
    mov edx, 0x8000
    xor eax, eax
    faults fs_base, wrmsr
done:
    hlt
    .balign 8
pointer:
    .quad 0
