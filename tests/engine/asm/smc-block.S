/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A function is called, changed by its caller in the same page, and called again; then it changes
 * its own caller.
 *
 *     start  long
 *     state  rax=0x31 rbx=1 rdx=5
 */
#include "long.inc"

    begin
    call function
    mov ebx, eax
    mov byte ptr [function + 1], 0x31
    call function
    call changes_caller
changed:
    mov edx, 4
done:
    hlt

function:
    mov eax, 1
    ret
changes_caller:
    mov byte ptr [changed + 1], 5
    ret
