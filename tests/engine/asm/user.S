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

    page 0, FRAMES, P + W
    page 1, FRAMES, P + U

    begin
    mov dword ptr [FRAMES], 0x55
    mov eax, 0x66
    mov edi, WINDOW
    faults_in_ring3 load, 2, mov eax, [WINDOW]
    faults_in_ring3 store, 2, mov [WINDOW], eax
    faults_in_ring3 fetch, 2, jmp rdi
    faults_in_ring3 read_only, 2, xadd [WINDOW + 0x1000], ebx
    faults_in_ring3 absent, 2, mov eax, [WINDOW + 0x2000]
    mov ebx, [WINDOW + 0x1000]
    and qword ptr [pd + 8], ~U
    mov rcx, cr3
    mov cr3, rcx
    faults_in_ring3 above, 2, mov eax, [WINDOW + 0x1000]
done:
    hlt
