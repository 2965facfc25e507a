/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The guest clears accessed and dirty bits: after INVLPG they are set anew, the dirty one by the first
 * write only. So are those of a large page, and of the tables above after CR3 is loaded.
 *
 *     start  long
 *     state  r8&A+D=A r9&A+D=A+D r10&A+D=0 r11&A+D=A r12&A+D=A+D r13&A=A
 */
#include "long.inc"

    page 0, FRAMES, P + W

    begin
    mov [WINDOW], eax
    mov qword ptr [window_pt], FRAMES + P + W
    invlpg [WINDOW + 0x123]
    mov eax, [WINDOW]
    mov r8, [window_pt]
    mov [WINDOW], eax
    mov r9, [window_pt]

    mov [USER + 0x1ff000], eax          /* above the payload */
    mov qword ptr [pd + 0x10], P + W + U + PS
    invlpg [USER]
    mov r10, [pd + 0x10]
    mov eax, [USER + 0x1ff000]
    mov r11, [pd + 0x10]
    mov [USER + 0x1ff000], eax
    mov r12, [pd + 0x10]

    and qword ptr [pml4], ~A
    mov rax, cr3
    mov cr3, rax
    mov r13, [pml4]
done:
    hlt
