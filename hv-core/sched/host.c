/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Policy `host`: a thread for each entity, with run queues of its own that have one pCPU and hold
 * nobody else, so that waking, blocking and retiring are what they are under `credit`, and the only
 * decision left is the host's.
 *
 * Who wakes an entity may come late, when it is retired and its thread gone: what it looks at then is
 * the queue's lock. So a worker is not freed but used again, by the next entity that wants one.
 */
#include "sched/sched-private.h"

#include "base/alloc.h"
#include "base/format.h"
#include "sync/lock-registry.h"
#include "sync/thread.h"

#include <errno.h>

static void notify_vcpu(void *context, unsigned index)
{
    struct hv_worker *worker = context;

    (void)index;
    hv_doorbell_ring(&worker->bell, HV_REQUEST_EVENT);
}

static struct hv_worker *make_worker(struct hv_sched *sched)
{
    struct hv_worker *worker = hv_alloc_aligned(HV_CACHE_LINE, sizeof(*worker));
    struct hv_sched_tuning tuning = hv_sched_tuning_standard;
    struct hv_lock_owner *before;
    int error;

    if (!worker) {
        return NULL;
    }
    /* For ever: nobody else is in the queue. */
    tuning.slice_ns = UINT64_MAX / 4;
    /* Its locks outlive the machine that it is made for. */
    before = hv_lock_owner_use(NULL);
    error = hv_runqueues_init(&worker->own_queues, 1, sched->clock, &tuning, notify_vcpu, worker);
    hv_lock_owner_use(before);
    if (error < 0) {
        hv_runqueues_finish(&worker->own_queues);
        hv_free(worker);
        return NULL;
    }
    worker_init(worker, sched, &worker->own_queues.queue[0], 0);
    return worker;
}

/* One that nobody uses, or NULL. It is the caller's. */
static struct hv_worker *take_spare(struct hv_sched *sched, struct hv_sched_entity *entity)
{
    struct hv_worker *spare = NULL;

    hv_lock_take(&sched->lock);
    hv_list_for_each(node, &sched->vcpu_workers) {
        struct hv_worker *worker = hv_list_entry(node, struct hv_worker, link);

        if (!worker->entity) {
            spare = worker;
            spare->entity = entity;
            break;
        }
    }
    hv_lock_drop(&sched->lock);
    return spare;
}

static void give_back(struct hv_sched *sched, struct hv_worker *worker)
{
    hv_lock_take(&sched->lock);
    worker->entity = NULL;
    hv_lock_drop(&sched->lock);
}

int host_start(struct hv_sched *sched, struct hv_sched_entity *entity)
{
    struct hv_worker *worker = take_spare(sched, entity);
    char name[16];
    int error;

    if (!worker) {
        worker = make_worker(sched);
        if (!worker) {
            return -ENOMEM;
        }
        worker->entity = entity;
        hv_lock_take(&sched->lock);
        hv_list_push_tail(&sched->vcpu_workers, &worker->link);
        hv_lock_drop(&sched->lock);
    }
    hv_store_seq(&worker->stopping, 0);
    hv_qsbr_register(&sched->qsbr, &worker->reader);
    hv_format(name, sizeof(name), "hv-vcpu-%u", entity->index);
    error = hv_thread_start(&worker->thread, name, worker_main, worker);
    if (error < 0) {
        hv_qsbr_unregister(&worker->reader);
        give_back(sched, worker);
        return error;
    }
    hv_runqueue_add(&worker->own_queues, entity, 0);
    return 0;
}

void host_stop(struct hv_sched *sched, struct hv_sched_entity *entity)
{
    struct hv_runqueue *home = hv_load_acquire(&entity->home);
    struct hv_worker *worker = HV_CONTAINER_OF(home->set, struct hv_worker, own_queues);
    bool ours;

    hv_lock_take(&sched->lock);
    ours = worker->entity == entity;
    hv_lock_drop(&sched->lock);
    if (ours) {
        worker_stop(worker);
        hv_qsbr_unregister(&worker->reader);
        give_back(sched, worker);
    }
}

void host_finish(struct hv_sched *sched)
{
    struct hv_list *node;

    while ((node = hv_list_pop_head(&sched->vcpu_workers))) {
        struct hv_worker *worker = hv_list_entry(node, struct hv_worker, link);

        hv_runqueues_finish(&worker->own_queues);
        hv_free(worker);
    }
}
