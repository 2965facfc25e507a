/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Where the last x87 instruction stood: kept by FXSAVE and FNSTENV, not changed by instructions that
 * only control. What memory it used, and its opcode: of the last one that met an unmasked exception,
 * as CPUID says (SDM 1 8.1.8). FNINIT clears all.
 *
 *     start  long
 *     state  quad[first+8]=loads quad[first+16]=0
 *     state  quad[second+8]=divides quad[second+16]=zero word[second+6]&0x738=0x30
 *     state  dword[environment+12]=divides dword[environment+20]=zero
 *     state  quad[third+8]=stores quad[third+16]=zero
 *     state  quad[fourth+8]=0 quad[fourth+16]=0 word[fourth+6]=0
 *     state  rbx&0x40=0x40
 */
#include "long.inc"

    begin
loads:
    fld dword ptr [number]
    fnstcw [word]
    fldcw [unmasked]
    fnstsw ax
    movups xmm0, [first]
    fxsave64 [first]
divides:
    fdiv dword ptr [zero]
    fxsave64 [second]
    fnstenv [environment]
    fnclex
stores:
    fst qword ptr [result]
    fxsave64 [third]
    fninit
    fxsave64 [fourth]
    mov eax, 7
    xor ecx, ecx
    cpuid
done:
    hlt
word:
    .word 0
unmasked:
    .word 0x37f - 4
number:
    .float 1.5
zero:
    .float 0
result:
    .quad 0
environment:
    .skip 28
    .balign 16
first:
    .skip 512
second:
    .skip 512
third:
    .skip 512
fourth:
    .skip 512
