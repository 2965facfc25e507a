/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Something changed: look again. For rare waits that no lock may be held over, for a condition that
 * stands in an atomic or under a lock of its own.
 *
 *     waiter    ticket = hv_eventcount_listen();
 *               condition ? hv_eventcount_cancel() : hv_eventcount_wait(ticket), and again
 *     changer   make the condition true;  hv_eventcount_signal()
 *
 * The waiter announces itself and then reads the condition, the changer writes the condition and
 * then looks for waiters, both sequentially consistent: one of them sees the other. A signal that
 * nobody waits for is one load.
 *
 * Source: the event count of D. Reed and R. Kanodia, on a futex.
 */
#pragma once

#include "sync/atomic.h"

#include <hv/types.h>

struct hv_eventcount {
    _Atomic uint32_t sequence;
    _Atomic uint32_t waiters;
};

void hv_eventcount_init(struct hv_eventcount *count);

/** Announce a wait; the condition is read after it. Returns the ticket. */
uint32_t hv_eventcount_listen(struct hv_eventcount *count);

/** The condition holds: no wait. */
void hv_eventcount_cancel(struct hv_eventcount *count);

/**
 * Sleep until a signal since the ticket, or @deadline by CLOCK_MONOTONIC. Ends the announcement;
 * may wake for nothing.
 */
void hv_eventcount_wait(struct hv_eventcount *count, uint32_t ticket, hv_ns deadline);

/** Wake all waiters. Context: any thread, any lock; never blocks. */
void hv_eventcount_signal(struct hv_eventcount *count);
