/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * SYSCALL and SYSRET look at TF when they are done, unlike all others: a mask with TF keeps the step
 * out of ring 0, one without lets it in behind SYSCALL; SYSRET that sets TF is a step itself.
 *
 *     start  long
 *     event  #BP rip=entry_end cs=CODE64 rflags&TF=0
 *     event  #DB rip=returned+USER cs=USER64 rflags&TF=TF dr6=DR6_FIXED+BS
 *     event  #DB rip=entry cs=CODE64 rflags&TF=TF dr6=DR6_FIXED+BS
 *     state  r11&TF=TF
 */
#include "long.inc"

    .macro enter_ring0 mask
    write_msr MSR_FMASK, \mask
    enter_user ring3, TF + 2
    .endm

    begin
    write_msr MSR_STAR, 0, (USER32 << 16) + CODE64
    write_msr_address MSR_LSTAR, entry
    resume_at first
    enter_ring0 TF
ring3:
    syscall
returned:
    nop
    nop
entry:
    int3
entry_end:
    mov esp, offset stack_top
first:
    resume_at second
    mov r11d, TF + 2
    mov ecx, offset returned + USER
    sysretq
second:
    resume_at third
    enter_ring0 0
third:
done:
    hlt
