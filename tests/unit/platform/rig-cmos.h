/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Bytes of a rig's RTC, and of the memory that it keeps, as a guest gets at them. */
#pragma once

#include "unit/platform/rig.h"

static inline uint8_t rig_cmos_read(struct rig *rig, uint8_t index)
{
    rig_outb(rig, 0x70, index);
    return rig_inb(rig, 0x71);
}

static inline void rig_cmos_write(struct rig *rig, uint8_t index, uint8_t value)
{
    rig_outb(rig, 0x70, index);
    rig_outb(rig, 0x71, value);
}
