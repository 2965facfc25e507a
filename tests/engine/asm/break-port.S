/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Breakpoints on ports, with CR4.DE: a trap after the instruction that has used one of them, string
 * instructions too; none without CR4.DE, none where the port may not be used.
 *
 *     start  long
 *     event  #DB rip=out_end dr6=DR6_FIXED+1
 *     event  #DB rip=in_end dr6=DR6_FIXED+1
 *     event  #DB rip=string_end dr6=DR6_FIXED+1
 *     event  #GP error=0 rip=ring3+USER dr6=DR6_FIXED
 *     state  rbx=2
 */
#include "long.inc"

    begin
    mov ecx, 0x80
    mov dr0, rcx
    mov ecx, 0x400 + 1 + (0xe << 16)    /* L0: four ports */
    mov dr7, rcx
    out 0x80, al
    set_cr 4, CR4_DE
    inc ebx
    out 0x7f, al
    out 0x84, al
    out 0x83, al
out_end:
    in ax, 0x7f
in_end:
    mov edx, 0x81
    mov esi, FRAMES
    outsb
string_end:
    inc ebx
    resume_at done
    enter_user ring3
ring3:
    out 0x80, al
done:
    hlt
