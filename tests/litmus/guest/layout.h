/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the assembler, the C part and the runner agree on. */
#pragma once

#define CODE32      0x08
#define DATA        0x10
#define CODE64      0x18

#define CPUS_MOST   16
#define STACK_BYTES 8192

#define REQUEST     0x7000 /* struct request: what the runner wants */
#define TRAMPOLINE  0x8000 /* a page below 1 MiB: where a SIPI starts CPUs */
#define LAPIC       0xfee00000
#define WINDOW      0x40000000 /* 2 MiB of small pages through window_table */
