/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The instruction behind STI and behind MOV SS is not interrupted (SDM 3A 6.8.3); a second STI holds
 * nothing up; CLI behind STI lets nothing through; POPF and IRET let it through at once.
 *
 *     start  long
 *     event  0x30 rip=sti_end
 *     event  0x31 rip=sti_twice_end
 *     event  0x32 rip=mov_ss_end
 *     event  0x33 rip=popf_end
 *     event  0x34 rip=iret_end
 *     event  0x35 rip=halt_end
 *     state  rbx=4 rcx=3
 */
#include "long.inc"

    begin
    mov edx, DATA
    ask 0x30
    sti
    inc ebx
sti_end:
    cli
    ask 0x31
    sti
    sti
sti_twice_end:
    inc ebx
    cli
    ask 0x32
    sti
    mov ss, edx
    inc ebx
mov_ss_end:
    cli
    ask 0x33
    sti
    cli
    inc ecx
    set_flags IF + 2
popf_end:
    inc ecx
    cli
    ask 0x34
    push DATA
    push offset stack_top
    push IF + 2
    push CODE64
    push offset iret_end
    iretq
iret_end:
    inc ecx
    cli
    ask 0x35
    sti
    hlt
halt_end:
    inc ebx
    cli
done:
    hlt
