/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The registry of holders of one arena: the flush clock and the list of mappers. */
#pragma once

#include "mem/tlb-holder.h"
#include "sync/eventcount.h"
#include "sync/lock.h"

struct hv_holders {
    /* Atomic: the flush clock, on a line of its own: every flush writes it. It starts at 1, so that
     * a holder that never flushed (0) is older than any stamp. */
    HV_ALIGNED(HV_CACHE_LINE) _Atomic uint64_t clock;
    HV_ALIGNED(HV_CACHE_LINE) struct hv_lock lock; /* HV_RANK_LEAF */
    /* Guarded by lock. */
    struct hv_list mappers;
    unsigned registered;            /* so far: the next one's index */
    struct hv_eventcount unwatched; /* a mapper's last watcher left */
};

void hv_holders_init(struct hv_holders *holders);
/** No mapper is registered. */
void hv_holders_finish(struct hv_holders *holders);
