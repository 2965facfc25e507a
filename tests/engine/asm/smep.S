/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * SMEP: CPL 0 does not execute the user's pages, code that ran before the switch included; it reads
 * them, and ring 3 executes them.
 *
 *     start  long
 *     event  #PF error=0x11 rip=WINDOW cr2=WINDOW
 *     event  #PF error=0x11 rip=function+USER cr2=function+USER
 *     event  #BP cs=USER64 rip=in_ring3+1+USER
 *     state  rax=0xc3 rbx=3
 */
#include "long.inc"

    page 0, FRAMES, P + W + U

    begin
    mov dword ptr [FRAMES], 0xc3        /* ret */
    mov edi, WINDOW
    mov esi, offset function + USER
    call rdi
    call rsi
    set_cr 4, CR4_SMEP
    resume_at refused
    call rdi
refused:
    resume_at alias
    call rsi
alias:
    clear_cr 4, CR4_SMEP
    call rdi
    call rsi
    set_cr 4, CR4_SMEP
    mov eax, [WINDOW]
    resume_at done
    enter_user ring3
function:
    inc ebx
    ret
ring3:
    call function
in_ring3:
    int3
done:
    hlt
