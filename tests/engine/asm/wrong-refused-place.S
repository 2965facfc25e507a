/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * No such place.
 *
 *     start  long
 *     state  eax=1
 */
#include "long.inc"

    begin
    mov eax, 1
done:
    hlt
