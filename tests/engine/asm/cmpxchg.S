/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * CMPXCHG, CMPXCHG8B and CMPXCHG16B that fail still write (the old value): a read-only page faults,
 * and the dirty bit is set. The 16-byte one wants its operand aligned.
 *
 *     start  long
 *     event  #PF error=3 rip=plain cr2=WINDOW
 *     event  #PF error=3 rip=eight cr2=WINDOW
 *     event  #PF error=3 rip=sixteen cr2=WINDOW
 *     event  #GP error=0 rip=odd
 *     state  rax=0x3000000030 rdx=0x4000000040 quad[window_pt+8]&D=D quad[window_pt+0x10]&D=D
 *     state  quad[FRAMES+8]=8 quad[FRAMES]=7 r8=0x30 r9=0x30 rflags&ZF=0
 */
#include "long.inc"

    page 0, FRAMES + 0x1000, P
    page 1, FRAMES + 0x1000, P + W
    page 2, FRAMES + 0x1000, P + W
    page 3, FRAMES, P + W

    begin
    mov rax, 0x3000000030
    mov [FRAMES + 0x1000], rax
    mov rdx, 0x4000000040
    mov [FRAMES + 0x1008], rdx
    xor eax, eax
    xor edx, edx
    mov edi, WINDOW
    faults plain, cmpxchg [rdi], ecx
    faults eight, lock cmpxchg8b [rdi]
    faults sixteen, lock cmpxchg16b [rdi]
    faults odd, cmpxchg16b [rdi + 8]
    cmpxchg [rdi + 0x1000], ecx
    mov r8d, eax
    xor eax, eax
    cmpxchg8b [rdi + 0x1000]
    mov r9d, edx
    lock cmpxchg16b [rdi + 0x3000]      /* of zeros, with the 30h and 30h read above: fails */
    mov ebx, 7
    mov ecx, 8
    lock cmpxchg16b [rdi + 0x3000]      /* succeeds */
    xor eax, eax
    xor edx, edx
    cmpxchg16b [rdi + 0x2000]
done:
    hlt
