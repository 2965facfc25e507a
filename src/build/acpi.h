/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * ACPI tables of the machine: RSDP, XSDT, FADT, MADT, HPET where there is one, and a DSDT that knows how
 * to power off.
 *
 * No PCI, no methods beyond \_S5: a guest finds timers and interrupt controllers here, everything
 * else at its legacy place. Source: ACPI 6.5, chapter 5.2; IA-PC HPET 1.0a, 3.2.4.
 */
#pragma once

#include "build/guest-writer.h"

/**
 * Write the tables into the reserved area below 1 MiB.
 *
 * @rsdp_out  guest physical address of the root pointer, which also stands where a BIOS scan finds
 *            it.
 */
gboolean lodge_acpi_load(LodgeGuestWriter *writer, guint64 *rsdp_out, GError **error);
