/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Frames in long mode begin at a multiple of 16, on every stack, and hold SS and RSP as they were: on
 * the present stack, on an IST stack that is odd itself, and on ring 0's.
 *
 *     start  long
 *     state  r8=stack_top-56 r9=ist_stack_top-56 r10=handler_stack_top-56
 *     state  quad[seen]=stack_top-3 quad[seen+8]=stack_top-5 quad[seen+16]=user_stack_top+USER-7
 *     state  r11=DATA r12=USER_DATA
 */
#include "long.inc"

    begin
    handler 0x20, first
    handler 0x21, second
    handler 0x22, third
    own_stack 0x21
    sub qword ptr [tss + 36], 1         /* IST1 */
    sub qword ptr [tss + 4], 8          /* RSP0 */
    mov esp, offset stack_top - 3
    int 0x20
    mov esp, offset stack_top - 5
    int 0x21
    mov esp, offset stack_top
    enter_user ring3
ring3:
    lea rsp, [rsp - 7]
    int 0x22
first:
    mov r8, rsp
    mov rax, [rsp + 24]
    mov [seen], rax
    mov r11, [rsp + 32]
    iretq
second:
    mov r9, rsp
    mov rax, [rsp + 24]
    mov [seen + 8], rax
    iretq
third:
    mov r10, rsp
    mov rax, [rsp + 24]
    mov [seen + 16], rax
    mov r12, [rsp + 32]
done:
    hlt
    .balign 8
seen:
    .quad 0, 0, 0
