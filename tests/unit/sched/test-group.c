/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sched/group: bad parameters are named; a budget is given out once, and overruns are paid. */
#include "sched/group.h"

#include <errno.h>
#include <string.h>

#include "lib/tap.h"
#include "sched/sched.h"

static bool refused(struct hv_sched_parameters parameters, const char *word)
{
    char why[128] = "";

    return hv_sched_check_parameters(&parameters, 4, why, sizeof(why)) == -EINVAL &&
           strstr(why, word);
}

static void test_parameters(void)
{
    struct hv_sched_parameters parameters = {
        .weight = 65535, .cap_percent = HV_SCHED_CAP_MAX, .affinity = {{0x8, 0, 0, 1}}};
    struct hv_sched_group group;

    TAP_OK(refused((struct hv_sched_parameters){.weight = 65536}, "weight 65536"));
    TAP_OK(refused((struct hv_sched_parameters){.cap_percent = HV_SCHED_CAP_MAX + 1}, "cap 6401"));
    TAP_OK(refused((struct hv_sched_parameters){.affinity = {{0x10}}}, "0 to 3"));
    TAP_EQ(hv_sched_check_parameters(&parameters, 4, NULL, 0), 0);
    hv_group_init(&group, &parameters);
    TAP_OK(hv_group_allows(&group, 3) && hv_group_allows(&group, 192));
    TAP_OK(!hv_group_allows(&group, 0) && !hv_group_allows(&group, 191));
    hv_group_get(&group, &parameters);
    TAP_EQ(parameters.weight, 65535);
    TAP_EQ(parameters.cap_percent, HV_SCHED_CAP_MAX);
    hv_group_set(&group, &(struct hv_sched_parameters){0});
    hv_group_get(&group, &parameters);
    TAP_EQ(parameters.weight, HV_SCHED_WEIGHT_DEFAULT);
    TAP_EQ(parameters.cap_percent, 0);
    for (unsigned i = 0; i < HV_SCHED_MAX_WORKERS; i++) {
        TAP_OK(hv_group_allows(&group, i));
    }
    hv_group_finish(&group);
}

static struct hv_sched_group capped;
static uint64_t reserved;

static uint64_t ask(uint64_t now_ns, uint64_t want_ns)
{
    hv_ns until;

    return hv_group_reserve(&capped, (hv_ns){now_ns}, want_ns, &reserved, &until);
}

static void test_budget(void)
{
    const uint64_t period = HV_GROUP_PERIOD_NS;
    const uint64_t full = period / 2;

    hv_group_init(&capped, &(struct hv_sched_parameters){.cap_percent = 50});
    TAP_EQ(ask(100 * period, 3000000), 3000000);
    TAP_EQ(ask(100 * period, 3000000), full - 3000000);
    TAP_EQ(ask(100 * period + 1, 3000000), 0);
    TAP_EQ(reserved, 0);
    /* What was not used is there for another; a crumb is not. */
    hv_group_return(&capped, 2000000, 500000);
    TAP_EQ(ask(101 * period - 1, 3000000), 1500000);
    hv_group_return(&capped, 1500000, 1500000 - HV_GROUP_CRUMB_NS + 1);
    TAP_EQ(ask(101 * period - 1, 3000000), 0);
    /* The crumb is not lost; what is more, is. */
    TAP_EQ(ask(101 * period, full * 2), full + HV_GROUP_CRUMB_NS - 1);
    hv_group_return(&capped, full + HV_GROUP_CRUMB_NS - 1, 0);
    TAP_EQ(ask(150 * period, full * 2), full);
    /* An overrun is paid by the next periods. */
    hv_group_return(&capped, full, 2 * full + 1000000);
    TAP_EQ(ask(151 * period, 1), 0);
    TAP_EQ(ask(152 * period, full * 2), full - 1000000);
    /* None any more: all there is, and nothing counted. */
    hv_group_set(&capped, &(struct hv_sched_parameters){0});
    TAP_EQ(ask(152 * period, full * 2), full * 2);
    TAP_EQ(reserved, 0);
    hv_group_finish(&capped);
}

/* By weight, and by how many share it. */
static void test_rate(void)
{
    TAP_EQ(hv_credit_rate(256, 1).v, HV_VRATE_ONE.v);
    TAP_EQ(hv_credit_rate(256, 0).v, HV_VRATE_ONE.v);
    TAP_EQ(hv_credit_rate(512, 1).v, HV_VRATE_ONE.v / 2);
    TAP_EQ(hv_credit_rate(512, 8).v, HV_VRATE_ONE.v * 4);
    TAP_EQ(hv_credit_cost(hv_credit_rate(1, HV_MAX_VCPUS), UINT64_MAX),
           16 * HV_NS_PER_S * 256 * HV_MAX_VCPUS);
    /* Virtual time wraps. */
    TAP_OK(hv_vtime_before((hv_vtime){UINT64_MAX - 5}, (hv_vtime){5}));
    TAP_OK(!hv_vtime_before((hv_vtime){5}, (hv_vtime){UINT64_MAX - 5}));
}

static void test_slice(void)
{
    TAP_EQ(hv_credit_slice(3000000, 500000, 0), 3000000);
    TAP_EQ(hv_credit_slice(3000000, 500000, 1), 3000000);
    TAP_EQ(hv_credit_slice(3000000, 500000, 2), 2000000);
    TAP_EQ(hv_credit_slice(3000000, 500000, 11), 500000);
    TAP_EQ(hv_credit_slice(3000000, 500000, 1000), 500000);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"sched.group.parameters", test_parameters},
        {"sched.group.budget", test_budget},
        {"sched.credit.rate", test_rate},
        {"sched.credit.slice", test_slice},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
