/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Debug registers: general detection faults before the access and is off in the handler; DR4 is DR6
 * or nothing; bits that cannot be set; only CPL 0 has them.
 *
 *     start  long
 *     event  #DB rip=detected dr6=DR6_FIXED+0x2000
 *     event  #UD rip=alias
 *     event  #GP error=0 rip=high
 *     event  #GP error=0 rip=high7
 *     event  #GP error=0 rip=ring3+USER
 *     state  rax=0xffff0ff0 rbx=DR6_FIXED+0xe00f rcx=0x400 rdx=0x77
 */
#include "long.inc"

    begin
    mov edx, 0x2400                     /* GD */
    mov dr7, rdx
    mov edx, 0x77
    faults detected, mov rdx, dr0
    mov rcx, dr7
    .byte 0x0f, 0x21, 0xe0              /* mov rax, dr4 */
    mov rbx, cr4
    or rbx, CR4_DE
    mov cr4, rbx
    faults alias, .byte 0x0f, 0x21, 0xe3
    mov rbx, 1 << 32
    faults high, mov dr6, rbx
    faults high7, mov dr7, rbx
    mov ebx, -1
    mov dr6, rbx
    mov rbx, dr6
    resume_at done
    enter_user ring3
ring3:
    mov rdx, dr0
done:
    hlt
