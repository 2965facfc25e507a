/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Who may use the FPU: CR0.TS and EM, MP with FWAIT, CR4.OSFXSR; which of #NM and #UD comes first;
 * operands that are not aligned, reserved bits of MXCSR.
 *
 *     start  long
 *     event  #NM rip=ts_x87
 *     event  #NM rip=ts_sse
 *     event  #NM rip=ts_wait
 *     event  #NM rip=ts_save
 *     event  #NM rip=em_x87
 *     event  #UD rip=em_sse
 *     event  #UD rip=no_sse
 *     event  #GP error=0 rip=odd
 *     event  #GP error=0 rip=odd_save
 *     event  #GP error=0 rip=reserved
 *     event  #GP error=0 rip=reserved_image
 *     state  dword[control]=0x1f80
 */
#include "long.inc"

    .set CR4_OSFXSR, 1 << 9

    begin
    mov esi, offset image
    mov edi, WINDOW                     /* absent: the FPU is asked for first */
    set_cr 0, CR0_TS + CR0_MP
    faults ts_x87, fld dword ptr [rdi]
    faults ts_sse, movups xmm0, [rdi]
    faults ts_wait, fwait
    faults ts_save, fxsave [rsi + 1]
    clear_cr 0, CR0_MP
    fwait
    clear_cr 0, CR0_TS
    set_cr 0, CR0_EM
    faults em_x87, fld1
    faults em_sse, movups xmm0, [rdi]
    clear_cr 0, CR0_EM
    clear_cr 4, CR4_OSFXSR
    faults no_sse, addps xmm0, xmm1
    set_cr 4, CR4_OSFXSR
    faults odd, movaps xmm0, [rsi + 1]
    faults odd_save, fxsave [rsi + 8]
    faults reserved, ldmxcsr [wrong]
    fxsave [rsi]
    or byte ptr [rsi + 26], 1
    faults reserved_image, fxrstor [rsi]
    stmxcsr [control]
done:
    hlt
control:
    .long 0
wrong:
    .long 0x11f80
    .balign 16
image:
    .skip 512
