/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Directed yields: a vCPU that can tell who it waits for gives its place on the pCPU to that one,
 * and a pause loop that cannot tell looks for somebody who might be it.
 *
 * A yield changes the order, never the shares: the target is picked next and pays for what it runs,
 * and is not put before others once it is four slices older than they are. The yielder stands back
 * for a while (credit.h), or the two would throw the pCPU back and forth and the third never get it;
 * that, too, is of the order, and forgotten at its next pick.
 *
 * A yield brings the target to the yielder's pCPU. So it makes sense where nobody waits there, too:
 * with two machines on 8 pCPUs, of the yields of pause loops six in ten came from a pCPU with no other
 * to run, while their target waited elsewhere. KVM, whose yields are hints to queues that stay where
 * they are, lets these go.
 *
 * Candidates are judged by what they have published, and nothing of theirs is written: a look that
 * changes what it looks at has cost Linux five years (commit 17e433b54393).
 *
 * Source: Linux's kvm_vcpu_yield_to() and kvm_vcpu_on_spin().
 */
#pragma once

#include "sched/runqueue.h"

/* How long who was sent an interrupt counts as waited for. */
#define HV_YIELD_IPI_NS     (50 * HV_NS_PER_MS)
/* A pause loop tries so many candidates. */
#define HV_YIELD_TRIES      3u

/* PAUSEs in a row that make a pause loop, at first and at most in one slice. */
#define HV_YIELD_WINDOW     1024u
#define HV_YIELD_WINDOW_MAX 16384u

/**
 * @me, which runs on @queue's pCPU, gives its place to @target. Counted as an attempt whatever comes
 * of it.
 *
 * Returns true when the target is next somewhere and @me's slice is over; false when there is no
 * point: the target is @me, runs, sleeps, is about to run, or has run ahead.
 */
bool hv_runqueue_yield_to(struct hv_runqueue *queue, struct hv_sched_entity *me,
                          struct hv_sched_entity *target);

/** @me has spun too long: yield to a sibling that might be waited for. Returns as yield_to. */
bool hv_runqueue_on_spin(struct hv_runqueue *queue, struct hv_sched_entity *me);

/** @me sends an interrupt to member @target of its group: whom it may be waiting for from now on. */
void hv_entity_note_ipi(struct hv_sched_entity *me, unsigned target, hv_ns now);

/** @me begins a slice, after another on its pCPU: it does not spin yet. */
static inline void hv_entity_begin_slice(struct hv_sched_entity *me)
{
    me->pause_window = HV_YIELD_WINDOW;
    hv_store_relaxed(&me->in_spin, false);
}
