/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A machine as the scheduler sees it: weight, cap and affinity, and the entities they are of.
 *
 * A cap is a budget for each period of 10 ms, as credit2's. A slice reserves what it may use and
 * gives back the rest, so that the group never has more than the budget, but for what a slice
 * overruns, which the next period pays. What is not used is lost: to save it up would be a burst
 * for the others.
 */
#pragma once

#include "sched/credit.h"
#include "sync/lock.h"

#include <hv/sched.h>

#define HV_GROUP_PERIOD_NS (10 * HV_NS_PER_MS)
/* Less is not worth a slice: it is kept for the next period. */
#define HV_GROUP_CRUMB_NS  (50 * HV_NS_PER_US)

struct hv_sched_entity;

struct hv_sched_group {
    /* Atomic: parameters, which may change at any time. */
    _Atomic uint32_t weight, cap_percent;
    _Atomic uint64_t affinity[HV_SCHED_MAX_WORKERS / 64];
    /* Atomic: entities that are ready or running. */
    _Atomic uint32_t active;
    /* Atomic: who was the last that a spinning vCPU yielded to. */
    _Atomic uint32_t last_boosted;
    /* Set while entities are made, by index in the machine; some may be NULL. */
    struct hv_sched_entity *member[HV_MAX_VCPUS];
    struct hv_lock lock; /* HV_RANK_LEAF */
    /* Guarded by &lock. */
    hv_ns period_end;
    int64_t budget_ns;
};

/** Say in @why what is wrong for a core of so many workers. Returns 0, or -EINVAL. */
HV_MUST_CHECK int hv_sched_check_parameters(const struct hv_sched_parameters *parameters,
                                            unsigned workers, char *why, size_t why_size);

/** Does it name any worker, and so exclude others? */
bool hv_group_is_bound(const struct hv_pcpu_mask *affinity);

/** @parameters have been checked; NULL: the defaults. */
void hv_group_init(struct hv_sched_group *group, const struct hv_sched_parameters *parameters);
/** Its entities are retired. */
void hv_group_finish(struct hv_sched_group *group);

/** Any thread. Entities that wait or run are not moved: hv_runqueues_settle(). */
void hv_group_set(struct hv_sched_group *group, const struct hv_sched_parameters *parameters);
void hv_group_get(const struct hv_sched_group *group, struct hv_sched_parameters *parameters_out);

/** May it run on worker @index? */
static inline bool hv_group_allows(const struct hv_sched_group *group, unsigned index)
{
    return hv_load_relaxed(&group->affinity[index / 64]) >> index % 64 & 1;
}

/** How fast each of its entities gets older now. */
static inline hv_vrate hv_group_rate(const struct hv_sched_group *group)
{
    return hv_credit_rate(hv_load_relaxed(&group->weight), hv_load_relaxed(&group->active));
}

/**
 * Ask for up to @want_ns of running.
 *
 * Returns how much there is, all of it without a cap; or 0, and *until_out is when to ask again.
 * *reserved_out is what hv_group_return() is to be told: nothing without a cap, so that one set
 * meanwhile has it counted.
 * Locks: takes HV_RANK_LEAF.
 */
uint64_t hv_group_reserve(struct hv_sched_group *group, hv_ns now, uint64_t want_ns,
                          uint64_t *reserved_out, hv_ns *until_out);

/** Of @reserved_ns, @used_ns were used, or more. */
void hv_group_return(struct hv_sched_group *group, uint64_t reserved_ns, uint64_t used_ns);
