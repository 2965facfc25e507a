/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * From CPL 0 to ring 3 in 64-bit and in compatibility mode, and back by INT: selectors, the stack of
 * the TSS, flags that ring 3 cannot change.
 *
 *     start  long
 *     event  0x20 rip=in64+USER cs=USER64 rsp=user_stack_top+USER-8 rflags&IF=IF
 *     event  0x21 rip=in32+USER cs=USER32 rsp=user_stack_top+USER-4 rflags&IF=0
 *     event  #GP error=0x10a rip=refused+USER cs=USER64
 *     state  rcx=USER_DATA rdx=1 rbx=0xfffffffc rsp=stack_top
 */
#include "long.inc"

    begin
    resume_at back64
    enter_user ring64, IF + 2
ring64:
    push rax
    mov ecx, ss
    push 2                              /* IF stays: IOPL is 0 */
    popfq
    int 0x20
in64:
back64:
    resume_at back32
    push USER_DATA
    push offset user_stack_top + USER
    push 2
    push USER32
    push offset ring32 + USER
    iretq
    .code32
ring32:
    push eax
    mov ebx, 0
    sub ebx, 4
    inc edx                             /* 42h: in 64-bit mode it would be a REX prefix */
    int 0x21
in32:
    .code64
back32:
    mov byte ptr [idt + 33 * 16 + 5], 0x8e
    resume_at done
    enter_user ring_again
ring_again:
refused:
    int 0x21
done:
    hlt
