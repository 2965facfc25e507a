/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * SYSCALL: RCX, R11, the mask, segments out of thin air, the stack left alone; only in 64-bit mode and
 * only with EFER.SCE. SYSRET to 64-bit and to compatibility mode; with a RCX that is not canonical it
 * faults in ring 0, on the user's stack.
 *
 *     start  long
 *     event  #BP cs=CODE64 rip=entry_end rsp=user_stack_top+USER rflags&IF+DF+CF=CF
 *     event  #BP cs=USER64 rip=back64_end+USER rflags&CF+DF+RF=CF+DF
 *     event  #BP cs=CODE64 rip=entry_end rflags&DF=0
 *     event  #BP cs=USER32 rip=back32_end+USER
 *     event  #UD cs=USER32 rip=call32+USER
 *     event  #GP cs=CODE64 error=0 rip=high rsp=user_stack_top+USER
 *     event  #GP cs=USER64 error=0 rip=ring3_sysret+USER
 *     event  #UD cs=USER64 rip=ring3+USER
 *     event  #UD cs=CODE64 rip=no_sysret
 *     state  r8=returned+USER r9&CF+DF+RF=CF+DF rbx=DATA
 */
#include "long.inc"


    begin
    write_msr MSR_STAR, 0, (USER32 << 16) + CODE64
    write_msr_address MSR_LSTAR, entry
    write_msr MSR_FMASK, DF
    mov dword ptr [then], offset first
    enter_user ring3, CF + DF + 2
ring3:
    syscall
returned:
    ud2
entry:
    int3
entry_end:
    mov ebx, ss
    mov edx, [then]
    jmp rdx
first:
    mov r8, rcx
    mov r9, r11
    mov ecx, offset back64 + USER
    bts r11, 16                         /* RF is not taken */
    resume_at second
    sysretq
back64:
    int3
back64_end:
second:
    mov dword ptr [then], offset third
    enter_user ring3, DF + 2
third:
    mov ecx, offset back32 + USER
    resume_at fourth
    .byte 0x0f, 0x07                    /* SYSRET to 32 bits */
    .code32
back32:
    int3
back32_end:
    .code64
fourth:
    resume_at fifth
    mov ecx, offset call32 + USER
    mov r11d, 2
    .byte 0x0f, 0x07                    /* SYSRET to 32 bits */
    .code32
call32:
    .byte 0x0f, 0x05                    /* SYSCALL */
    .code64
fifth:
    resume_at sixth
    mov rcx, 1 << 47
    mov rsp, offset user_stack_top + USER
high:
    sysretq
sixth:
    resume_at seventh
    enter_user ring3_sysret
ring3_sysret:
    sysretq
seventh:
    write_msr MSR_EFER, 0xd00           /* without SCE */
    resume_at eighth
    enter_user ring3
eighth:
    faults no_sysret, sysretq
done:
    hlt

then:
    .long 0
