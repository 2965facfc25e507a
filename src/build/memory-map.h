/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What stands at which guest physical address, as E820 tells it to the guest. */
#pragma once

#include <hv/domain.h>

#include <glib.h>

/* ACPI 6.5 table 15.4, address range types. */
typedef enum {
    LODGE_MEMORY_RAM = 1,
    LODGE_MEMORY_RESERVED = 2,
} LodgeMemoryType;

typedef struct {
    guint64 start, length;
    LodgeMemoryType type;
} LodgeMemoryRange;

#define LODGE_MEMORY_RANGES_MAX 8

/** Fill @ranges in ascending order; returns how many. */
guint lodge_memory_map(const struct hv_platform_layout *layout,
                       LodgeMemoryRange ranges[LODGE_MEMORY_RANGES_MAX]);
