/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * An unmasked SSE exception is raised by the instruction itself: #XM, the flag is set, the destination
 * and memory are not; #UD when the system has not said that it knows #XM. A
 * masked one gives its result.
 *
 *     start  long
 *     event  #XM rip=divide
 *     event  #XM rip=convert
 *     event  #XM rip=compare rflags&ARITH=ARITH
 *     event  #UD rip=unknown
 *     state  rax=0x3f800000 rbx=7 dword[state]=0x1f80-0x200+4
 *     state  rdx=0x7f800000
 */
#include "long.inc"

    .set CR4_OSXMMEXCPT, 1 << 10

    begin
    movss xmm0, [one]
    xorps xmm1, xmm1
    mov ebx, 7
    ldmxcsr [unmasked]
    faults divide, divss xmm0, xmm1
    ldmxcsr [invalid]
    movss xmm2, [huge]
    faults convert, cvttss2si rbx, xmm2
    resume_at compare_after
    set_flags ARITH + 2
compare:
    comiss xmm0, [nan]
compare_after:
    ldmxcsr [unmasked]
    clear_cr 4, CR4_OSXMMEXCPT
    faults unknown, divss xmm0, xmm1
    set_cr 4, CR4_OSXMMEXCPT
    stmxcsr [state]
    movd eax, xmm0
    ldmxcsr [masked]
    divss xmm0, xmm1
    movd edx, xmm0
done:
    hlt
one:
    .float 1
huge:
    .float 1e30
nan:
    .long 0x7fc00001
masked:
    .long 0x1f80
unmasked:
    .long 0x1f80 - 0x200
invalid:
    .long 0x1f80 - 0x80
state:
    .long 0
