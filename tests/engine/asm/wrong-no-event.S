/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * An exception that does not come.
 *
 *     start  long
 *     event  #UD rip=done
 */
#include "long.inc"

    begin
    mov eax, 1
done:
    hlt
