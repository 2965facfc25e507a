/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Alignment checks: with CR0.AM and EFLAGS.AC ring 3 gets #AC for operands not at multiples of their
 * size, and nothing is written; not ring 0, not for bytes, not without the flag.
 *
 *     start  long
 *     event  #AC error=0 rip=load+USER
 *     event  #AC error=0 rip=store+USER
 *     event  #AC error=0 rip=stack+USER
 *     event  #AC error=0 rip=locked+USER
 *     event  #BP rip=aligned_end+USER
 *     event  #BP rip=without_end+USER
 *     state  rdi=USER+0x100000 quad[0x100000]=0
 */
#include "long.inc"

    begin
    mov edi, USER + 0x100000
    set_cr 0, CR0_AM
    passes_in_ring3 load, AC + 2, mov eax, [rdi + 2]
    passes_in_ring3 store, AC + 2, mov [rdi + 1], ax
    resume_at stack_after
    enter_user misalign, AC + 2
misalign:
    lea rsp, [rdi + 0x104]
stack:
    push rax
stack_after:
    passes_in_ring3 locked, AC + 2, lock inc qword ptr [rdi + 4]
    passes_in_ring3 aligned, AC + 2, cmp al, [rdi + 3]
    passes_in_ring3 without, 2, mov eax, [rdi + 2]
    set_flags AC + 2
    mov eax, [rdi + 1]
done:
    hlt
