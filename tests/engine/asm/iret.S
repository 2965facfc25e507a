/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * IRETQ with frames that cannot be: the fault is the instruction's, RSP is as before.
 *
 *     start  long
 *     event  #GP error=0 rip=null_cs
 *     event  #GP error=DATA rip=data_cs
 *     event  #NP error=ABSENT rip=absent
 *     event  #GP error=USER_DATA-3 rip=ss_rpl
 *     event  #GP error=USER64-3 rip=cs_rpl
 *     event  #GP error=0 rip=user_null_ss
 *     event  #SS error=ABSENT_DATA rip=absent_ss
 *     event  #GP error=0 rip=high
 *     event  #GP error=0x1f8 rip=beyond
 *     event  #GP error=0 rip=nested rflags&NT=NT
 *     event  #BP cs=CODE64 rip=arrived+1
 *     state  ss=0 rsp=0x1234
 */
#include "long.inc"

    .set ABSENT, SPARE
    .set ABSENT_DATA, SPARE + 8

    .macro frame name, rip, cs, rflags, rsp, ss
    resume_at \name\()_after
    push \ss
    push \rsp
    push \rflags
    push \cs
    push \rip
\name:
    iretq
\name\()_after:
    .endm

    begin
    mov rax, 0x00af1b000000ffff         /* CODE64, not present */
    mov [gdt + ABSENT], rax
    mov rax, 0x00cf73000000ffff         /* USER_DATA, not present */
    mov [gdt + ABSENT_DATA], rax
    frame null_cs, 0, 3, 2, 0, DATA
    frame data_cs, 0, DATA, 2, 0, DATA
    frame absent, 0, ABSENT, 2, 0, DATA
    frame ss_rpl, 0, USER64, 2, 0, USER_DATA-3
    frame cs_rpl, 0, USER64-3, 2, 0, DATA
    frame user_null_ss, 0, USER64, 2, 0, 3
    frame absent_ss, 0, USER64, 2, 0, ABSENT_DATA+3
    mov rax, 1 << 47
    frame high, rax, CODE64, 2, 0, DATA
    frame beyond, 0, 0x1f8, 2, 0, DATA
    resume_at nested_after
    push NT + 2
    popfq
nested:
    iretq
nested_after:
    resume_at last
    push 0                              /* a null SS is good enough for CPL 0 in 64-bit mode */
    push 0x1234
    push 2
    push CODE64
    push offset arrived
    own_stack 3
    iretq
arrived:
    int3
last:
    mov ecx, 0
    mov ss, ecx
    mov esp, 0x1234
done:
    hlt
