/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Grace periods: see qsbr.h for the protocol and why it holds. */
#include "sync/qsbr.h"

#include "base/assert.h"
#include "sync/futex.h"
#include "sync/race.h"

void hv_qsbr_init(struct hv_qsbr *qsbr)
{
    *qsbr = (struct hv_qsbr){.epoch = 1};
    hv_lock_init(&qsbr->lock, HV_RANK_LEAF, "qsbr", 0);
    hv_list_init(&qsbr->threads);
    hv_list_init(&qsbr->calls);
}

void hv_qsbr_finish(struct hv_qsbr *qsbr)
{
    HV_BUG_ON(hv_list_linked(&qsbr->threads));
    while (hv_qsbr_reclaim(qsbr, UINT32_MAX) > 0) {
        /* Calls may call. */
    }
    hv_lock_finish(&qsbr->lock);
}

void hv_qsbr_register(struct hv_qsbr *qsbr, struct hv_qsbr_thread *thread)
{
    hv_store_relaxed(&thread->seen, 0);
    thread->qsbr = qsbr;
    hv_lock_take(&qsbr->lock);
    hv_list_push_tail(&qsbr->threads, &thread->link);
    hv_lock_drop(&qsbr->lock);
}

void hv_qsbr_unregister(struct hv_qsbr_thread *thread)
{
    HV_BUG_ON(hv_qsbr_is_online(thread));
    hv_lock_take(&thread->qsbr->lock);
    hv_list_unlink(&thread->link);
    hv_lock_drop(&thread->qsbr->lock);
}

/* Publish, and wake who waits for that. Dekker with hv_qsbr_synchronize(): it counts itself and
 * then looks at `seen`. */
static void publish(struct hv_qsbr_thread *thread, uint64_t seen)
{
    struct hv_qsbr *qsbr = thread->qsbr;

    hv_store_seq(&thread->seen, seen);
    if (HV_UNLIKELY(hv_load_seq(&qsbr->waiters) > 0)) {
        hv_add_seq(&qsbr->moved, 1);
        hv_futex_wake(&qsbr->moved, UINT32_MAX >> 1);
    }
}

void hv_qsbr_online(struct hv_qsbr_thread *thread)
{
    uint64_t epoch = hv_load_seq(&thread->qsbr->epoch);

    HV_ASSERT(!hv_qsbr_is_online(thread));
    hv_store_seq(&thread->seen, epoch);
    HV_RACE("qsbr.online.stored");
    /* The second load is what the proof in the header stands on; what it finds need not be stored:
     * an older `seen` only makes a grace period wait for the next quiescent state. */
    (void)hv_load_seq(&thread->qsbr->epoch);
}

void hv_qsbr_offline(struct hv_qsbr_thread *thread)
{
    publish(thread, 0);
}

void hv_qsbr_quiescent(struct hv_qsbr_thread *thread)
{
    uint64_t epoch = hv_load_seq(&thread->qsbr->epoch);
    uint64_t seen = hv_load_relaxed(&thread->seen);

    /* Nobody asked since the last time, or offline: nothing to say. */
    if (seen != 0 && seen != epoch) {
        publish(thread, epoch);
    }
}

bool hv_qsbr_is_online(const struct hv_qsbr_thread *thread)
{
    return hv_load_relaxed(&thread->seen) != 0;
}

/* The oldest epoch that some online thread may still read in. */
static uint64_t oldest_seen_locked(struct hv_qsbr *qsbr)
{
    uint64_t oldest = UINT64_MAX;

    hv_lock_assert_held(&qsbr->lock);
    hv_list_for_each(link, &qsbr->threads) {
        struct hv_qsbr_thread *thread = hv_list_entry(link, struct hv_qsbr_thread, link);
        uint64_t seen = hv_load_seq(&thread->seen);

        if (seen != 0 && seen < oldest) {
            oldest = seen;
        }
    }
    return oldest;
}

static uint64_t oldest_seen(struct hv_qsbr *qsbr)
{
    uint64_t oldest;

    hv_lock_take(&qsbr->lock);
    oldest = oldest_seen_locked(qsbr);
    hv_lock_drop(&qsbr->lock);
    return oldest;
}

void hv_qsbr_synchronize(struct hv_qsbr *qsbr)
{
    uint64_t epoch = hv_add_seq(&qsbr->epoch, 1) + 1;

    hv_lock_check_none("a grace period");
    hv_add_seq(&qsbr->waiters, 1);
    for (;;) {
        uint32_t moved = hv_load_seq(&qsbr->moved);

        if (oldest_seen(qsbr) >= epoch) {
            break;
        }
        HV_RACE("qsbr.synchronize.waits");
        hv_futex_wait(&qsbr->moved, moved, HV_NS_NEVER);
    }
    hv_sub_seq(&qsbr->waiters, 1);
}

void hv_qsbr_call(struct hv_qsbr *qsbr, struct hv_qsbr_call *call,
                  void (*function)(struct hv_qsbr_call *call))
{
    call->function = function;
    hv_lock_take(&qsbr->lock);
    /* Under the lock, so that the list is ordered. */
    call->epoch = hv_add_seq(&qsbr->epoch, 1) + 1;
    hv_list_push_tail(&qsbr->calls, &call->link);
    hv_lock_drop(&qsbr->lock);
}

unsigned hv_qsbr_reclaim(struct hv_qsbr *qsbr, unsigned limit)
{
    struct hv_list ready;
    struct hv_list *link;
    unsigned count = 0;
    uint64_t oldest;

    hv_list_init(&ready);
    hv_lock_take(&qsbr->lock);
    oldest = hv_list_linked(&qsbr->calls) ? oldest_seen_locked(qsbr) : 0;
    while (count < limit && hv_list_linked(&qsbr->calls)) {
        struct hv_qsbr_call *call = hv_list_entry(qsbr->calls.next, struct hv_qsbr_call, link);

        if (call->epoch > oldest) {
            break;
        }
        hv_list_unlink(&call->link);
        hv_list_push_tail(&ready, &call->link);
        count++;
    }
    hv_lock_drop(&qsbr->lock);
    while ((link = hv_list_pop_head(&ready))) {
        struct hv_qsbr_call *call = hv_list_entry(link, struct hv_qsbr_call, link);

        call->function(call);
    }
    return count;
}
