/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * LOCK on what cannot be locked is #UD: loads, stores, comparisons, register destinations, and an
 * instruction whose operand would fault besides. On what can, it runs.
 *
 *     start  long
 *     event  #UD rip=store
 *     event  #UD rip=compare
 *     event  #UD rip=test
 *     event  #UD rip=register
 *     event  #UD rip=register8
 *     event  #UD rip=bit_test
 *     event  #UD rip=left_shift
 *     event  #UD rip=absent
 *     event  #UD rip=push
 *     event  #UD rip=string
 *     state  rax=0x11 dword[number]=0x12
 */
#include "long.inc"

    .macro locked name, insn:vararg
    resume_at \name\()_after
\name:
    .byte 0xf0
    \insn
\name\()_after:
    .endm

    begin
    mov eax, 0x11
    mov edi, WINDOW
    mov esi, offset number
    locked store, mov [rsi], eax
    locked compare, cmp [rsi], eax
    locked test, test [rsi], eax
    locked register, add eax, ecx
    locked register8, xchg al, cl
    locked bit_test, bt dword ptr [rsi], 1
    locked left_shift, shl dword ptr [rsi], 1
    locked absent, mov [rdi], eax
    locked push, push rax
    locked string, stosb
    lock inc dword ptr [rsi]
    lock neg dword ptr [rsi]
    lock not dword ptr [rsi]
    lock btr dword ptr [rsi], 0
    lock or dword ptr [rsi], 2
done:
    hlt

number:
    .long 0x11
