/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A repeated comparison that faults leaves the flags as they were before the instruction (SDM 2, REP),
 * whatever its iterations compared; the registers are those of the iterations that were done. One
 * that ends has the flags of its last.
 *
 *     start  long
 *     event  #PF error=0 rip=scan cr2=WINDOW+0x1000 rflags&ARITH=0
 *     event  #PF error=0 rip=compare cr2=WINDOW+0x1000 rflags&ARITH=ARITH
 *     state  r8=96 r9=WINDOW+0x1000 r10=96 r11=FRAMES+4
 *     state  rcx=2 rdi=FRAMES+0x803 rflags&ARITH=CF+SF+AF+OF
 */
#include "long.inc"

    page 0, FRAMES, P + W

    begin
    mov eax, 0x7f
    mov dword ptr [FRAMES + 0xffc], 0x80808080
    mov edi, WINDOW + 0xffc
    mov ecx, 100
    set_flags 2
    faults scan, repne scasb
    mov r8, rcx
    mov r9, rdi
    mov dword ptr [FRAMES], 0x80808080
    mov esi, FRAMES
    mov edi, WINDOW + 0xffc
    mov ecx, 100
    set_flags ARITH + 2
    faults compare, repe cmpsb
    mov r10, rcx
    mov r11, rsi
    mov dword ptr [FRAMES + 0x800], 0x40014040
    mov edi, FRAMES + 0x800
    mov eax, 0x40
    mov ecx, 5
    mov byte ptr [FRAMES + 0x802], 0x81
    repe scasb
done:
    hlt
