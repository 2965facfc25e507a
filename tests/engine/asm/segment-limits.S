/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Limits of data segments, of those that expand down as well, to the byte and around the end of the
 * address space; the rights of each type; the stack segment's own fault.
 *
 *     start  protected
 *     event  #GP error=0 rip=up
 *     event  #GP error=0 rip=down
 *     event  #GP error=0 rip=around
 *     event  #GP error=0 rip=down16
 *     event  #GP error=0 rip=write
 *     event  #GP error=0 rip=write_code
 *     event  #GP error=0 rip=read_code
 *     event  #GP error=0 rip=null
 *     event  #SS error=0 rip=stack
 *     event  #GP error=0 rip=string
 *     state  rcx=1 rdx=UP rsi=0xffe quad[0x100ffc]=0x5500000001
 */
#include "protected.inc"

    .set UP, SPARE
    .set EXPANDS, SPARE + 8
    .set EXPANDS16, SPARE + 16
    .set CONSTANT, SPARE + 24
    .set CODE_ONLY, SPARE + 32

    begin
    segment UP, 0x100000, 0xfff, WRITABLE
    segment EXPANDS, 0x100000, 0xfff, DOWN
    segment EXPANDS16, 0x100000, 0xfff, DOWN, 0
    segment CONSTANT, 0x100000, 0xfff, READ_ONLY
    mov edx, UP
    mov fs, edx
    mov dword ptr fs:[0xffc], 1
    faults up, mov dword ptr fs:[0xffd], 2
    mov edx, EXPANDS
    mov fs, edx
    mov byte ptr fs:[0x1000], 0x55
    faults down, mov byte ptr fs:[0xfff], 3
    faults around, mov eax, fs:[0xfffffffe]
    mov edx, EXPANDS16
    mov fs, edx
    mov ecx, fs:[0xfffc]
    faults down16, mov ecx, fs:[0xfffd]
    mov edx, CONSTANT
    mov fs, edx
    mov ecx, fs:[0xffc]
    faults write, mov fs:[0x10], ecx
    faults write_code, mov cs:[0x100000], ecx
    /* A function of execute-only code reads itself. */
    segment CODE_ONLY, 0, 0xfffff, EXECUTE, PAGES + BIG
    resume_at read_code_after
    .byte 0xea                          /* JMP far */
    .long read_code
    .word CODE_ONLY
read_code:
    mov edx, cs:[read_code]
read_code_after:
    .byte 0xea
    .long back_in_code
    .word CODE
back_in_code:
    mov edx, 0
    mov fs, edx
    faults null, mov edx, fs:[edx]
    mov edx, UP
    mov ss, edx
    mov esp, 0x800
    faults stack, mov edx, [esp + 0x7fd]
    mov edx, UP
    mov gs, edx
    mov esi, 0xffe
    faults string, lods eax, dword ptr gs:[esi]
done:
    hlt
