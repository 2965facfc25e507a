/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * CR0.WP: without it the supervisor writes to read-only pages, with it not, at once and each time it
 * changes; ring 3 never does.
 *
 *     start  long
 *     event  #PF error=3 rip=first cr2=WINDOW
 *     event  #PF error=3 rip=users cr2=WINDOW+0x1000
 *     event  #PF error=3 rip=second cr2=WINDOW
 *     event  #PF error=7 rip=ring3+USER cr2=WINDOW+0x1000 cs=USER64
 *     state  dword[FRAMES]=1 dword[FRAMES+0x1000]=2
 */
#include "long.inc"

    page 0, FRAMES, P
    page 1, FRAMES + 0x1000, P + U

    begin
    mov ecx, 3
    faults first, mov [WINDOW], ecx
    faults users, mov [WINDOW + 0x1000], ecx
    clear_cr 0, CR0_WP
    mov dword ptr [WINDOW], 1
    mov dword ptr [WINDOW + 0x1000], 2
    set_cr 0, CR0_WP
    faults second, mov [WINDOW], ecx
    clear_cr 0, CR0_WP
    resume_at done
    enter_user ring3
ring3:
    mov [WINDOW + 0x1000], ecx
done:
    hlt
