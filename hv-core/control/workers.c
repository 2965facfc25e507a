/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Two lists of requests, and threads: see workers.h. */
#include "control/workers.h"

#include "base/assert.h"
#include "base/format.h"
#include "sync/lock-registry.h"
#include "sync/thread.h"

static struct hv_work *begin(struct hv_workers *workers)
{
    struct hv_list *first;

    hv_lock_take(&workers->lock);
    first = hv_list_pop_head(&workers->ready);
    workers->at_work += first ? 1 : 0;
    hv_lock_drop(&workers->lock);
    return first ? hv_list_entry(first, struct hv_work, list) : NULL;
}

static void end(struct hv_workers *workers, struct hv_work *work)
{
    bool tell;

    hv_lock_take(&workers->lock);
    hv_list_push_tail(&workers->free, &work->list);
    workers->at_work--;
    tell = workers->server_waits;
    workers->server_waits = false;
    hv_lock_drop(&workers->lock);
    if (tell) {
        workers->done(workers->context);
    }
}

static void *run(void *context)
{
    struct hv_workers *workers = context;

    hv_lock_owner_use(workers->owner);
    for (;;) {
        uint32_t ticket = hv_eventcount_listen(&workers->work);
        struct hv_work *work = begin(workers);

        if (work) {
            hv_eventcount_cancel(&workers->work);
            workers->run(workers->context, work);
            end(workers, work);
        } else if (hv_load_seq(&workers->stopping)) {
            hv_eventcount_cancel(&workers->work);
            return NULL;
        } else {
            hv_eventcount_wait(&workers->work, ticket, HV_NS_NEVER);
        }
    }
}

int hv_workers_init(struct hv_workers *workers)
{
    int rc = 0;

    hv_lock_init(&workers->lock, HV_RANK_LEAF, "control.requests", 0);
    hv_list_init(&workers->free);
    hv_list_init(&workers->ready);
    hv_eventcount_init(&workers->work);
    for (unsigned i = 0; i < HV_WORKERS_REQUESTS; i++) {
        hv_list_push_tail(&workers->free, &workers->works[i].list);
    }
    while (rc == 0 && workers->threads < HV_WORKERS_THREADS) {
        char name[16];

        hv_format(name, sizeof(name), "hv-control-%u", workers->threads);
        rc = hv_thread_start(&workers->thread[workers->threads], name, run, workers);
        workers->threads += rc == 0 ? 1 : 0;
    }
    return rc;
}

void hv_workers_finish(struct hv_workers *workers)
{
    hv_store_seq(&workers->stopping, 1);
    hv_eventcount_signal(&workers->work);
    for (unsigned i = 0; i < workers->threads; i++) {
        pthread_join(workers->thread[i], NULL);
    }
    HV_ASSERT(!hv_list_linked(&workers->ready));
    hv_lock_finish(&workers->lock);
}

struct hv_work *hv_workers_take(struct hv_workers *workers)
{
    struct hv_list *first;

    hv_lock_take(&workers->lock);
    first = hv_list_pop_head(&workers->free);
    workers->server_waits = workers->server_waits || !first;
    hv_lock_drop(&workers->lock);
    return first ? hv_list_entry(first, struct hv_work, list) : NULL;
}

void hv_workers_give_back(struct hv_workers *workers, struct hv_work *work)
{
    hv_lock_take(&workers->lock);
    hv_list_push_tail(&workers->free, &work->list);
    hv_lock_drop(&workers->lock);
}

void hv_workers_submit(struct hv_workers *workers, struct hv_work *work)
{
    hv_lock_take(&workers->lock);
    hv_list_push_tail(&workers->ready, &work->list);
    hv_lock_drop(&workers->lock);
    hv_eventcount_signal(&workers->work);
}

void hv_workers_cancel(struct hv_workers *workers)
{
    struct hv_list *first;

    hv_lock_take(&workers->lock);
    while ((first = hv_list_pop_head(&workers->ready)) != NULL) {
        hv_list_push_tail(&workers->free, first);
    }
    hv_lock_drop(&workers->lock);
}

bool hv_workers_idle(struct hv_workers *workers)
{
    bool idle;

    hv_lock_take(&workers->lock);
    idle = workers->at_work == 0 && !hv_list_linked(&workers->ready);
    workers->server_waits = workers->server_waits || !idle;
    hv_lock_drop(&workers->lock);
    return idle;
}
