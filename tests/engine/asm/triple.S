/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A fault in the delivery of #DF: the processor shuts down, with RIP where it all began and nothing
 * of the handlers run.
 *
 *     start  long
 *     end    shutdown
 *     state  rip=fault rax=0x11 rsp=WINDOW+0x1000
 */
#include "long.inc"

    begin
    mov eax, 0x11
    mov esp, WINDOW + 0x1000
    and byte ptr [idt + 16 * 14 + 5], 0x7f
fault:
    mov eax, [WINDOW]
done:
    hlt
