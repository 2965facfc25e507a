/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the machines of these tests run, in real mode. */
#pragma once

#include <stdint.h>

/* Writes "Hi" to its serial port, then leaves by the debug exit, with 2. */
static const uint8_t greet[] = {
    0x66, 0xba, 0xf8, 0x03, /* mov dx, 0x3f8 */
    0xb0, 'H',              /* mov al, 'H' */
    0xee,                   /* out dx, al */
    0xb0, 'i',              /* mov al, 'i' */
    0xee,                   /* out dx, al */
    0x66, 0xba, 0xf4, 0x00, /* mov dx, 0xf4 */
    0xb0, 0x02,             /* mov al, 2 */
    0xee,                   /* out dx, al */
    0xeb, 0xfe,             /* jmp . */
};

/* Runs for ever. */
static const uint8_t loop[] = {0xeb, 0xfe}; /* jmp . */
