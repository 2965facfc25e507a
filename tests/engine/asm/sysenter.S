/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * SYSENTER and SYSEXIT: from 64-bit and from compatibility mode, into either; IF and RF are cleared,
 * nothing else of the flags; a null selector in the MSR is #GP, and so is SYSEXIT in ring 3, or to an
 * address that is not canonical. The selectors are counted from the MSR, no descriptor is looked at.
 *
 *     start  long
 *     event  #BP cs=CODE64 rip=entry_end rsp=handler_stack_top rflags&IF+CF=CF
 *     event  #BP cs=CODE64+35 rip=back64_end+USER rsp=user_stack_top+USER-8
 *     event  #BP cs=CODE64 rip=entry_end
 *     event  #BP cs=CODE64+19 rip=back32_end+USER rsp=user_stack_top+USER-12
 *     event  #GP error=0 cs=USER64 rip=ring3_exit+USER
 *     event  #GP error=0 cs=CODE64 rip=high
 *     event  #GP error=0 cs=USER64 rip=ring3+USER
 *     state  rbx=DATA rsi=CODE64+43
 */
#include "long.inc"

    .set MSR_SYSENTER_CS, 0x174
    .set MSR_SYSENTER_ESP, 0x175
    .set MSR_SYSENTER_EIP, 0x176

    begin
    write_msr MSR_SYSENTER_CS, CODE64
    write_msr_address MSR_SYSENTER_ESP, handler_stack_top
    write_msr_address MSR_SYSENTER_EIP, entry
    mov dword ptr [then], offset first
    enter_user ring3, IF + CF + 2
ring3:
    sysenter
    ud2
entry:
    int3
entry_end:
    mov ebx, ss
    mov eax, [then]
    jmp rax
first:
    mov edx, offset back64 + USER
    mov ecx, offset user_stack_top + USER - 8
    resume_at second
    .byte 0x48, 0x0f, 0x35              /* SYSEXIT to 64 bits */
back64:
    mov esi, ss
    int3
back64_end:
second:
    mov dword ptr [then], offset third
    push USER_DATA
    push offset user_stack_top + USER
    push 2
    push USER32
    push offset ring3_32 + USER
    iretq
    .code32
ring3_32:
    sysenter
    .code64
third:
    mov edx, offset back32 + USER
    mov ecx, offset user_stack_top + USER - 12
    resume_at fourth
    .byte 0x0f, 0x35                    /* SYSEXIT to 32 bits */
    .code32
back32:
    int3
back32_end:
    .code64
fourth:
    resume_at fifth
    enter_user ring3_exit
ring3_exit:
    .byte 0x0f, 0x35                    /* SYSEXIT to 32 bits */
fifth:
    mov rdx, 1 << 47
    faults high, .byte 0x48, 0x0f, 0x35
    write_msr MSR_SYSENTER_CS, 0
    resume_at done
    enter_user ring3
done:
    hlt

then:
    .long 0
