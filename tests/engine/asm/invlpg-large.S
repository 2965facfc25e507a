/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * INVLPG of any address in a large page drops all of it, and the page after it has been split into
 * small ones or joined again. INVLPG of an address that cannot be is no fault.
 *
 *     start  long
 *     state  rax=1 rbx=2 rcx=3 rdx=1
 */
#include "long.inc"

    .set AT, USER + 0x1fe000

    page 0x1fe, FRAMES, P + W

    begin
    mov dword ptr [AT], 1               /* physically 1FE000h, above the payload */
    mov dword ptr [FRAMES + 0x1fe000], 2
    mov dword ptr [FRAMES], 3
    mov esi, [AT]
    mov qword ptr [pd + 0x10], FRAMES + P + W + U + PS
    invlpg [USER + 0x1000]
    mov ebx, [AT]
    mov rax, [pd + 8]
    mov [pd + 0x10], rax                /* through window_pt */
    invlpg [USER + 0x155000]
    mov ecx, [AT]
    mov qword ptr [pd + 0x10], P + W + U + PS
    invlpg [AT + 0x1000]
    mov edx, [AT]
    mov rax, 1 << 62
    invlpg [rax]
    mov eax, esi
done:
    hlt
