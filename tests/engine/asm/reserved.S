/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Reserved bits in paging structures (SDM 3A 4.5.4, 4.7): an address beyond what CPUID says, PS in a
 * PML4 entry, low address bits of a large page. Nothing in an absent entry is reserved.
 *
 *     start  long
 *     event  #PF error=9 rip=high cr2=WINDOW
 *     event  #PF error=0xb rip=high_store cr2=WINDOW
 *     event  #PF error=0 rip=absent cr2=WINDOW+0x1000
 *     event  #PF error=9 rip=large cr2=USER
 *     event  #PF error=9 rip=top cr2=TOP
 *     state  rax=0x11
 */
#include "long.inc"

    .set TOP, 1 << 39

    page 0, FRAMES, P + W + (1 << 51)
    page 1, FRAMES, (1 << 51) + U

    begin
    mov eax, 0x11
    faults high, mov eax, [WINDOW]
    faults high_store, mov [WINDOW], eax
    faults absent, mov eax, [WINDOW + 0x1000]
    or qword ptr [pd + 0x10], 1 << 13
    faults large, mov eax, [USER]
    mov rcx, [pml4]
    or rcx, PS
    mov [pml4 + 8], rcx
    mov rdi, TOP
    faults top, mov eax, [rdi]
done:
    hlt
