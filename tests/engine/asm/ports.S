/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Ports and privilege: the I/O permission bitmap (with the byte behind it), IOPL; UMIP keeps tables
 * and machine status from ring 3, HLT and the like are ring 0's in any case.
 *
 *     start  long
 *     event  #GP error=0 rip=refused+USER
 *     event  #GP error=0 rip=half+USER
 *     event  #GP error=0 rip=last+USER
 *     event  #BP rip=allowed_end+USER
 *     event  #BP rip=iopl_end+USER
 *     event  #GP error=0 rip=table+USER
 *     event  #GP error=0 rip=status+USER
 *     event  #GP error=0 rip=halts+USER
 *     event  #GP error=0 rip=clears+USER
 *     state  rax=0
 */
#include "long.inc"

    .set CR4_UMIP, 1 << 11
    .set IOPL3, 3 << 12

    begin
    mov eax, offset own_tss
    mov [gdt + SPARE + 2], ax
    mov ax, [own_limit]
    mov [gdt + SPARE], ax
    mov dword ptr [gdt + SPARE + 4], 0x8900 + (IMAGE >> 16)
    mov eax, SPARE
    ltr ax
    faults_in_ring3 refused, 2, out 0x40, al
    faults_in_ring3 half, 2, in ax, 0x47
    faults_in_ring3 last, 2, in al, 0x98       /* open, but the map has no byte behind it */
    passes_in_ring3 allowed, 2, out 0x80, al
    passes_in_ring3 iopl, IOPL3 + 2, out 0x40, al
    set_cr 4, CR4_UMIP
    faults_in_ring3 table, 2, sidt [rsp - 16]
    faults_in_ring3 status, 2, smsw eax
    faults_in_ring3 halts, 2, hlt
    faults_in_ring3 clears, 2, cli
    xor eax, eax
done:
    hlt

own_limit:
    .word own_tss_end - own_tss - 1
own_tss:
    .long 0
    .quad handler_stack_top
    .fill 11, 8, 0
    .word 0, map - own_tss
map:
    .fill 8, 1, 0
    .byte 0xff                          /* 40h to 47h */
    .fill 10, 1, 0
    .byte 0                             /* 98h to 9fh, with nothing behind */
own_tss_end:
