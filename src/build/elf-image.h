/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * ELF executables for x86, 32 and 64 bits: headers checked, segments loaded at their physical
 * addresses, notes searched. Source: System V ABI, chapter 4 and 5; the structures of <elf.h>.
 */
#pragma once

#include "build/bzimage.h"
#include "build/guest-writer.h"

/** True when the file starts with ELF's magic. */
gboolean lodge_elf_recognise(GBytes *image);

/** Check that it is a little-endian x86 executable whose program headers stand in the file. */
gboolean lodge_elf_check(GBytes *image, const char *path, GError **error);

/** Find the 32-bit entry of an XEN_ELFNOTE_PHYS32_ENTRY note. The image is checked. */
gboolean lodge_elf_find_pvh_entry(GBytes *image, guint32 *entry_out);

/** ELF's own entry point. The image is checked. */
guint64 lodge_elf_entry(GBytes *image);

/**
 * Load every PT_LOAD segment at its physical address (what lies beyond the file's part stays zero).
 */
gboolean lodge_elf_load(GBytes *image, const char *path, LodgeGuestWriter *writer, GError **error);

/**
 * Load a PVH kernel: segments, start_info, modules, command line.
 *
 * Source: Xen docs/misc/pvh.pandoc and public/arch-x86/hvm/start_info.h, version 1.
 */
gboolean lodge_pvh_load(GBytes *image, const char *path, const LodgeBootRequest *request,
                        LodgeGuestWriter *writer, struct hv_boot_state *state_out, GError **error);
