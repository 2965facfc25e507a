/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Pages not to be executed: a call faults, a load does not; without EFER.NXE the bit is reserved, and
 * the page cannot be used at all.
 *
 *     start  long
 *     event  #PF error=0x11 rip=WINDOW cr2=WINDOW
 *     event  #PF error=0x11 rip=WINDOW cr2=WINDOW
 *     event  #PF error=9 rip=load cr2=WINDOW
 *     event  #PF error=0xb rip=store cr2=WINDOW
 *     state  rax=0xc3 rbx=1
 */
#include "long.inc"

    page 0, FRAMES, P + W + NX

    begin
    mov dword ptr [FRAMES], 0xc3        /* ret */
    mov edi, WINDOW
    resume_at forbidden
    call rdi
forbidden:
    mov eax, [rdi]
    btr qword ptr [window_pt], 63
    invlpg [rdi]
    call rdi
    bts qword ptr [window_pt], 63
    invlpg [rdi]
    mov esi, [rdi]
    resume_at again
    call rdi
again:
    mov ebx, 1
    write_msr MSR_EFER, 0x501           /* LMA, LME, SCE */
    mov rdx, cr3
    mov cr3, rdx
    mov eax, 0xc3
    faults load, mov edx, [rdi]
    faults store, mov [rdi], edx
done:
    hlt
