/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The run queues of a number of pCPUs, without threads: who waits, who is next, who is woken where.
 * Worker threads drive them by the host's clock (worker.c), simulations by a simulated one; both in
 * this form, a pCPU each:
 *
 *     entity = hv_runqueue_pick(queue, &slice_end);
 *     verdict = … run it until hv_runqueue_slice_end(queue, slice_end) …
 *     hv_runqueue_put_back(queue, entity, verdict);
 *
 * and hv_runqueue_tick() not much later than hv_runqueue_next(). Where a pCPU should look up (there
 * is work while it idles, its slice ends earlier) `notify` is called.
 *
 * A queue is in the order of virtual time (credit.h), the youngest first. A pick takes the youngest
 * of all queues, its own with a head start: so the shares hold over all pCPUs, and not only where
 * their entities happen to be. A wake goes to the home queue's pCPU if that is idle, else to another
 * that is, else where it may interrupt one who is older by a slice's least, the oldest; else it
 * waits at home.
 *
 * Invariants:
 *   (1) a ready entity stands in one list of its home queue; others in none;
 *   (2) a wake that comes while `run` decides to block is not lost: `wake_pending` is set with the
 *       queue's lock held and looked at before blocking;
 *   (3) hv_runqueue_retire() returns only when nobody runs the entity or will;
 *   (4) no pCPU sleeps while an entity waits that it may run: it says that it is idle and then looks
 *       at all queues; a wake puts the entity into a queue and then looks for idle pCPUs;
 *   (5) no slice is longer than `slice_ns` while somebody waits: who has a pCPU alone says so and then
 *       looks at all queues; a wake puts the entity into a queue and then looks for those who said so,
 *       whose slices end from then on as if they had begun anew each time;
 *   (6) `ready` is true from an involuntary end, or a wake, to the pick.
 *
 * Locks: HV_RANK_RUNQUEUE, one each; pairs by index. No callback but `notify`, which takes no lock
 * but HV_RANK_DOORBELL.
 */
#pragma once

#include "base/clock.h"
#include "sched/entity.h"

/* Slices; a simulation may have others. */
struct hv_sched_tuning {
    uint64_t slice_ns;      /* longest run while others wait */
    uint64_t slice_min_ns;  /* shortest */
    uint64_t alone_ns;      /* longest run while nobody waits, for any pCPU */
    uint64_t rate_limit_ns; /* nobody is interrupted earlier by one who wakes */
    uint64_t home_ns;       /* head start of a pCPU's own queue */
    bool boost;             /* directed yields do something */
    bool penalty;           /* a yielder stands back for a while */
};

extern const struct hv_sched_tuning hv_sched_tuning_standard;

struct hv_runqueues;

struct hv_runqueue {
    HV_ALIGNED(HV_CACHE_LINE) struct hv_lock lock; /* and of the entities at home here */
    /* Guarded by &lock. */
    struct hv_list ready;  /* boosted ones, then by age */
    struct hv_list parked; /* their groups' budgets are used up */
    unsigned retirers;     /* threads that wait for `turns` */
    /* Atomic: written under the lock, looked at without. */
    HV_ALIGNED(HV_CACHE_LINE) _Atomic uint32_t waiting; /* length of `ready` */
    _Atomic uint64_t head;                              /* virtual time of the first in it */
    _Atomic uint64_t head_rate;
    _Atomic bool head_boosted;
    _Atomic uint64_t park_until; /* when to look at `parked`; UINT64_MAX: it is empty */
    _Atomic uint64_t preempt_at; /* the slice ends then; UINT64_MAX: as it was given */
    /* Atomic: nobody waits, and the slice goes on until then; 0: it ends as it was given. Set by the
     * pCPU, brought forward by who brings somebody. */
    _Atomic uint64_t alone_until;
    /* Atomic: of what the pCPU runs; its own writer. */
    _Atomic bool busy;
    _Atomic uint64_t run_vtime, run_since, run_rate; /* when it began */
    /* Atomic: set by the pCPU when it finds nothing to do; cleared by whoever gives it work. */
    _Atomic uint32_t idle;
    /* Futex word: bumped when an entity that is to retire has left. */
    _Atomic uint32_t turns;
    /* Set at creation. */
    struct hv_runqueues *set;
    unsigned index;
    /* The pCPU's own. */
    uint64_t thread_id; /* 0: not known; for a check */
    _Atomic uint64_t stolen;
};

