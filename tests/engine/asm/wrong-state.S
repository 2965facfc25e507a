/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A value that is not there.
 *
 *     start  long
 *     state  rax=2
 */
#include "long.inc"

    begin
    mov eax, 1
done:
    hlt
