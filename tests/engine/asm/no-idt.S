/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * An IDT with no room for the gate, then with none for #GP's, then none at all: #GP in place of the
 * breakpoint, #DF in place of #GP, shutdown.
 *
 *     start  long
 *     end    shutdown
 *     event  #GP error=0x102 rip=software
 *     event  #DF error=0 rip=fault
 *     state  rip=last
 */
#include "long.inc"

    begin
    mov word ptr [idt_register], 16 * 32 - 1
    lidt [idt_register]
    faults software, int 0x20
    mov word ptr [idt_register], 16 * 13 - 1
    lidt [idt_register]
    mov rsi, 1 << 62
    faults fault, mov eax, [rsi]
    mov word ptr [idt_register], 0
    lidt [idt_register]
last:
    ud2
done:
    hlt
