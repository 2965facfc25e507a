/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A stack segment of 16 bits under 32-bit code: only SP moves, it wraps within 64 KiB, and the upper
 * half of ESP stays; a 32-bit stack moves ESP. LEAVE and ENTER too.
 *
 *     start  protected
 *     state  rax=0x12340000 rbx=0x1234fffc rcx=0x1234fff8 dword[0x10fffc]=0x77
 *     state  rdx=0x7700 rsi=0x12340004
 */
#include "protected.inc"

    .set NARROW, SPARE

    begin
    segment NARROW, 0x100000, 0xffff, WRITABLE, 0
    mov eax, NARROW
    mov ss, eax
    mov esp, 0x12340000
    push 0x77
    mov ebx, esp
    push 0x78
    mov ecx, esp
    pop eax
    pop edx
    shl edx, 8
    mov eax, esp
    mov ebp, 0x55550000
    mov dword ptr [0x100000], 0
    leave                               /* SP = BP, POP */
    mov esi, esp
    mov edi, DATA
    mov ss, edi
    mov esp, offset stack_top
done:
    hlt
