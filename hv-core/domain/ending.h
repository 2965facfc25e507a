/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How a domain ended by itself: written by the first who ends it, read by anybody without a lock.
 *
 *     none --hv_ending_set--> one of enum hv_domain_end, unsettled --hv_ending_settle--> settled
 *     unsettled, settled --hv_ending_forget--> none   the same life goes on, and who set it settles it
 *     none, settled --hv_ending_renew--> none         the next life begins
 *
 * An end belongs to a life: who was held up since he looked at the guest must not end what a reset
 * has made of it since. Nor must who has set an end and not done yet what follows from it: a renewal
 * waits for him.
 */
#pragma once

#include "sync/lock.h"
#include "sync/seqcount.h"

#include <hv/domain.h>

#define HV_ENDING_REASON_WORDS (sizeof(((struct hv_domain_status *)0)->reason) / sizeof(uint64_t))

struct hv_ending {
    struct hv_lock lock; /* HV_RANK_LEAF: one writer at a time */
    struct hv_seqcount sequence;
    /* Atomic, written under &lock. */
    _Atomic uint64_t life; /* renewals */
    /* Atomic: ends that were set, forgotten ones too, and are not settled; futex word. */
    _Atomic uint32_t unsettled;
    /* Atomic, consistent with each other by `sequence`. */
    _Atomic uint32_t end; /* enum hv_domain_end */
    _Atomic uint32_t code, vcpu;
    _Atomic uint64_t reason[HV_ENDING_REASON_WORDS]; /* the text, as bytes in memory */
};

void hv_ending_init(struct hv_ending *ending);
void hv_ending_finish(struct hv_ending *ending);

/**
 * Write it down, unless it has ended already, or is another life by now.
 *
 * @life    what hv_ending_life() said before the caller looked at what made him do this.
 * @reason  copied, cut to the room of a status.
 *
 * Returns true to the first, who does what follows from it and calls hv_ending_settle().
 * Context: any thread; ranks below LEAF.
 */
HV_MUST_CHECK bool hv_ending_set(struct hv_ending *ending, uint64_t life, enum hv_domain_end end,
                                 uint32_t code, unsigned vcpu, const char *reason);

/** What follows from the end is done. Context: as hv_ending_set(). */
void hv_ending_settle(struct hv_ending *ending);

/**
 * A resume: let it end again if that is the answer to the end (none, or no memory), so that another
 * is not lost. False when it stays. Context: as hv_ending_set().
 */
HV_MUST_CHECK bool hv_ending_forget(struct hv_ending *ending);

/**
 * A reset: let it end again, in another life; what follows from the last end is done by then.
 * Context: waits as HV_RANK_FLUSH_WAIT.
 */
void hv_ending_renew(struct hv_ending *ending);

/** Which life it is. Takes no lock; any thread. */
static inline uint64_t hv_ending_life(const struct hv_ending *ending)
{
    return hv_load_seq(&ending->life);
}

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
