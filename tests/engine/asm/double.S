/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Faults while a fault is delivered (SDM 3A table 6-5): a contributory one behind a contributory one,
 * and any behind a page fault, make #DF; behind a benign one they are delivered by themselves, as
 * caused by an external event. A stack that is not there is one of them.
 *
 *     start  long
 *     event  #DF error=0 rip=contributory
 *     event  #DF error=0 rip=page cr2=WINDOW
 *     event  #DF error=0 rip=page_stack cr2=WINDOW+0x1ff8 rsp=WINDOW+0x2000
 *     event  #NP error=0x33 rip=benign
 *     event  #DF error=0 rip=contributory_benign
 *     state  rax=0x11
 */
#include "long.inc"

    .macro absent vector
    and byte ptr [idt + 16 * \vector + 5], 0x7f
    .endm
    .macro present vector
    or byte ptr [idt + 16 * \vector + 5], 0x80
    .endm

    begin
    own_stack 8
    mov eax, 0x11
    mov rsi, 1 << 62
    absent 13
    faults contributory, mov eax, [rsi]
    present 13
    absent 14
    faults page, mov eax, [WINDOW]
    present 14
    resume_at page_stack_after
    mov esp, WINDOW + 0x2000
page_stack:
    mov eax, [WINDOW + 0x800]
page_stack_after:
    absent 6
    faults benign, ud2
    absent 11
    faults contributory_benign, ud2
    present 6
    present 11
done:
    hlt
