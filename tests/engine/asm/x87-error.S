/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * An unmasked x87 exception is raised by the next waiting instruction, not by the one that met it, and
 * again until it is cleared; what does not wait runs. The operands of the guilty one are untouched.
 *
 *     start  long
 *     event  #MF rip=waits
 *     event  #MF rip=loads
 *     event  #MF rip=mmx
 *     event  #MF rip=stores
 *     event  #MF rip=absent
 *     state  word[status]=0xb084 word[after]=0x3000 dword[stored]=0xffffffff rax=1 rbx=0x1234
 */
#include "long.inc"

    begin
    fldcw [control]
    fld1
    fldz
    fdivp st(1), st                     /* 1 / 0: nothing happens, and nothing is popped */
    mov ebx, 0x1234
    fnstsw [status]
    faults waits, fwait
    faults loads, fld1
    faults mmx, paddb mm0, mm1
    faults stores, fst dword ptr [stored]
    faults absent, fld dword ptr [WINDOW]   /* before the page is missed */
    addps xmm0, xmm1
    fnclex
    fnstsw [after]
    fldz
    fcomip st, st(1)                    /* 0 is st(0) still */
    setz al
done:
    hlt
control:
    .word 0x37f - 4                     /* division by zero unmasked */
status:
    .word 0
after:
    .word 0
stored:
    .long -1
