/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Linux bzImage, entered at its 64-bit entry point.
 *
 *     file:  boot sector + setup ((setup_sects + 1) × 512) │ protected-mode kernel │
 *     guest: kernel at pref_address, room of init_size; entry at + 0x200 in long mode, identity
 *            mapped, RSI = boot_params ("zero page")
 *
 * Source: Linux Documentation/arch/x86/boot.rst (protocol 2.12 and later: xloadflags), zero-page.rst.
 */
#pragma once

#include "build/guest-writer.h"

/** True when the boot flag and the "HdrS" magic stand where they must. */
gboolean lodge_bzimage_recognise(GBytes *image);

/** Check all that lodge_bzimage_load() relies on; LODGE_ERROR_INPUT naming @path and the cause. */
gboolean lodge_bzimage_check(GBytes *image, const char *path, GError **error);

typedef struct {
    const char *command_line;
    GBytes *initrd; /* may be NULL */
    guint64 rsdp;   /* guest physical address of the ACPI root pointer; 0: none */
} LodgeBootRequest;

/**
 * Load a checked bzImage with boot_params, command line, page tables, GDT and initrd.
 *
 * @state_out  the entry state for hv_domain_set_boot().
 */
gboolean lodge_bzimage_load(GBytes *image, const char *path, const LodgeBootRequest *request,
                            LodgeGuestWriter *writer, struct hv_boot_state *state_out,
                            GError **error);
