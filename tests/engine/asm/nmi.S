/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The handler of an NMI is not interrupted by another one before an IRET, be it that of another
 * handler in between (SDM 3A 6.7.1). The second waits for it; a third is lost.
 *
 *     start  long
 *     event  #BP rip=breakpoint_end
 *     event  #NMI rip=breakpoint_end
 *     state  rcx=0x123 rbx=1
 */
#include "long.inc"

    begin
    mov rax, [idt + 32]
    mov [logged], rax
    handler 2, first
    ask ASK_NMI
    shl ecx, 4
    or ecx, 3
done:
    hlt
first:
    inc ebx
    mov rax, [logged]                   /* the next one goes to the log */
    mov [idt + 32], rax
    ask ASK_NMI
    ask ASK_NMI
    mov ecx, 1
    int3
breakpoint_end:
    shl ecx, 4
    or ecx, 2
    iretq

    .balign 8
logged:
    .quad 0
