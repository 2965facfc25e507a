/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Stores that cross into an absent page: #PF with the second page's address, and not a byte of the
 * first page is written, nor does it get dirty.
 *
 *     start  long
 *     event  #PF error=2 rip=word cr2=WINDOW+0x1000
 *     event  #PF error=2 rip=dword cr2=WINDOW+0x1000
 *     event  #PF error=2 rip=quad cr2=WINDOW+0x1000
 *     event  #PF error=2 rip=vector cr2=WINDOW+0x1000
 *     event  #PF error=2 rip=ten cr2=WINDOW+0x1000
 *     event  #PF error=2 rip=string cr2=WINDOW+0x1000
 *     event  #PF error=2 rip=image cr2=WINDOW+0x1000
 *     state  quad[window_pt]&D=0
 *     state  quad[FRAMES+0xff0]=0-1 quad[FRAMES+0xff8]=0-1 rdi=WINDOW+0xffc
 */
#include "long.inc"

    page 0, FRAMES, P + W

    begin
    or qword ptr [FRAMES + 0xff0], -1
    or qword ptr [FRAMES + 0xff8], -1
    fldz
    faults word, mov word ptr [WINDOW + 0xfff], ax
    faults dword, mov dword ptr [WINDOW + 0xffd], 0
    faults quad, mov qword ptr [WINDOW + 0xff9], rax
    faults vector, movups [WINDOW + 0xff1], xmm0
    faults ten, fstp tbyte ptr [WINDOW + 0xff7]
    mov edi, WINDOW + 0xffc
    faults string, stosq
    faults image, sgdt [WINDOW + 0xff8]
done:
    hlt
