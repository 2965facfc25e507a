/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Virtual-8086 mode: entered by IRET, segments of 16 times the selector; what is IOPL-sensitive faults
 * without IOPL 3, and INT n goes to ring 0 with it, with all segments on the stack and null data
 * segments in the handler; a word at FFFFh is beyond the limit.
 *
 *     start  protected
 *     event  #GP error=0 rip=in_clear-IMAGE cs=SEGMENT rflags&VM=VM
 *     event  #GP error=0 rip=in_int-IMAGE cs=SEGMENT
 *     event  #BP rip=in_break_end-IMAGE cs=SEGMENT
 *     event  0x21 rip=in_iopl_end-IMAGE rflags&VM=VM rsp=0x1000
 *     event  #GP error=0 rip=in_edge-IMAGE
 *     event  #GP error=0 rip=in_real-IMAGE
 *     state  rcx=0x1234 rdx=0
 */
#include "protected.inc"

    .set IOPL3, 3 << 12
    .set SEGMENT, IMAGE / 16

    .macro in_v86 name, flags, insn:vararg
    resume_at \name\()_after
    push SEGMENT                        /* gs, fs, ds, es, ss */
    push SEGMENT
    push SEGMENT
    push SEGMENT
    push 0x3000
    push 0x1000
    push VM + (\flags) + 2
    push SEGMENT
    push offset \name - IMAGE
    iretd
    .code16
\name:
    \insn
\name\()_end:
    .code32
\name\()_after:
    .endm

    begin
    mov dword ptr [0x30000], 0
    in_v86 in_clear, 0, cli
    in_v86 in_int, 0, int 0x20
    in_v86 in_break, 0, int3
    mov word ptr [idt + 0x22 * 8], offset segments - IMAGE
    in_v86 in_iopl, IOPL3, int 0x21
    in_v86 in_edge, 0, mov ax, [0xffff]
    mov ecx, 0x1234
    in_v86 in_real, 0, mov eax, cr0
    in_v86 in_segments, IOPL3, int 0x22
segments:
    mov edx, ds
    mov eax, es
    or edx, eax
    mov eax, fs
    or edx, eax
    mov eax, gs
    or edx, eax
done:
    hlt
