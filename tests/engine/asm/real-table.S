/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Real mode's vector table: elsewhere, by LIDT; beyond its limit #GP; where #GP and #DF are beyond it
 * too, the processor shuts down.
 *
 *     start  real
 *     end    shutdown
 *     event  0x20 rip=moved-IMAGE
 *     event  13 rip=beyond-IMAGE
 *     state  rip=last-IMAGE rax&0xffff=0x77
 */
#include "real.inc"

    begin
    mov dword ptr [table - IMAGE + 0x20 * 4], SEGMENT << 16
    mov word ptr [table - IMAGE + 0x20 * 4], offset stubs - IMAGE + 16 * 0x20
    mov dword ptr [table - IMAGE + 13 * 4], SEGMENT << 16
    mov word ptr [table - IMAGE + 13 * 4], offset stubs - IMAGE + 16 * 13
    lidt [register - IMAGE]
    int 0x20
moved:
    mov ax, 0x77
    faults beyond, int 0x21
    mov word ptr [register - IMAGE], 4 * 8 - 1
    lidt [register - IMAGE]
last:
    int 0x20
done:
    hlt

register:
    .word 4 * 0x21 - 1
    .long table
    .balign 4
table:
    .fill 0x21, 4, 0
