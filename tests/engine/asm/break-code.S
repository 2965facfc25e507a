/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Breakpoints on instructions: a fault before the instruction, at its first byte only; RF lets it run
 * and does not outlive it. A repeat is met once, not at each iteration.
 *
 *     start  long
 *     event  #DB rip=target dr6=DR6_FIXED+1 rflags&RF=0
 *     event  #DB rip=target dr6=DR6_FIXED+1
 *     event  #DB rip=copy dr6=DR6_FIXED+8
 *     event  #DB rip=disabled dr6=DR6_FIXED+2
 *     state  rax=2 rcx=0 rdi=FRAMES+64
 */
#include "long.inc"

    begin
    mov edx, offset target
    mov dr0, rdx
    mov edx, offset inside + 1
    mov dr1, rdx
    mov edx, offset copy
    mov dr3, rdx
    mov edx, 0x400 + 1 + 8 + 0x80       /* L0, G1, G3 */
    mov dr7, rdx
    mov esi, 2
again:
inside:
    mov ebx, 5
target:
    inc eax
    dec esi
    jnz again
    mov edi, FRAMES
    mov ecx, 64
copy:
    rep stosb
    mov edx, offset disabled
    mov dr1, rdx
    resume_at disabled_after
disabled:
    nop
disabled_after:
    mov edx, 0x400
    mov dr7, rdx
    jmp disabled_end
disabled_end:
done:
    hlt
