/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The event count: see event.h. */
#include "mem/event.h"

#include <limits.h>

#include "sync/futex.h"

void hv_event_init(struct hv_event *event)
{
    hv_store_relaxed(&event->sequence, 0);
    hv_store_relaxed(&event->waiters, 0);
}

uint32_t hv_event_listen(struct hv_event *event)
{
    /* Pairs with hv_event_signal(): announced before the condition is read. */
    hv_add_seq(&event->waiters, 1);
    return hv_load_seq(&event->sequence);
}

void hv_event_cancel(struct hv_event *event)
{
    hv_sub_seq(&event->waiters, 1);
}

void hv_event_wait(struct hv_event *event, uint32_t ticket, hv_ns deadline)
{
    hv_futex_wait(&event->sequence, ticket, deadline);
    hv_event_cancel(event);
}

void hv_event_signal(struct hv_event *event)
{
    /* Pairs with hv_event_listen(): the condition was written before this. */
    if (hv_load_seq(&event->waiters) == 0) {
        return;
    }
    hv_add_seq(&event->sequence, 1);
    hv_futex_wake(&event->sequence, INT_MAX);
}
