/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * It halts elsewhere.
 *
 *     start  long
 *     state  rax=1
 */
#include "long.inc"

    begin
    mov eax, 1
    hlt
done:
    hlt
