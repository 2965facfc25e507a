/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * No such symbol.
 *
 *     start  long
 *     state  rax=rubbish
 */
#include "long.inc"

    begin
    mov eax, 1
done:
    hlt
