/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How the users of virtual timers keep from each other's way. There are three classes of them (the
 * discussion of Xen's XSA-336, 2020 and 2021, found that this is how to think of it):
 *
 *     1  all timers of one vCPU: its exit path, its move to another worker
 *     2  one timer, wherever it is: its callback
 *     3  a timer's move from one vCPU to another
 *
 *     name       1                  2                        3
 *     legacy     tm                 read vcpu, tm; read      destination's tm          (test-only)
 *                                   vcpu again, unlock that
 *     xsa336     rd(migrate) + tm   rd(migrate) + tm         wr(migrate)
 *     mid        tm                 rd(migrate) + tm         wr(migrate) + old tm, then new tm
 *     pertimer   tm                 lock + tm                lock + old tm, then new tm
 *     brlock     tm                 a slot + tm              all slots + old tm, then new tm
 *     retry      tm                 read vcpu, tm, read      old tm: unlink, MIGRATING; new tm: link
 *                                   again until it is that
 *     pend       the word, then tm  as retry                 as retry
 *
 * `xsa336` is what Xen had from September 2020, `mid` what it has since April 2021, `pertimer` what
 * was proposed first. `legacy` was before: it unlocks a lock that it may not have taken. A lock that is
 * shared by all vCPUs in class 1, each exit, is what cost 40 per cent of a benchmark: the bench (hv-bench
 * vpt) counts the lines that go from CPU to CPU.
 *
 * Whoever moves a timer holds its device's lock, so that a timer is moved by one at a time. No strategy
 * holds two tm_locks.
 *
 * The bench compiles vpt-strategy.c a second time with the primitives of sync/ replaced by counted ones:
 * so it uses them by name, and of the rest of the core lists alone, and hv_timer_rehome().
 */
#pragma once

#include "platform/vpt.h"
#include "sync/rwlock.h"

/* In nobody's list for a moment. Never dereferenced. */
#define HV_VPT_MIGRATING ((struct hv_vpt_vcpu *)1)

/* Slots of `brlock`: a thread uses one by its id. Two, because no more locks of a rank are held. */
#define HV_VPT_SLOTS     2u

struct HV_ALIGNED(HV_CACHE_LINE) hv_vpt_slot {
    struct hv_lock lock; /* HV_RANK_VPT */
};

struct hv_vpt_set {
    /* Set at creation. */
    const struct hv_vpt_strategy *strategy;
    const struct hv_clock *clock;
    unsigned count;
    void (*kick)(void *context, unsigned vcpu);
    void *context;
    struct hv_vpt_vcpu **vcpu;
    /* By strategy. */
    HV_ALIGNED(HV_CACHE_LINE) struct hv_rwlock migrate; /* HV_RANK_VPT; xsa336, mid */
    struct hv_vpt_slot slot[HV_VPT_SLOTS];              /* brlock */
    struct hv_eventcount moved;                         /* retry, pend: no timer is MIGRATING */
};

struct hv_vpt_strategy {
    const char *name;
    /* Class 1. False: nothing is pending, and nothing is locked. */
    bool (*enter_vcpu)(struct hv_vpt_vcpu *vcpu);
    void (*lock_vcpu)(struct hv_vpt_vcpu *vcpu);
    void (*unlock_vcpu)(struct hv_vpt_vcpu *vcpu);
    /* Class 2: the vCPU whose list it is in; unlocked by that. */
    struct hv_vpt_vcpu *(*lock_timer)(struct hv_vpt *vpt);
    void (*unlock_timer)(struct hv_vpt *vpt, struct hv_vpt_vcpu *vcpu);
    /* Class 3. True: it was pending, and is where it is now. */
    bool (*move)(struct hv_vpt *vpt, struct hv_vpt_vcpu *to);
};

/* The right ones; the first is the product's. */
extern const struct hv_vpt_strategy hv_vpt_pend;
extern const struct hv_vpt_strategy *const hv_vpt_strategies[];
#define HV_VPT_STRATEGIES 6u

static inline uint64_t hv_vpt_bit(const struct hv_vpt *vpt)
{
    return UINT64_C(1) << vpt->source;
}

/* Steps that strategies share. The vCPU's timers are locked. */

/** Take it out of a vCPU's list. Returns whether it was pending there. */
bool hv_vpt_unlink_locked(struct hv_vpt *vpt, struct hv_vpt_vcpu *from);
/** Put it into a vCPU's list; pending when it was. */
void hv_vpt_link_locked(struct hv_vpt *vpt, struct hv_vpt_vcpu *to, bool pending);
