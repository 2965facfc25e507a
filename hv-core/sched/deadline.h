/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The one thread that ends slices: it sleeps until the earliest deadline of the vCPUs in guest mode
 * and rings their doorbells. An engine then polls one word and reads no clock.
 *
 *     slot (one a worker)   bell, when   guarded by the slot's lock, so that a bell cannot be rung
 *                                        after hv_deadline_clear() has returned
 *     alarm                              the kernel's timer that wakes the thread
 *     alarm_at                           for when it is set; UINT64_MAX: for no time at all, or
 *                                        somebody looks at the slots
 *
 * To set the alarm wakes nobody, and a worker that goes to sleep puts it off to the deadlines of the
 * others: so the thread wakes for a vCPU that is to leave its guest, and for nothing else.
 *
 * No deadline is overslept: a setter writes its slot, then loads `alarm_at`, and sets the alarm when
 * its deadline is earlier. Who looks at the slots, the thread or a worker that rests, stores
 * UINT64_MAX first, looks, and then sets the alarm for what it found. Of a setter and a look at least
 * one sees the other; and whoever stored last looks last, and finds what those before him missed.
 */
#pragma once

#include "base/clock.h"
#include "sync/doorbell.h"

struct hv_deadline;

/**
 * Start the thread with @slots empty slots.
 *
 * Returns 0; -ENOMEM; -EAGAIN when the host has no descriptor left for the alarm, or starts no more
 * threads.
 */
HV_MUST_CHECK int hv_deadline_create(unsigned slots, const struct hv_clock *clock,
                                     struct hv_deadline **deadline_out);
/** Stop and join it; the slots' owners are gone. NULL is accepted. */
void hv_deadline_destroy(struct hv_deadline *deadline);

/** Ring @bell with HV_REQUEST_TIMER at @when, or never, and on every hv_deadline_kick(). */
void hv_deadline_set(struct hv_deadline *deadline, unsigned slot, struct hv_doorbell *bell,
                     hv_ns when);

/** Forget the slot's bell; it is not being rung any more when this returns. */
void hv_deadline_clear(struct hv_deadline *deadline, unsigned slot);

/**
 * The slot's owner goes to sleep, its slot is clear: let the alarm not go off for what it had set.
 * One load, unless the alarm is its own.
 */
void hv_deadline_rest(struct hv_deadline *deadline, unsigned slot);

/** Ring the slot's bell now, if it has one. Any thread, any lock: a worker's bell comes to this. */
void hv_deadline_kick(struct hv_deadline *deadline, unsigned slot);

/** How often the thread woke up. */
uint64_t hv_deadline_wakes(const struct hv_deadline *deadline);

/** When the alarm is set for; HV_NS_NEVER: for no time. Any thread; what others do may change it. */
hv_ns hv_deadline_alarm(const struct hv_deadline *deadline);

/** A simulated clock was advanced. */
void hv_deadline_clock_moved(struct hv_deadline *deadline);
