/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Single steps: none after the POPF that sets TF, one after each instruction from then on, the last
 * one after the POPF that clears it. A repeat is stepped by iterations, with RF in the frames of all
 * but the last (SDM 3B 17.3.1.1).
 *
 *     start  long
 *     event  #DB rip=second rflags&TF+RF=TF dr6=DR6_FIXED+BS
 *     event  #DB rip=copy rflags&TF+RF=TF dr6=DR6_FIXED+BS
 *     event  #DB rip=copy rflags&TF+RF=TF+RF
 *     event  #DB rip=copy rflags&TF+RF=TF+RF
 *     event  #DB rip=pushes rflags&TF+RF=TF
 *     event  #DB rip=clears rflags&TF+RF=TF
 *     event  #DB rip=after rflags&TF+RF=0
 *     state  rcx=0 rax=1 rdi=FRAMES+3
 */
#include "long.inc"

    begin
    mov edi, FRAMES
    mov ecx, 3
    set_flags TF + 2
    inc eax
second:
    nop
copy:
    rep stosb
pushes:
    push 2
clears:
    popfq
after:
    nop
done:
    hlt
