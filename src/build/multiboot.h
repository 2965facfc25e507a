/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Multiboot 1 kernels in ELF files: 32-bit protected mode, flat segments, paging off,
 * EAX = 0x2badb002, EBX = boot information. Source: Multiboot Specification 0.6.96.
 */
#pragma once

#include "build/elf-image.h"

/** True when a header with a right checksum stands in the first 8 KiB. */
gboolean lodge_multiboot_recognise(GBytes *image);

/** Load a checked ELF file with a Multiboot header; the initrd becomes its one module. */
gboolean lodge_multiboot_load(GBytes *image, const char *path, const LodgeBootRequest *request,
                              LodgeGuestWriter *writer, struct hv_boot_state *state_out,
                              GError **error);
