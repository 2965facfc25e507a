/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What is run: one vCPU as the scheduler sees it.
 *
 *     blocked --hv_runqueue_wake--> ready --pick--> running --run says BLOCK--> blocked
 *                                     ^                |----run says YIELD-->  ready
 *                                     '----------------'
 *     any but running --hv_runqueue_retire--> retired (final)
 *
 * Its fields are guarded by the lock of the run queue it is at home in. It changes homes by a holder
 * of the old home's lock, who writes everything else before `home`: from then on the others lock
 * the new one.
 *
 * What others look at without a lock, to choose whom to help, is atomic and a hint: a choice made on
 * old news is made again under the lock, and nobody writes it but the entity's own side.
 */
#pragma once

#include "base/list.h"
#include "sched/group.h"
#include "sync/doorbell.h"

struct hv_runqueue;
struct hv_worker;

enum hv_sched_verdict {
    HV_SCHED_YIELD, /* still runnable */
    HV_SCHED_BLOCK, /* until a wake */
    HV_SCHED_HALT,  /* the same, and the wake may come soon: worth polling for */
};

enum hv_sched_state {
    HV_SCHED_STATE_BLOCKED,
    HV_SCHED_STATE_READY,
    HV_SCHED_STATE_RUNNING,
    HV_SCHED_STATE_RETIRED,
};

/* One writer at a time; relaxed readers. */
struct hv_sched_counters {
    /* Written under the home's lock. */
    _Atomic uint64_t run_ns, ready_ns, blocked_ns, switches, migrations;
    _Atomic uint64_t steal_ns;  /* of ready_ns: after its slice ended, while it wanted to go on */
    _Atomic uint64_t wakes;     /* from BLOCKED to READY */
    _Atomic uint64_t preempted; /* slices that ended early for one who woke */
    _Atomic uint64_t parked;    /* times the cap took it out of the race */
    _Atomic uint64_t boosts;    /* times another's yield put it before the others */
    /* Written by the entity's own side. */
    _Atomic uint64_t yields_attempted, yields_successful;
    _Atomic uint64_t spins; /* pause loops, of which it has spun too long */
    _Atomic uint64_t halt_polls, halt_poll_hits;
};

struct hv_sched_entity {
    /* Set at creation, before it is put into a queue. */
    enum hv_sched_verdict (*run)(void *context, struct hv_worker *worker, hv_ns slice_end);
    void *context;
    struct hv_doorbell *bell; /* rung with STOP when its slice ends early */
    struct hv_sched_group *group;
    unsigned index; /* in its group */
    uint32_t label; /* for statistics: its domain's id */

    /* Guarded by the home's lock. */
    _Atomic(struct hv_runqueue *) home;
    struct hv_list link; /* in `ready` or `parked` */
    enum hv_sched_state state;
    bool put_off; /* ready, because its slice ended */
    bool boosted; /* stands before those who are younger, until it is picked */
    bool parked;  /* ready, and the group's budget is used up */
    bool halted;  /* blocked by HALT */
    hv_ns since;  /* of the present state */
    hv_vtime vtime;
    uint64_t handicap; /* of a yielder: added to vtime for the order, until it is picked */
    hv_vrate rate;     /* at the last pick */
    uint64_t reserved_ns;
    hv_ns penalised_at, yielded_at;
    const struct hv_sched_entity *yielded_to;
    uint64_t poll_ns; /* how long the next halt is polled */

    /* Of its own side, which is the thread that runs it. */
    uint64_t spin_toggle;  /* by member: it may be helped though it spins itself */
    uint32_t pause_window; /* PAUSEs in a row that are one too many; for the engine to read */

    /* Atomic: written under the home's lock, looked at without. */
    _Atomic bool ready;        /* runnable and not running */
    _Atomic bool wake_pending; /* woken while it ran */
    _Atomic bool retiring;     /* somebody waits for the slice to end */
    /* Atomic: written by its own side. */
    _Atomic bool in_spin;     /* it waits for another in a loop */
    _Atomic bool kernel_mode; /* where its last slice ended */
    _Atomic uint64_t ipi_to;  /* members it sent an interrupt to, in the slice of ipi_ns */
    _Atomic uint64_t ipi_ns;  /* when it last did */

    struct hv_sched_counters counters;
};
