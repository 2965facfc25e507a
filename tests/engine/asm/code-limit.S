/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The end of a code segment: jumps and returns beyond it fault where they stand, an instruction that
 * lies across it where it stands, one that ends with it runs, and what is behind does not begin.
 *
 *     start  protected
 *     event  #GP error=0 rip=jump cs=LIMITED
 *     event  #GP error=0 rip=across cs=LIMITED
 *     event  #GP error=0 rip=past cs=LIMITED
 *     state  rbx=1
 */
#include "protected.inc"

    .set LIMITED, SPARE

    .macro far_jump label
    .byte 0xea
    .long \label
    .word LIMITED
    .endm

    begin
    segment LIMITED, 0, 0, EXECUTE_READ
    mov word ptr [gdt + LIMITED], offset past - IMAGE - 1
    mov byte ptr [gdt + LIMITED + 6], BIG + (IMAGE >> 16)
    resume_at jump_after
    far_jump jump
jump_after:
    resume_at across_after
    mov word ptr [gdt + LIMITED], offset across - IMAGE + 3
    far_jump across
across_after:
    mov word ptr [gdt + LIMITED], offset past - IMAGE - 1
    resume_at past_after
    far_jump last
past_after:
    jmp done
jump:
    jmp behind
across:
    mov eax, 0x12345678
last:
    inc ebx
past:
    inc ebx
behind:
    ud2
done:
    hlt
