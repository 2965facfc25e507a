/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A call gate from ring 3: the stack of ring 0 with the old one's pointer, two parameters and the
 * return address on it; a return that takes them off both stacks and empties segments that ring 3 may
 * not have. Gates ring 3 may not use, or that are absent.
 *
 *     start  protected
 *     event  0x20 cs=USER_CODE rip=again_end rsp=user_stack_top
 *     event  #GP error=PRIVATE cs=USER_CODE rip=private
 *     event  #NP error=GONE cs=USER_CODE rip=absent
 *     state  dword[seen]=returned dword[seen+4]=USER_CODE
 *     state  dword[seen+8]=0x22 dword[seen+12]=0x11 dword[seen+16]=user_stack_top-8
 *     state  dword[seen+20]=USER_DATA rsi=handler_stack_top-24 fs=0
 */
#include "protected.inc"

    .set GATE, SPARE
    .set PRIVATE, SPARE + 8
    .set GONE, SPARE + 16

    .macro call_gate selector
    .byte 0x9a
    .long 0
    .word \selector
    .endm

    begin
    gate GATE, entry, CALL_GATE + DPL3, 2
    gate PRIVATE, entry, CALL_GATE
    gate GONE, entry, CALL_GATE + DPL3 + ABSENT
    resume_at second
    enter_user ring3
ring3:
    push 0x11
    push 0x22
    call_gate GATE + 3
returned:
    int 0x20
again_end:
second:
    resume_at third
    enter_user ring3_private
ring3_private:
private:
    call_gate PRIVATE + 3
third:
    resume_at done
    enter_user ring3_absent
ring3_absent:
absent:
    call_gate GONE + 3
done:
    hlt

entry:
    mov esi, esp
    mov eax, DATA
    mov ds, eax
    mov fs, eax
    .set place, 0
    .rept 6
    mov eax, [esp + place]
    mov [seen + place], eax
    .set place, place + 4
    .endr
    retf 8
seen:
    .fill 6, 4, 0
