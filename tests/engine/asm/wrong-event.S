/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * An exception that the head does not know of.
 *
 *     start  long
 *     state  rax=1
 */
#include "long.inc"

    begin
    mov eax, 1
    resume_at done
    ud2
done:
    hlt
