/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * PAE: the four entries of the top level are loaded with CR3 and kept (SDM 3A 4.4.1): a change in
 * memory counts from the next load only, whatever is flushed; one with reserved bits keeps CR3 from
 * being loaded. 4 KiB, 2 MiB pages and the error code of NX with CR4.PAE.
 *
 *     start  protected
 *     event  #GP error=0 rip=reserved
 *     event  #PF error=2 rip=absent cr2=0x40000000
 *     state  rax=0x11 rbx=0x11 rcx=0x22 cr3=pdpt
 */
#include "protected.inc"

    begin
    mov dword ptr [0x200000], 0x11
    mov dword ptr [0x400000], 0x22
    mov eax, offset pdpt
    mov cr3, eax
    mov eax, cr4
    or eax, CR4_PAE
    mov cr4, eax
    mov eax, cr0
    or eax, CR0_PG
    mov cr0, eax
    mov eax, [0x40200000]
    mov esi, [pdpt + 8]
    mov dword ptr [pdpt + 8], offset pd_2 + 1
    invlpg [0x40200000]
    mov ebx, [0x40200000]               /* as it was loaded */
    mov edx, cr3
    mov cr3, edx
    mov ecx, [0x40200000]
    mov dword ptr [pdpt + 8], offset pd_2 + 7
    faults reserved, mov cr3, edx
    mov dword ptr [pdpt + 8], offset pd_2 + 1
    mov cr3, edx
    faults absent, mov [0x40000000], ecx
done:
    hlt

    .section .tables, "aw"
    .balign 4096
pd_1:
    .quad 0x83
    .quad 0x200083
    .fill 510, 8, 0
pd_2:
    .quad 0
    .quad pt + 3
    .fill 510, 8, 0
pt:
    .quad 0x400003
    .fill 511, 8, 0
    .balign 32
pdpt:
    .quad pd_1 + 1, pd_1 + 1, 0, 0