struct hv_runqueues {
    /* Set at creation. */
    const struct hv_clock *clock;
    void (*notify)(void *context, unsigned index);
    void *context;
    struct hv_sched_tuning tuning;
    unsigned count;
    struct hv_runqueue *queue;
    struct hv_sched_group everyone; /* the group of entities without one */
    /* Atomic: the oldest that was ever picked in turn. */
    _Atomic uint64_t vtime;
};

/**
 * Make @count (1 to HV_SCHED_MAX_WORKERS) empty queues.
 *
 * @notify  any thread, with queues locked: pCPU @index should look. May be NULL.
 *
 * Returns 0, or -ENOMEM.
 */
HV_MUST_CHECK int hv_runqueues_init(struct hv_runqueues *set, unsigned count,
                                    const struct hv_clock *clock,
                                    const struct hv_sched_tuning *tuning,
                                    void (*notify)(void *context, unsigned index), void *context);
/** All entities are retired. Also after hv_runqueues_init() failed. */
void hv_runqueues_finish(struct hv_runqueues *set);

/** Make a blocked entity at home with the @home-th pCPU that its group allows. */
void hv_runqueue_add(struct hv_runqueues *set, struct hv_sched_entity *entity, unsigned home);

/** Make it ready, or remember the wake while it runs. Any thread, ranks < RUNQUEUE. */
void hv_runqueue_wake(struct hv_sched_entity *entity);

/** Take it out for good; waits while it runs. No lock of rank >= DEVICE held. */
void hv_runqueue_retire(struct hv_sched_entity *entity);

/** A group's parameters have changed: let the entity have a place where it may be. Any thread. */
void hv_runqueue_settle(struct hv_sched_entity *entity);

/* ---- for the pCPU ---- */

/** Take the next to be run, and until when; or NULL when there is none that it may run. */
struct hv_sched_entity *hv_runqueue_pick(struct hv_runqueue *queue, hv_ns *slice_end_out);

/** A slice is over: block, or wait again, or retire what pick gave. */
void hv_runqueue_put_back(struct hv_runqueue *queue, struct hv_sched_entity *entity,
                          enum hv_sched_verdict verdict);

/** The slice's end as it stands now. */
static inline hv_ns hv_runqueue_slice_end(const struct hv_runqueue *queue, hv_ns slice_end)
{
    hv_ns preempt_at = {hv_load_seq(&queue->preempt_at)};
    hv_ns alone_until = {hv_load_seq(&queue->alone_until)};

    slice_end = hv_ns_before(slice_end, alone_until) ? alone_until : slice_end;
    return hv_ns_before(preempt_at, slice_end) ? preempt_at : slice_end;
}

/** Let those wait again whose groups have a new budget. */
void hv_runqueue_tick(struct hv_runqueue *queue);

/** When there is something for hv_runqueue_tick(); HV_NS_NEVER. */
static inline hv_ns hv_runqueue_next(const struct hv_runqueue *queue)
{
    return (hv_ns){hv_load_seq(&queue->park_until)};
}

/**
 * Found nothing: say so. True when that is the last word, and the pCPU may sleep until it is
 * notified; else it is to pick again. Then hv_runqueue_awake().
 */
HV_MUST_CHECK bool hv_runqueue_idle(struct hv_runqueue *queue);
void hv_runqueue_awake(struct hv_runqueue *queue);

/** The pCPU in whose queue it is at home. Any thread; it may have moved since. */
static inline unsigned hv_runqueue_home(const struct hv_sched_entity *entity)
{
    return hv_load_acquire(&entity->home)->index;
}
