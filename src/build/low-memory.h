/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Where the boot data lies below 1 MiB, the same for every protocol.
 *
 *     0x00500  GDT                   0x01000  boot_params, or start_info / Multiboot info
 *     0x02000  page tables (6)       0x20000  command line (up to 64 KiB)
 *     0x10000  lists (memory map, modules)
 *     0x9fc00  end of conventional memory
 *     0xe0000  ACPI tables, reserved in the memory map; RSDP first
 */
#pragma once

#define LODGE_LOW_GDT          0x500u
#define LODGE_LOW_BOOT_INFO    0x1000u
#define LODGE_LOW_PAGE_TABLES  0x2000u
#define LODGE_LOW_LISTS        0x10000u
#define LODGE_LOW_COMMAND_LINE 0x20000u
#define LODGE_LOW_COMMAND_MAX  0x10000u
#define LODGE_LOW_CONVENTIONAL 0x9fc00u
#define LODGE_LOW_ACPI         0xe0000u
#define LODGE_LOW_ACPI_END     0x100000u
