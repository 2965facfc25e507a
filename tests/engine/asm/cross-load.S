/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Loads that cross into an absent page: #PF, and the destination keeps its value.
 *
 *     start  long
 *     event  #PF error=0 rip=plain cr2=WINDOW+0x1000 rflags&RF=RF
 *     event  #PF error=0 rip=extended cr2=WINDOW+0x1000
 *     event  #PF error=0 rip=vector cr2=WINDOW+0x1000
 *     event  #PF error=0 rip=sum cr2=WINDOW+0x1000
 *     event  #PF error=0 rip=string cr2=WINDOW+0x1000
 *     event  #PF error=0 rip=first cr2=WINDOW+0x1fff
 *     state  rax=0x11 rcx=0x22 rdx=0-1 rsi=WINDOW+0xffe
 */
#include "long.inc"

    page 0, FRAMES, P + W
    page 2, FRAMES, P + W

    begin
    mov eax, 0x11
    mov ecx, 0x22
    pcmpeqd xmm0, xmm0
    mov edi, WINDOW + 0xfff
    mov esi, WINDOW + 0xffe
    faults plain, mov rax, [rdi]
    faults extended, movzx ecx, word ptr [rdi]
    faults vector, movups xmm0, [rdi]
    faults sum, add eax, [rdi]
    faults string, lodsd
    faults first, mov rax, [rdi + 0x1000]
    movq rdx, xmm0
done:
    hlt
