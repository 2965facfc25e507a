/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Ring 3 at the supervisor's pages: error codes of a load, a store, a fetch, and of a store to a page
 * it may read; a page of its own in a directory of the supervisor's is not its own.
 *
 *     start  long
 *     event  #PF error=5 cr2=WINDOW rip=load+USER cs=USER64
 *     event  #PF error=7 cr2=WINDOW rip=store+USER
 *     event  #PF error=0x15 cr2=WINDOW rip=WINDOW
 *     event  #PF error=7 cr2=WINDOW+0x1000 rip=read_only+USER
 *     event  #PF error=4 cr2=WINDOW+0x2000 rip=absent+USER
 *     event  #PF error=5 cr2=WINDOW+0x1000 rip=above+USER
 *     state  rax=0x66 rbx=0x55
 */
#include "long.inc"

    .macro in_ring3 name, insn:vararg
    resume_at \name\()_after
    enter_user \name
\name:
    \insn
\name\()_after:
    .endm

    page 0, FRAMES, P + W
    page 1, FRAMES, P + U

    begin
    mov dword ptr [FRAMES], 0x55
    mov eax, 0x66
    mov edi, WINDOW
    in_ring3 load, mov eax, [WINDOW]
    in_ring3 store, mov [WINDOW], eax
    in_ring3 fetch, jmp rdi
    in_ring3 read_only, xadd [WINDOW + 0x1000], ebx
    in_ring3 absent, mov eax, [WINDOW + 0x2000]
    mov ebx, [WINDOW + 0x1000]
    and qword ptr [pd + 8], ~U
    mov rcx, cr3
    mov cr3, rcx
    in_ring3 above, mov eax, [WINDOW + 0x1000]
done:
    hlt
