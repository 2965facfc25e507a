/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Parameters and budgets of groups: see group.h. */
#include "sched/group.h"

#include "base/format.h"

#include <errno.h>

static bool names_worker(const struct hv_pcpu_mask *mask, unsigned workers)
{
    for (unsigned i = 0; i < workers; i++) {
        if (mask->word[i / 64] >> i % 64 & 1) {
            return true;
        }
    }
    return false;
}

bool hv_group_is_bound(const struct hv_pcpu_mask *affinity)
{
    return names_worker(affinity, HV_SCHED_MAX_WORKERS);
}

int hv_sched_check_parameters(const struct hv_sched_parameters *parameters, unsigned workers,
                              char *why, size_t why_size)
{
    if (parameters->weight > HV_SCHED_WEIGHT_MAX) {
        hv_format(why, why_size, "weight %u: a machine's weight is 1 to %u", parameters->weight,
                  HV_SCHED_WEIGHT_MAX);
        return -EINVAL;
    }
    if (parameters->cap_percent > HV_SCHED_CAP_MAX) {
        hv_format(why, why_size, "cap %u: a cap is 1 to %u per cent of a CPU, or 0 for none",
                  parameters->cap_percent, HV_SCHED_CAP_MAX);
        return -EINVAL;
    }
    if (hv_group_is_bound(&parameters->affinity) && !names_worker(&parameters->affinity, workers)) {
        hv_format(why, why_size, "affinity: it names none of the core's workers 0 to %u",
                  workers - 1);
        return -EINVAL;
    }
    return 0;
}

void hv_group_set(struct hv_sched_group *group, const struct hv_sched_parameters *parameters)
{
    bool anywhere = !hv_group_is_bound(&parameters->affinity);

    hv_store_relaxed(&group->weight,
                     parameters->weight ? parameters->weight : HV_SCHED_WEIGHT_DEFAULT);
    for (size_t i = 0; i < HV_ARRAY_LEN(group->affinity); i++) {
        hv_store_relaxed(&group->affinity[i], anywhere ? UINT64_MAX : parameters->affinity.word[i]);
    }
    /* What is there of the old budget lasts for a period at most. */
    hv_store_relaxed(&group->cap_percent, parameters->cap_percent);
}

void hv_group_get(const struct hv_sched_group *group, struct hv_sched_parameters *parameters_out)
{
    parameters_out->weight = hv_load_relaxed(&group->weight);
    parameters_out->cap_percent = hv_load_relaxed(&group->cap_percent);
    for (size_t i = 0; i < HV_ARRAY_LEN(group->affinity); i++) {
        parameters_out->affinity.word[i] = hv_load_relaxed(&group->affinity[i]);
    }
}

void hv_group_init(struct hv_sched_group *group, const struct hv_sched_parameters *parameters)
{
    static const struct hv_sched_parameters standard = {0};

    *group = (struct hv_sched_group){.period_end = {0}};
    hv_lock_init(&group->lock, HV_RANK_LEAF, "sched.group", 0);
    hv_group_set(group, parameters ? parameters : &standard);
}

void hv_group_finish(struct hv_sched_group *group)
{
    hv_lock_finish(&group->lock);
}

/* Begin the period that @now is in. What was overrun is paid by those in between. */
static void refill_locked(struct hv_sched_group *group, hv_ns now, uint32_t cap_percent)
{
    int64_t full = (int64_t)(HV_GROUP_PERIOD_NS / 100 * cap_percent);
    uint64_t periods = (now.v - group->period_end.v) / HV_GROUP_PERIOD_NS + 1;
    int64_t kept = group->budget_ns;

    group->period_end.v += periods * HV_GROUP_PERIOD_NS;
    if (kept >= (int64_t)HV_GROUP_CRUMB_NS) {
        kept = 0;
    }
    /* A debt is of a few slices: a thousand periods without a look have paid it. */
    kept += full * (int64_t)(periods < 1000 ? periods : 1000);
    group->budget_ns = kept < full + (int64_t)HV_GROUP_CRUMB_NS ? kept : full;
}

uint64_t hv_group_reserve(struct hv_sched_group *group, hv_ns now, uint64_t want_ns,
                          uint64_t *reserved_out, hv_ns *until_out)
{
    uint32_t cap_percent = hv_load_relaxed(&group->cap_percent);
    uint64_t given = 0;

    *reserved_out = 0;
    if (cap_percent == 0) {
        return want_ns;
    }
    hv_lock_take(&group->lock);
    if (!hv_ns_before(now, group->period_end)) {
        refill_locked(group, now, cap_percent);
    }
    if (group->budget_ns >= (int64_t)HV_GROUP_CRUMB_NS) {
        given = want_ns < (uint64_t)group->budget_ns ? want_ns : (uint64_t)group->budget_ns;
        group->budget_ns -= (int64_t)given;
    }
    *until_out = group->period_end;
    hv_lock_drop(&group->lock);
    *reserved_out = given;
    return given;
}

void hv_group_return(struct hv_sched_group *group, uint64_t reserved_ns, uint64_t used_ns)
{
    if (hv_load_relaxed(&group->cap_percent) == 0 || reserved_ns == used_ns) {
        return;
    }
    hv_lock_take(&group->lock);
    group->budget_ns += (int64_t)(reserved_ns - used_ns);
    hv_lock_drop(&group->lock);
}
