/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * SMAP: CPL 0 reads and writes the user's pages only with EFLAGS.AC, set by STAC or POPF; the
 * processor's own accesses (here to the LDT) not even then (SDM 3A 4.6).
 *
 *     start  long
 *     event  #PF error=1 rip=load cr2=WINDOW
 *     event  #PF error=3 rip=store cr2=WINDOW
 *     event  #PF error=1 rip=after_clac cr2=WINDOW
 *     event  #PF error=1 rip=after_popf cr2=WINDOW
 *     event  #PF error=1 rip=implicit cr2=WINDOW+8 rflags&AC=AC
 *     event  #BP cs=USER64
 *     state  rax=0x77 rbx=0x77 rcx=0x77 dword[FRAMES]=0x77
 */
#include "long.inc"

    page 0, FRAMES, P + W + U

    begin
    mov dword ptr [gdt + SPARE], (WINDOW & 0xffff) << 16 | 0xfff    /* an LDT at WINDOW */
    mov dword ptr [gdt + SPARE + 4], (WINDOW >> 16) | 0x8200
    mov eax, SPARE
    lldt ax
    set_cr 4, CR4_SMAP
    faults load, mov eax, [WINDOW]
    faults store, mov [WINDOW], eax
    stac
    mov dword ptr [WINDOW], 0x77
    mov eax, [WINDOW]
    clac
    faults after_clac, mov ecx, [WINDOW]
    push AC + 2
    popfq
    mov ebx, [WINDOW]
    push 2
    popfq
    faults after_popf, mov ecx, [WINDOW]
    mov edx, 0x0c
    stac
    faults implicit, mov es, edx
    resume_at done
    enter_user ring3
ring3:
    mov ecx, [WINDOW]
    int3
done:
    hlt
