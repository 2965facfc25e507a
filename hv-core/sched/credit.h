/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The arithmetic of shares: virtual time, in which those who share a CPU fairly move at one speed.
 *
 * Who runs for t gets older by t * rate; the youngest runs next. The rate is inverse to the
 * weight, and rises with the number of vCPUs that the group has in the race, so that it is the
 * machine that has the weight and not each of its vCPUs. Of weight 256 and with one vCPU, virtual
 * time is time.
 *
 * Nobody hoards: who slept comes back at most HV_CREDIT_BONUS_NS of its own running younger than
 * the youngest of the others, and what it had run ahead is forgotten but for one slice. Between two
 * who are always there differences are cut only where sharing cannot have brought them about, or
 * weights would not hold.
 *
 * Source: Xen's credit2 and Linux's fair class, for the form; A. Chandra et al., "Surplus Fair
 * Scheduling" (2000), for weights that no single CPU can satisfy: see hv_credit_lift().
 */
#pragma once

#include <hv/types.h>

/* How many slices one may be older than the youngest of the others: to be put before them by a yield,
 * and at all. More at all: else who is at the limit could be boosted for ever, and those that it was
 * put before would have their due cut. */
#define HV_CREDIT_BOOST_SLICES 4u
#define HV_CREDIT_DEBT_SLICES  8u

/* What a sleeper may have over the others when it wakes, in its own running. */
#define HV_CREDIT_BONUS_NS     HV_NS_PER_MS

/* Of a yielder's penalty: at most one in this span, half of it for who yields straight back. */
#define HV_CREDIT_PENALTY_NS   (6 * HV_NS_PER_MS)
#define HV_CREDIT_REVERSE_NS   (600 * HV_NS_PER_US)
/* The penalty in shortest slices, times the length of the queue, and at most. */
#define HV_CREDIT_PENALTY_UNIT 6u

/* Virtual time. It wraps: compared by difference. */
typedef struct {
    uint64_t v;
} hv_vtime;

/* Virtual time by time, with 16 bits behind the point. */
typedef struct {
    uint64_t v;
} hv_vrate;

#define HV_VRATE_ONE ((hv_vrate){UINT64_C(1) << 16})

static inline bool hv_vtime_before(hv_vtime a, hv_vtime b)
{
    return (int64_t)(a.v - b.v) < 0;
}

static inline hv_vtime hv_vtime_later(hv_vtime a, hv_vtime b)
{
    return hv_vtime_before(a, b) ? b : a;
}

static inline hv_vtime hv_vtime_earlier(hv_vtime a, hv_vtime b)
{
    return hv_vtime_before(a, b) ? a : b;
}

/** How fast one of @active vCPUs of a group of that @weight gets older. */
hv_vrate hv_credit_rate(uint32_t weight, uint32_t active);

/** What @span_ns of running come to. A span of more than 16 s counts as 16 s. */
uint64_t hv_credit_cost(hv_vrate rate, uint64_t span_ns);

/**
 * Where one goes on who was away, and stopped at @own, when the youngest of the others stands at
 * @floor.
 *
 * @slice_ns  what it may have run ahead of them.
 */
hv_vtime hv_credit_return(hv_vtime own, hv_vtime floor, hv_vrate rate, uint64_t slice_ns);

/**
 * Where one stands who has run, and wants to go on, when the youngest who waits stands at @waiting
 * and gets older at @waiting_rate.
 *
 * With a weight that asks for more than one CPU it falls behind further and further, and would be
 * owed, and later have, what it could never have had. While it runs, nobody owes it anything. That
 * it is so shows when it stands further back than slices and boosts can have brought the other ahead.
 */
hv_vtime hv_credit_lift(hv_vtime own, hv_vtime waiting, hv_vrate waiting_rate, uint64_t slice_ns);

/**
 * Where one stands who has run, when the youngest of the others stands at @floor. Among those who
 * share their pCPUs nobody gets further ahead than some slices bring him. Who does had a pCPU to
 * itself while the others were disturbed, and would pay for that with a wait as long when it comes to
 * share: that is not asked.
 */
hv_vtime hv_credit_forgive(hv_vtime own, hv_vtime floor, hv_vrate rate, uint64_t slice_ns);

/** How long the next slice is when @waiting others wait in the same queue. */
uint64_t hv_credit_slice(uint64_t slice_ns, uint64_t min_ns, unsigned waiting);

/**
 * For how long a yielder stands back, in its own running, when @length (at least 1) share its queue.
 */
uint64_t hv_credit_penalty(uint64_t slice_ns, uint64_t min_ns, unsigned length);
