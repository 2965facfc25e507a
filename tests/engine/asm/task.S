/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Task switches: a call leaves its back link, NT and two busy tasks, IRET comes back and leaves one; a
 * jump leaves one. CR0.TS is set each time, and registers go to the TSS they belong to. A switch to a
 * busy task, an absent one, or one that is too short fails before it begins.
 *
 *     start  protected
 *     event  #GP error=TSS rip=busy
 *     event  #NP error=TASK rip=absent
 *     event  #TS error=TASK rip=short
 *     state  rax=0x11 rbx=0x22 rcx=0x55 word[other]=TSS dword[other+40]=0x66 dword[tss+40]=0x11
 *     state  rdx&NT=NT rsi=CR0_TS tr=TSS byte[gdt+TSS+5]=TSS32+2 byte[gdt+TASK+5]=TSS32-0x80
 *     state  dword[tss+32]=returned rflags&NT=0 byte[seen]=TSS32+2 byte[seen+1]=TSS32+2
 */
#include "protected.inc"

    .macro call_task selector
    .byte 0x9a
    .long 0
    .word \selector
    .endm
    .macro jump_task selector
    .byte 0xea
    .long 0
    .word \selector
    .endm

    begin
    segment TASK, "offset other", 0x67, TSS32, 0
    mov dword ptr [other + 32], offset task
    mov eax, 0x11
    mov ebx, 0x22
    call_task TASK
returned:
    mov esi, cr0
    and esi, CR0_TS
    clts
    mov ecx, [other + 44]
    faults busy, jump_task TSS
    mov byte ptr [gdt + TASK + 5], TSS32 - 0x80
    faults absent, call_task TASK
    mov byte ptr [gdt + TASK + 5], TSS32
    mov byte ptr [gdt + TASK], 0x66
    faults short, call_task TASK
    mov byte ptr [gdt + TASK + 5], TSS32 - 0x80
    mov edx, [saved]
done:
    hlt
task:
    mov eax, 0x66
    mov ecx, 0x55
    pushfd
    pop dword ptr [saved]
    mov dl, [gdt + TSS + 5]
    mov [seen], dl
    mov dl, [gdt + TASK + 5]
    mov [seen + 1], dl
    iretd
    hlt

saved:
    .long 0
seen:
    .word 0
other:
    task_state task_stack
    .skip 64
task_stack:
