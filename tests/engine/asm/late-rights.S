/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Rights that a page gains need no flush (SDM 3A 4.10.4.3): an absent page that becomes present, a
 * read-only one that becomes writable, one of the supervisor's that becomes the user's. What the
 * processor remembers of before must not stand in the way.
 *
 *     start  long
 *     event  #PF error=0 rip=absent cr2=WINDOW
 *     event  #PF error=3 rip=read_only cr2=WINDOW
 *     event  #PF error=5 rip=supervisors+USER cr2=WINDOW
 *     event  #BP cs=USER64
 *     state  rax=0 rbx=5 dword[FRAMES]=5
 */
#include "long.inc"

    begin
    mov ebx, 5
    faults absent, mov eax, [WINDOW]
    mov qword ptr [window_pt], FRAMES + P
    mov eax, [WINDOW]
    faults read_only, mov [WINDOW], ebx
    or qword ptr [window_pt], W
    mov [WINDOW], ebx
    resume_at gained
    enter_user supervisors
supervisors:
    mov ebx, [WINDOW]
gained:
    or qword ptr [window_pt], U
    resume_at done
    enter_user users
users:
    mov ebx, [WINDOW]
    int3
done:
    hlt
