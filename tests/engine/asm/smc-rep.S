/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * REP MOVSB copies over the code right behind itself, upwards and then downwards: the copy runs.
 *
 *     start  long
 *     state  r8=0x302 rbx=0x504 rcx=0 rsi=second-1 rdi=target-1
 */
#include "long.inc"

    begin
    mov esi, offset first
    mov edi, offset target
    call copy
    mov r8d, ebx
    mov esi, offset second + 3
    mov edi, offset target + 3
    std
    call copy
done:
    hlt
copy:
    mov ecx, 4
    rep movsb
target:
    mov bl, 1
    nop
    nop
    cld
    ret
first:
    mov bl, 2
    mov bh, 3
second:
    mov bl, 4
    mov bh, 5
