/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Which pages were written since the last round, without flushing a TLB (decisions D5).
 *
 * A round bumps the epoch, posts it to every vCPU and waits until each has adopted it at a block
 * edge or is OUTSIDE. A write permission in a TLB is good for one epoch; a store under an older one
 * takes the slow path, which sets the page's bit in bitmap[epoch & 1]. Only the bitmap of the
 * previous epoch is harvested, each bit cleared before its page is copied. Either half alone loses
 * writes (tests/model/dirty-epoch.pml).
 */
#pragma once

#include "mem/memory.h"

/** Start tracking: -EEXIST when it is on, -ENOMEM. The first round reports every RAM page. */
HV_MUST_CHECK int hv_dirty_start(struct hv_memory *memory);

/** Start a new round and wait for it; afterwards the pages of the previous one can be harvested. */
HV_MUST_CHECK int hv_dirty_round(struct hv_memory *memory);

/**
 * Take up to @max dirty pages of the previous round, ascending from *cursor, clearing each bit.
 *
 * @cursor  0 at the start of a harvest; moved on.
 * Returns how many stand in @gfns; 0 ends the harvest. Copy a page only after it was taken.
 */
size_t hv_dirty_harvest(struct hv_memory *memory, uint64_t *cursor, hv_gfn *gfns, size_t max);

void hv_dirty_stop(struct hv_memory *memory);
