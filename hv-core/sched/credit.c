/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Shares in virtual time: see credit.h. */
#include "sched/credit.h"

#include <hv/sched.h>

#define LONGEST_NS (16 * HV_NS_PER_S)

HV_STATIC_ASSERT(HV_SCHED_WEIGHT_DEFAULT *(UINT64_C(1) << 16) * HV_MAX_VCPUS <=
                     UINT64_MAX / LONGEST_NS,
                 "the highest rate times the longest span is a number");

hv_vrate hv_credit_rate(uint32_t weight, uint32_t active)
{
    return (hv_vrate){HV_VRATE_ONE.v * HV_SCHED_WEIGHT_DEFAULT * (active ? active : 1) / weight};
}

uint64_t hv_credit_cost(hv_vrate rate, uint64_t span_ns)
{
    return rate.v * (span_ns < LONGEST_NS ? span_ns : LONGEST_NS) >> 16;
}

hv_vtime hv_credit_return(hv_vtime own, hv_vtime floor, hv_vrate rate, uint64_t slice_ns)
{
    hv_vtime youngest = {floor.v - hv_credit_cost(rate, HV_CREDIT_BONUS_NS)};
    hv_vtime oldest = {floor.v + hv_credit_cost(rate, slice_ns)};

    return hv_vtime_earlier(hv_vtime_later(own, youngest), oldest);
}

hv_vtime hv_credit_lift(hv_vtime own, hv_vtime waiting, hv_vrate waiting_rate, uint64_t slice_ns)
{
    uint64_t most = HV_CREDIT_DEBT_SLICES * hv_credit_cost(waiting_rate, slice_ns);

    return hv_vtime_later(own, (hv_vtime){waiting.v - most});
}

hv_vtime hv_credit_forgive(hv_vtime own, hv_vtime floor, hv_vrate rate, uint64_t slice_ns)
{
    return hv_vtime_earlier(
        own, (hv_vtime){floor.v + HV_CREDIT_DEBT_SLICES * hv_credit_cost(rate, slice_ns)});
}

uint64_t hv_credit_slice(uint64_t slice_ns, uint64_t min_ns, unsigned waiting)
{
    /* Two in turns have whole slices; with more, each comes again after two slices' time. */
    uint64_t share = 2 * slice_ns / (waiting + 1);

    return share > slice_ns ? slice_ns : share < min_ns ? min_ns : share;
}

uint64_t hv_credit_penalty(uint64_t slice_ns, uint64_t min_ns, unsigned length)
{
    uint64_t penalty = slice_ns * HV_CREDIT_PENALTY_UNIT / length;
    uint64_t most = HV_CREDIT_PENALTY_UNIT * min_ns;

    return penalty > most ? most : penalty < min_ns ? min_ns : penalty;
}
