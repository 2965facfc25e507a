/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Read-modify-writes that cross into a read-only page: #PF for a write, and neither memory nor the
 * registers change. A comparison that would fail needs the right to write as well.
 *
 *     start  long
 *     event  #PF error=3 rip=plain cr2=WINDOW+0x1000 rflags&ARITH=0
 *     event  #PF error=3 rip=exchange cr2=WINDOW+0x1000
 *     event  #PF error=3 rip=locked cr2=WINDOW+0x1000
 *     event  #PF error=3 rip=compare cr2=WINDOW+0x1000
 *     event  #PF error=3 rip=compare8 cr2=WINDOW+0x1000
 *     event  #PF error=3 rip=bit cr2=WINDOW+0x1000
 *     event  #PF error=3 rip=shift cr2=WINDOW+0x1000
 *     event  #PF error=3 rip=sum cr2=WINDOW+0x1000
 *     state  rax=0x11 rcx=0x22 rdx=0x33 rbx=0x44
 *     state  quad[FRAMES+0xff8]=0x8877665544332211 quad[FRAMES+0x1000]=0xffeeddccbbaa9988
 */
#include "long.inc"

    page 0, FRAMES, P + W
    page 1, FRAMES + 0x1000, P

    begin
    mov rax, 0x8877665544332211
    mov [FRAMES + 0xff8], rax
    mov rax, 0xffeeddccbbaa9988
    mov [FRAMES + 0x1000], rax
    mov eax, 0x11
    mov ecx, 0x22
    mov edx, 0x33
    mov ebx, 0x44
    mov edi, WINDOW + 0xffe
    push 2
    popfq
    faults plain, add [rdi], eax
    faults exchange, xchg [rdi], ecx
    faults locked, lock inc dword ptr [rdi]
    faults compare, cmpxchg [rdi], ecx
    faults compare8, lock cmpxchg8b [rdi]
    faults bit, btc dword ptr [rdi], 20
    faults shift, shld [rdi], ecx, 4
    faults sum, xadd [rdi], ebx
done:
    hlt
