/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * #DF through a task gate: the handler is a task of its own with a stack that is good, whatever has
 * become of the interrupted one; the error code lies on it, and the interrupted task's TSS says where
 * it was.
 *
 *     start  protected
 *     state  dword[tss+32]=fault dword[tss+56]=8 word[other]=TSS rax=0 tr=TASK
 *     state  rsp=task_stack
 */
#include "protected.inc"

    .set SMALL, SPARE

    begin
    segment TASK, "offset other", 0x67, TSS32, 0
    segment SMALL, 0x100000, 7, WRITABLE
    mov dword ptr [idt + 8 * 8], TASK << 16
    mov dword ptr [idt + 8 * 8 + 4], TASK_GATE << 8
    mov dword ptr [other + 32], offset handler
    mov eax, SMALL
    mov ss, eax
    mov esp, 8
fault:
    mov eax, [esp + 0x100]              /* #SS, and its frame has no room */
handler:
    pop eax
done:
    hlt

other:
    task_state task_stack
    .skip 64
task_stack:
