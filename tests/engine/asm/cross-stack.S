/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Pushes and pops across a page that is absent: RSP is as before the instruction, and so is RIP. The
 * address is that of the first absent byte.
 *
 *     start  long
 *     event  #PF error=2 rip=pushes cr2=WINDOW+0xffc rsp=WINDOW+0x1004
 *     event  #PF error=2 rip=calls cr2=WINDOW+0xffc rsp=WINDOW+0x1004
 *     event  #PF error=2 rip=memory cr2=WINDOW+0xffc rsp=WINDOW+0x1004
 *     event  #PF error=2 rip=flags cr2=WINDOW+0xffc rsp=WINDOW+0x1004
 *     event  #PF error=2 rip=frame cr2=WINDOW+0xffc rsp=WINDOW+0x1004
 *     event  #PF error=0 rip=pops cr2=WINDOW+0x2000 rsp=WINDOW+0x1ffc
 *     event  #PF error=0 rip=returns cr2=WINDOW+0x2000 rsp=WINDOW+0x1ffc
 *     event  #PF error=0 rip=leaves cr2=WINDOW+0x2000 rsp=WINDOW+0x1ffc
 *     event  #PF error=2 rip=to_memory cr2=WINDOW rsp=WINDOW+0x1800
 *     state  rax=0x55 rbp=WINDOW+0x1ffc quad[FRAMES]=0
 */
#include "long.inc"

    page 1, FRAMES, P + W

    .macro on_stack at, name, insn:vararg
    resume_at \name\()_after
    mov esp, \at
\name:
    \insn
\name\()_after:
    .endm

    begin
    own_stack 14
    mov eax, 0x55
    mov ebp, WINDOW + 0x1ffc
    on_stack WINDOW + 0x1004, pushes, push rax
    on_stack WINDOW + 0x1004, calls, call done
    on_stack WINDOW + 0x1004, memory, push qword ptr [pml4]
    on_stack WINDOW + 0x1004, flags, pushfq
    on_stack WINDOW + 0x1004, frame, enter 16, 0
    on_stack WINDOW + 0x1ffc, pops, pop rax
    on_stack WINDOW + 0x1ffc, returns, ret
    on_stack WINDOW + 0x1ffc, leaves, leave
    on_stack WINDOW + 0x1800, to_memory, pop qword ptr [WINDOW]
done:
    hlt
