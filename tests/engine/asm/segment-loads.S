/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What can be loaded into which segment register: the error is #GP with the selector, #NP for absent
 * data, #SS for an absent stack; the register keeps what it had. Loading marks the descriptor as
 * accessed. LAR, LSL and VERW tell, and do not fault.
 *
 *     start  protected
 *     event  #GP error=CODE_ONLY rip=code
 *     event  #NP error=GONE rip=absent
 *     event  #SS error=GONE rip=absent_stack
 *     event  #GP error=CONSTANT rip=constant_stack
 *     event  #GP error=0 rip=null_stack
 *     event  #GP error=0x7f8 rip=beyond
 *     event  #GP error=4 rip=no_ldt
 *     event  #GP error=TSS rip=system
 *     event  #GP error=DATA rip=ring3
 *     event  #GP error=CODE rip=ring3_code
 *     state  fs=UP gs=USER_DATA byte[gdt+UP+5]=WRITABLE+1 byte[gdt+CONSTANT+5]=READ_ONLY
 *     state  rbx=0xfff rcx=0x12345fff rdx=0x9000 rsi=1
 */
#include "protected.inc"

    .set UP, SPARE
    .set GONE, SPARE + 8
    .set CONSTANT, SPARE + 16
    .set CODE_ONLY, SPARE + 24
    .set LARGE, SPARE + 32

    .macro loads name, register, selector
    mov eax, \selector
    faults \name, mov \register, eax
    .endm

    begin
    segment UP, 0x100000, 0xfff, WRITABLE
    segment GONE, 0x100000, 0xfff, WRITABLE + ABSENT
    segment CONSTANT, 0x100000, 0xfff, READ_ONLY, 0
    segment CODE_ONLY, 0x100000, 0xfff, EXECUTE
    segment LARGE, 0, 0x12345, WRITABLE, PAGES
    mov eax, UP
    mov fs, eax
    mov eax, USER_DATA
    mov gs, eax
    loads code, fs, CODE_ONLY
    loads absent, fs, GONE
    loads absent_stack, ss, GONE
    loads constant_stack, ss, CONSTANT
    loads null_stack, ss, 0
    loads beyond, gs, 0x7f8
    loads no_ldt, gs, 4
    loads system, gs, TSS
    resume_at ring3_after
    enter_user in_ring3
in_ring3:
    mov eax, DATA
ring3:
    mov gs, eax
ring3_after:
    mov eax, USER_DATA
    mov gs, eax
    resume_at ring3_code_after
    enter_user again_ring3
again_ring3:
ring3_code:
    .byte 0x9a                          /* CALL far */
    .long done
    .word CODE
ring3_code_after:
    mov eax, UP
    lsl ebx, eax
    mov fs, eax
    mov eax, LARGE
    lsl ecx, eax
    mov eax, CONSTANT
    lar edx, eax
    verw ax
    setnz al
    movzx esi, al
    mov eax, USER_DATA
    mov gs, eax
done:
    hlt
