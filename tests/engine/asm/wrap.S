/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Addresses wrap: those of 16 bits within 64 KiB, before the segment base is added; base and offset of
 * 32 bits at 4 GiB; string registers of 16 bits keep their upper halves.
 *
 *     start  protected
 *     event  #GP error=0 rip=beyond
 *     state  rax=0x11223344 rbx=0x11223344 rbp=0x55667788 rdx=0x11 byte[0]=0x22
 *     state  rcx=0x99990000 rsi=0xabcd0002 rdi=0xffff0001
 */
#include "protected.inc"

    .set HIGH, SPARE
    .set LOW, SPARE + 8

    begin
    segment HIGH, 0xffff0000, 0xfffff, WRITABLE, PAGES + BIG
    segment LOW, 0x100000, 0xffff, WRITABLE
    mov dword ptr [0x100001], 0x11223344
    mov dword ptr [0], 0x55667788
    mov ecx, HIGH
    mov fs, ecx
    mov ecx, LOW
    mov gs, ecx
    mov eax, fs:[0x110001]
    mov ebx, 0xabcdffff
    mov esi, 0x12340002
    .byte 0x65, 0x67, 0x8b, 0x18        /* mov ebx, gs:[bx + si] */
    mov ebp, fs:[0x10000]
    mov esi, 0x1ffff
    faults beyond, mov edx, gs:[esi]
    mov edi, 0xffff0000 + 0xffff        /* DI wraps, the upper half stays */
    mov esi, 0xabcd0000
    mov ecx, 0x99990002
    mov word ptr [0], 0x2211
    mov byte ptr [0xffff], 0
    .byte 0x67
    rep movsb                           /* ES:DI, by CX */
    mov edx, [0xffff]
    and edx, 0xff
done:
    hlt
