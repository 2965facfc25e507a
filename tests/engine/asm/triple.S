/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A fault in the delivery of #DF: the processor shuts down, with RIP where it all began, although the
 * handler of that last fault could run.
 *
 *     start  long
 *     end    shutdown
 *     state  rip=fault rax=0x11 rsp=stack_top
 */
#include "long.inc"

    begin
    mov eax, 0x11
    mov rsi, 1 << 62
    and byte ptr [idt + 16 * 13 + 5], 0x7f
    and byte ptr [idt + 16 * 8 + 5], 0x7f
fault:
    mov eax, [rsi]                      /* #GP, #NP, #DF, and #NP again */
done:
    hlt
