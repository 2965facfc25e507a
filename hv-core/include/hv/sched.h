/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a machine's owner says about its share of the host's CPUs, and how a core deals them out. */
#pragma once

#include <hv/types.h>

/* More workers than the host has CPUs serve tests alone. */
#define HV_SCHED_MAX_WORKERS    256u

#define HV_SCHED_WEIGHT_DEFAULT 256u
#define HV_SCHED_WEIGHT_MAX     65535u
#define HV_SCHED_CAP_MAX        (100u * HV_MAX_VCPUS)

enum hv_sched_policy {
    HV_SCHED_POLICY_CREDIT, /* vCPUs share the workers by weight */
    HV_SCHED_POLICY_HOST,   /* a thread each: the host's scheduler deals */
};

/* A set of workers (pCPUs): bit n of word[n / 64]. */
struct hv_pcpu_mask {
    uint64_t word[HV_SCHED_MAX_WORKERS / 64];
};

/*
 * A machine's part in the CPUs. Weights are of machines, not of vCPUs: of two machines that both
 * want more than there is, one of weight 512 gets twice what one of 256 gets, however many vCPUs
 * each has. So do Xen's `xl sched-credit` and libvirt's `schedinfo` (`weight`, `cpu_shares`) count.
 * Under HV_SCHED_POLICY_HOST the host decides: weight, cap and affinity are kept and do nothing.
 */
struct hv_sched_parameters {
    uint32_t weight;              /* 1 to HV_SCHED_WEIGHT_MAX; 0: HV_SCHED_WEIGHT_DEFAULT */
    uint32_t cap_percent;         /* of one worker, all vCPUs together; 0: none */
    struct hv_pcpu_mask affinity; /* workers it may run on; none: all */
};
