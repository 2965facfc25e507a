/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * An instruction that goes on in an absent page, and in one not to be executed: #PF of a fetch with
 * the second page's address. One that ends with its page looks at no byte of the next.
 *
 *     start  long
 *     event  #PF error=0x10 rip=WINDOW+0xffe cr2=WINDOW+0x1000
 *     event  #PF error=0x11 rip=WINDOW+0xffe cr2=WINDOW+0x1000
 *     event  #PF error=0x10 rip=WINDOW+0x2000 cr2=WINDOW+0x2000
 *     state  rax=0x44332211 rbx=1 rcx=2
 */
#include "long.inc"

    page 0, FRAMES, P + W
    page 3, FRAMES + 0x1000, P + W

    begin
    mov dword ptr [FRAMES + 0xffc], 0x11b8c390  /* nop; ret; mov eax, imm32 */
    mov dword ptr [FRAMES + 0x1000], 0xc3443322
    mov edi, WINDOW + 0xffe
    mov esi, WINDOW + 0xffc
    call rsi
    mov ebx, 1
    resume_at absent
    call rdi
absent:
    mov rdx, NX + FRAMES + 0x1000 + P
    mov [window_pt + 8], rdx
    resume_at forbidden
    call rdi
forbidden:
    btr rdx, 63
    mov [window_pt + 8], rdx
    invlpg [WINDOW + 0x1000]
    call rdi
    mov ecx, 2
    mov byte ptr [FRAMES + 0x1fff], 0x90        /* runs off the end of page 1 */
    mov edi, WINDOW + 0x1fff
    resume_at done
    call rdi
done:
    hlt
