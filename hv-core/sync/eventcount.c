/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The event count: see eventcount.h. */
#include "sync/eventcount.h"

#include <limits.h>

#include "sync/futex.h"

void hv_eventcount_init(struct hv_eventcount *count)
{
    hv_store_relaxed(&count->sequence, 0);
    hv_store_relaxed(&count->waiters, 0);
}

uint32_t hv_eventcount_listen(struct hv_eventcount *count)
{
    /* Pairs with hv_eventcount_signal(): announced before the condition is read. */
    hv_add_seq(&count->waiters, 1);
    return hv_load_seq(&count->sequence);
}

void hv_eventcount_cancel(struct hv_eventcount *count)
{
    hv_sub_seq(&count->waiters, 1);
}

void hv_eventcount_wait(struct hv_eventcount *count, uint32_t ticket, hv_ns deadline)
{
    hv_futex_wait(&count->sequence, ticket, deadline);
    hv_eventcount_cancel(count);
}

void hv_eventcount_signal(struct hv_eventcount *count)
{
    /* Pairs with hv_eventcount_listen(): the condition was written before this. */
    if (hv_load_seq(&count->waiters) == 0) {
        return;
    }
    hv_add_seq(&count->sequence, 1);
    hv_futex_wake(&count->sequence, INT_MAX);
}
