/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The E820 map of a machine. */
#include "build/memory-map.h"

#include "build/low-memory.h"

guint lodge_memory_map(const struct hv_platform_layout *layout,
                       LodgeMemoryRange ranges[LODGE_MEMORY_RANGES_MAX])
{
    const guint64 four_gib = 4 * HV_GIB;
    guint count = 0;

    ranges[count++] = (LodgeMemoryRange){0, LODGE_LOW_CONVENTIONAL, LODGE_MEMORY_RAM};
    ranges[count++] = (LodgeMemoryRange){LODGE_LOW_CONVENTIONAL, 0xa0000 - LODGE_LOW_CONVENTIONAL,
                                         LODGE_MEMORY_RESERVED};
    ranges[count++] = (LodgeMemoryRange){LODGE_LOW_ACPI, LODGE_LOW_ACPI_END - LODGE_LOW_ACPI,
                                         LODGE_MEMORY_RESERVED};
    if (layout->low_ram_bytes > HV_MIB) {
        ranges[count++] =
            (LodgeMemoryRange){HV_MIB, layout->low_ram_bytes - HV_MIB, LODGE_MEMORY_RAM};
    }
    /* IOAPIC, HPET, local APIC: nobody may put a device there. */
    ranges[count++] = (LodgeMemoryRange){layout->ioapic_base, four_gib - layout->ioapic_base,
                                         LODGE_MEMORY_RESERVED};
    if (layout->high_ram_bytes) {
        ranges[count++] = (LodgeMemoryRange){four_gib, layout->high_ram_bytes, LODGE_MEMORY_RAM};
    }
    return count;
}
