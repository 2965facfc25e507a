/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * No such line.
 *
 *     start  long
 *     stat   rax=1
 */
#include "long.inc"

    begin
    mov eax, 1
done:
    hlt
