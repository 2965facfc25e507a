/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Nothing is promised.
 *
 *     start  long
 */
#include "long.inc"

    begin
    mov eax, 1
done:
    hlt
