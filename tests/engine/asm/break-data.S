/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Breakpoints on data: a trap after the instruction whose access meets one byte of them, of the kind
 * asked for; two at once in one #DB; not when the access has faulted.
 *
 *     start  long
 *     event  #DB rip=last_end dr6=DR6_FIXED+1
 *     event  #DB rip=crossing_end dr6=DR6_FIXED+1
 *     event  #DB rip=locked_end dr6=DR6_FIXED+1
 *     event  #DB rip=read_end dr6=DR6_FIXED+2
 *     event  #DB rip=both_end dr6=DR6_FIXED+3
 *     event  #DB rip=vector_end dr6=DR6_FIXED+3
 *     event  #DB rip=pushed dr6=DR6_FIXED+4
 *     event  #DB rip=function dr6=DR6_FIXED+4
 *     event  #PF rip=fault dr6=DR6_FIXED
 *     event  #DB rip=copy dr6=DR6_FIXED+1 rflags&RF=RF
 *     event  #DB rip=copy dr6=DR6_FIXED+1
 *     event  #DB rip=copy dr6=DR6_FIXED+1
 *     event  #DB rip=copy dr6=DR6_FIXED+1
 *     event  #DB rip=copy dr6=DR6_FIXED+2
 *     state  rcx=0
 */
#include "long.inc"

    .set AT, FRAMES + 0x100
    /* 0: writes of four bytes; 1: all accesses of one; 2: writes of eight */
    .set KINDS, 0x400 + (0xd << 16) + (3 << 20) + (9 << 24)

    begin
    mov edx, AT
    mov dr0, rdx
    mov edx, AT + 8
    mov dr1, rdx
    mov edx, offset stack_top - 8
    mov dr2, rdx
    mov edx, KINDS + 0x15
    mov dr7, rdx
    mov eax, [AT]
    mov [AT + 4], eax
    mov [AT - 4], eax
    mov [AT + 3], al
last_end:
    mov [AT - 1], ax
crossing_end:
    lock cmpxchg [AT], ecx
locked_end:
    cmp al, [AT + 8]
read_end:
    add [AT + 1], rax
both_end:
    movups [AT], xmm0
vector_end:
    push rax
pushed:
    pop rax
    call function
function:
    pop rax
    mov edx, KINDS + 5                  /* without the stack's: handlers use it */
    mov dr7, rdx
    mov edx, WINDOW - 4
    mov dr0, rdx
    faults fault, mov [WINDOW - 4], rax
    mov edx, AT
    mov dr0, rdx
    mov edi, AT - 2
    mov ecx, 64
copy:
    rep stosb
    mov edx, 0x400
    mov dr7, rdx
done:
    hlt
