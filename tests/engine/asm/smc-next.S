/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A store changes the instruction right behind it, in the same block: it runs as changed (SDM 3A
 * 8.1.3 promises that for self-modifying code on one processor). Twice, the block being known then.
 *
 *     start  long
 *     state  rbx=0x4243 rcx=0
 */
#include "long.inc"

    begin
    mov ecx, 2
    mov edx, 0x41
again:
    inc edx
    mov byte ptr [patched + 1], dl
patched:
    mov al, 0
    shl ebx, 8
    or bl, al
    dec ecx
    jnz again
done:
    hlt
