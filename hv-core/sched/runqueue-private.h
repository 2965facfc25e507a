/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Run queues from the inside: shared by picking (runqueue.c), waking and yielding. */
#pragma once

#include "sched/runqueue.h"

/**
 * Lock the run queue that the entity is at home in. It may move while we wait: then to the next.
 */
struct hv_runqueue *runqueue_lock_home(struct hv_sched_entity *entity);

/** Book the time in the old state, and enter the new one. The home's lock is held. */
void runqueue_change_state(struct hv_sched_entity *entity, enum hv_sched_state state, hv_ns now);

/** Into the list of those who wait, where it belongs. It is READY. */
void runqueue_insert_locked(struct hv_runqueue *queue, struct hv_sched_entity *entity);
/** Out of the list that it waits in. */
void runqueue_remove_locked(struct hv_runqueue *queue, struct hv_sched_entity *entity);

struct runqueue_standing {
    hv_vtime vtime;
    hv_vrate rate;
};

/**
 * The youngest of those who wait on pCPUs that the group may run on or, with @running, who run
 * there and have until @now. False when there is nobody.
 */
bool runqueue_youngest(const struct hv_runqueues *set, const struct hv_sched_group *group,
                       bool running, hv_ns now, struct runqueue_standing *youngest_out);

/** Make an idle pCPU that it may run on ours to give work to, the nearest after @home first; NULL. */
struct hv_runqueue *runqueue_claim(struct hv_runqueue *home, const struct hv_sched_group *group);

/** Bring the end of @queue's slice forward to the usual one, if it was alone. Any thread. */
void runqueue_end_alone(struct hv_runqueue *queue, hv_ns now);

/**
 * One of the group waits in @home: claim an idle pCPU for it, to be notified; or NULL, and from now on
 * nobody who runs is alone.
 */
struct hv_runqueue *runqueue_find_taker(struct hv_runqueue *home,
                                        const struct hv_sched_group *group);

/** End the slice that runs on @queue's pCPU, whose lock is held, at @when. */
void runqueue_preempt_locked(struct hv_runqueue *queue, hv_ns when);

void runqueue_notify(const struct hv_runqueue *queue);
