/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Accessed and dirty bits of the leaf (SDM 3A 4.8): a read sets the one, a write both, a write that is
 * refused not the other; a locked comparison that fails is a write. A repeat of no iterations is
 * nothing, and so is a page nobody goes to.
 *
 *     start  long
 *     event  #PF error=3 rip=refused cr2=WINDOW+0x2000
 *     state  quad[window_pt+0]=FRAMES+P+W+A       quad[window_pt+8]=FRAMES+P+W+A+D
 *     state  quad[window_pt+0x10]&D=0             quad[window_pt+0x18]=FRAMES+P+W+A+D
 *     state  quad[window_pt+0x20]=FRAMES+P+W+A+D  quad[window_pt+0x28]=FRAMES+P+W
 *     state  quad[window_pt+0x30]=FRAMES+P+W+A    quad[window_pt+0x38]=FRAMES+P+A+D
 *     state  quad[window_pt+0x40]=FRAMES+P+W+A    quad[window_pt+0x48]=FRAMES+P+W
 *     state  quad[pd+8]=window_pt+P+W+U+A         quad[pd+0x10]=P+W+U+PS
 *     state  quad[pml4]=pdpt+P+W+U+A              quad[pdpt]=pd+P+W+U+A
 */
#include "long.inc"

    page 0, FRAMES, P + W
    page 1, FRAMES, P + W
    page 2, FRAMES, P
    page 3, FRAMES, P + W
    page 4, FRAMES, P + W
    page 5, FRAMES, P + W
    page 6, FRAMES, P + W
    page 7, FRAMES, P
    page 8, FRAMES, P + W
    page 9, FRAMES, P + W

    begin
    mov dword ptr [FRAMES], 0xc3        /* ret */
    cmp [WINDOW], eax
    mov [WINDOW + 0x1800], eax
    faults refused, mov [WINDOW + 0x2800 - 0x800], eax
    cmp [WINDOW + 0x3000], eax          /* first a read, then a write through what is cached */
    mov [WINDOW + 0x3800], eax
    lock cmpxchg [WINDOW + 0x4000], ecx /* 0 is not C3h */
    mov edi, WINDOW + 0x5000
    xor ecx, ecx
    rep stosb
    mov esi, WINDOW + 0x6000
    call rsi
    clear_cr 0, CR0_WP
    mov [WINDOW + 0x7800], ecx
    mov esi, WINDOW + 0x8000
    mov edi, WINDOW + 0x9000
    lodsb
    lea rax, [rdi]
done:
    hlt
