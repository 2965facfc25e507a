/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What all save records of devices have in common (decisions D15).
 *
 * A record is plain integers of fixed width in the host's byte order, without padding; it starts
 * with its version. A device's state is derived from registers and moments only, so a moment is
 * saved as the time that has passed since it, and a timer not at all: load arms it anew. Ticks that
 * are overdue are delivered before the registers are read.
 *
 * Each device has three functions:
 *   save   fills a record (zeroed first);
 *   check  NULL when the record may be loaded, else the name of a field that no device can have;
 *   load   takes a record that was checked. It drives no wires: the chips at their other ends carry
 *          the levels in their own records.
 * The caller has stopped the machine: no vCPU runs and the timers are paused.
 */
#pragma once

#include <hv/types.h>

/** True when @value is no boolean. */
static inline bool hv_record_not_bool(uint64_t value)
{
    return value > 1;
}
