/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Single steps beside other events: a fault is not a step; INT n begins its handler without one, and
 * the first comes an instruction after the handler's IRET; INT1 is a #DB of its own; MOV SS holds it
 * off for one instruction (SDM 3A 6.8.3).
 *
 *     start  long
 *     event  #PF rip=fault rflags&TF=TF
 *     event  #UD rip=undefined rflags&TF=TF
 *     event  0x20 rip=returned rflags&TF=TF
 *     event  #DB rip=stepped rflags&TF=TF dr6=DR6_FIXED+BS
 *     event  #DB rip=behind rflags&TF=TF dr6=DR6_FIXED
 *     event  #DB rip=shadowed rflags&TF=TF dr6=DR6_FIXED+BS
 *     state  rbx=1
 */
#include "long.inc"

    .macro step_at name, insn:vararg
    resume_at \name\()_after
    set_flags TF + 2
\name:
    \insn
\name\()_after:
    .endm

    begin
    mov ecx, DATA
    step_at fault, mov eax, [WINDOW]
    step_at undefined, ud2
    set_flags TF + 2
    int 0x20
returned:
    mov dword ptr [resume], offset stepped
stepped:
    resume_at behind
    set_flags TF + 2
    .byte 0xf1                          /* INT1 */
behind:
    resume_at shadowed
    set_flags TF + 2
    mov ss, ecx
    inc ebx
shadowed:
done:
    hlt
