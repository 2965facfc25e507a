/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What PCIDs refuse: CR4.PCIDE while CR3 names one, or outside long mode's paging; INVPCID of an
 * unknown kind, with reserved bits, of an address not canonical; CR0.PG=0 while they are on. Nothing
 * changes.
 *
 *     start  long
 *     event  #GP error=0 rip=named
 *     event  #GP error=0 rip=off
 *     event  #GP error=0 rip=kind
 *     event  #GP error=0 rip=bits
 *     event  #GP error=0 rip=address
 *     event  #GP error=0 rip=high
 *     state  cr4&CR4_PCIDE=0 cr3=pml4
 */
#include "long.inc"

    begin
    mov rcx, cr4
    mov rbx, rcx
    or rcx, CR4_PCIDE
    mov eax, offset pml4 + 0x18         /* PWT and PCD without PCIDs, a number with them */
    mov cr3, rax
    faults named, mov cr4, rcx
    mov eax, offset pml4
    mov cr3, rax
    mov eax, 1
    mov qword ptr [descriptor], 5
    faults off, invpcid rax, [descriptor]
    mov cr4, rcx
    mov eax, 4
    faults kind, invpcid rax, [descriptor]
    mov eax, 0
    mov qword ptr [descriptor], 0x1000
    faults bits, invpcid rax, [descriptor]
    mov qword ptr [descriptor], 0
    mov byte ptr [descriptor + 15], 0x80
    faults address, invpcid rax, [descriptor]
    mov cr4, rbx
    mov rax, 1 << 62
    faults high, mov cr3, rax
done:
    hlt

descriptor:
    .quad 0, 0
