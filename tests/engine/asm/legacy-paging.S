/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * 32-bit paging: pages of 4 KiB and of 4 MiB, PSE off and on; accessed and dirty bits of 4-byte
 * entries; rights of both levels together.
 *
 *     start  protected
 *     event  #PF error=3 rip=read_only cr2=0x801000
 *     event  #PF error=3 rip=above cr2=0xc00000
 *     event  #PF error=9 rip=reserved cr2=0x1000000
 *     state  rax=0x11 rbx=0x11 dword[pt+0]=0x200063 dword[pt+4]=0x200021 dword[pd+8]=pt+0x23
 *     state  dword[pd+4]=0xa3
 */
#include "protected.inc"

    .set CR4_PSE, 1 << 4

    begin
    mov dword ptr [0x200000], 0x11
    mov eax, offset pd
    mov cr3, eax
    mov eax, cr4
    or eax, CR4_PSE
    mov cr4, eax
    mov eax, cr0
    or eax, CR0_PG + CR0_WP
    mov cr0, eax
    mov eax, [0x600000]                 /* 400000h on: 0 on */
    mov ebx, [0x801000]
    mov [0x800000], ebx
    faults read_only, mov [0x801000], ebx
    faults above, mov [0xc00000], ebx
    faults reserved, mov ebx, [0x1000000]
done:
    hlt

    .section .tables, "aw"
    .balign 4096
pd:
    .long 0x83, 0x83, pt + 3, pt + 1, 0x202083
    .fill 1019, 4, 0
pt:
    .long 0x200003, 0x200001
    .fill 1022, 4, 0
