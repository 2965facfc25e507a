/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * PCIDs: with bit 63 of CR3 set nothing is flushed, and what belongs to the other identifier is not
 * used for this one; without it, and by each kind of INVPCID, what has been changed in memory is seen.
 *
 *     start  long
 *     state  rbx=0x1234567
 */
#include "long.inc"

    page 0, FRAMES, P + W
    second_space

    .macro space root, pcid, how=flush
    mov eax, offset \root + \pcid
    .ifc \how, keep
    bts rax, 63
    .endif
    mov cr3, rax
    .endm
    .macro look
    shl rbx, 4
    or bl, [WINDOW]
    .endm
    /* The frame behind the second space's window, whose first byte is its number. */
    .macro second_is frame
    mov qword ptr [window_pt_2], FRAMES + (\frame) * 0x1000 + P + W
    .endm
    .macro forget kind, pcid=0
    mov qword ptr [descriptor], \pcid
    mov eax, \kind
    invpcid rax, [descriptor]
    .endm

    begin
    mov ecx, 7
number:
    mov edi, ecx
    shl edi, 12
    mov [rdi + FRAMES], cl
    dec ecx
    jnz number
    mov qword ptr [window_pt], FRAMES + 0x1000 + P + W
    second_is 2
    set_cr 4, CR4_PCIDE
    space pml4, 1
    look                                /* 1 */
    space pml4_2, 2, keep
    look                                /* 2: never seen in this space */
    space pml4, 1, keep
    second_is 3
    space pml4_2, 2                     /* flushes space 2 */
    look                                /* 3 */
    space pml4, 1, keep
    second_is 4
    forget 0, 2                         /* one address of it */
    space pml4_2, 2, keep
    look                                /* 4 */
    second_is 5
    forget 1, 2                         /* all of it, while it is the present one */
    look                                /* 5 */
    space pml4, 1, keep
    second_is 6
    forget 2                            /* everything */
    space pml4_2, 2, keep
    look                                /* 6 */
    second_is 7
    forget 3                            /* everything not global */
    look                                /* 7 */
done:
    hlt

descriptor:
    .quad 0, WINDOW
