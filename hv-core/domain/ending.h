/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How a domain ended by itself: written by the first who ends it, read by anybody without a lock.
 *
 *     none --hv_ending_set--> one of enum hv_domain_end --hv_ending_forget--> none
 */
#pragma once

#include "sync/lock.h"
#include "sync/seqcount.h"

#include <hv/domain.h>

#define HV_ENDING_REASON_WORDS (sizeof(((struct hv_domain_status *)0)->reason) / sizeof(uint64_t))

struct hv_ending {
    struct hv_lock lock; /* HV_RANK_LEAF: one writer at a time */
    struct hv_seqcount sequence;
    /* Atomic, consistent with each other by `sequence`. */
    _Atomic uint32_t end; /* enum hv_domain_end */
    _Atomic uint32_t code, vcpu;
    _Atomic uint64_t reason[HV_ENDING_REASON_WORDS]; /* the text, as bytes in memory */
};

void hv_ending_init(struct hv_ending *ending);
void hv_ending_finish(struct hv_ending *ending);

/**
 * Write it down, unless it has ended already.
 *
 * @reason  copied, cut to the room of a status.
 *
 * Returns true to the first. Context: any thread; ranks below LEAF.
 */
HV_MUST_CHECK bool hv_ending_set(struct hv_ending *ending, enum hv_domain_end end, uint32_t code,
                                 unsigned vcpu, const char *reason);

/**
 * Let it end again.
 *
 * @resume  only if a resume is the answer to it (none, or no memory): another end is not lost.
 *
 * Returns false when it stays. Context: as hv_ending_set().
 */
bool hv_ending_forget(struct hv_ending *ending, bool resume);

/** Fill in all but the state. Takes no lock; any thread. */
void hv_ending_get(const struct hv_ending *ending, struct hv_domain_status *status_out);

/**
 * Whether it has ended, and how. Pairs with hv_ending_set(), sequentially consistent: who changes
 * the state and then looks here, and who sets an end and then looks at the state, do not miss each
 * other.
 */
static inline enum hv_domain_end hv_ending_end(const struct hv_ending *ending)
{
    return (enum hv_domain_end)hv_load_seq(&ending->end);
}
