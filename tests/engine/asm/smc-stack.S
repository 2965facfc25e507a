/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * PUSH and CALL write over code that is about to run: stores to the stack are stores.
 *
 *     start  long
 *     state  r8=0x11 r9=0x33 rcx=returned
 */
#include "long.inc"

    begin
    call function
    mov r8d, eax
    mov rbx, 0x909090c300000033         /* the immediate, RET, three NOPs */
    mov esp, offset immediate + 8
    push rbx
    mov esp, offset stack_top
    call function
    mov r9d, eax
    mov esp, offset address + 8
    call over
returned:
    nop
function:
    .byte 0xb8                          /* mov eax, imm32 */
immediate:
    .long 0x11
    ret
    nop
    nop
    nop
over:
    .byte 0x48, 0xb9                    /* mov rcx, imm64: what CALL has pushed */
address:
    .quad 0
done:
    hlt
