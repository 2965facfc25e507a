/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the assembler and the C part of the payloads agree on. */
#pragma once

#define CODE32         0x08
#define DATA32         0x10
#define CODE16         0x18
#define CODE64         0x20
#define GDT_ENTRIES    64

#define CPUS           4
#define STACK_BYTES    16384

#define TRAMPOLINE     0x8000 /* a page below 1 MiB: where a SIPI starts CPUs */
#define REAL_TRAP      0x40
#define REAL_REGISTERS 0x500

#define LAPIC          0xfee00000
#define IOAPIC         0xfec00000
#define HPET           0xfed00000
