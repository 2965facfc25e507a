/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The one thread that ends slices: it sleeps until the earliest deadline of the vCPUs in guest mode
 * and rings their doorbells. An engine then polls one word and reads no clock.
 *
 *     slot (one a worker)   bell, when   guarded by the slot's lock, so that a bell cannot be rung
 *                                        after hv_deadline_clear() has returned
 *     wake_at               until when the thread sleeps; UINT64_MAX while it looks at the slots
 *
 * No deadline is overslept: a setter writes its slot and then loads `wake_at`; the thread stores
 * UINT64_MAX there, looks at the slots, stores what it found, and sleeps. A slot written after the
 * thread's look is one whose setter sees UINT64_MAX or the new value, and rings when it is earlier.
 */
#pragma once

#include "base/clock.h"
#include "sync/doorbell.h"

struct hv_deadline;

/** Start the thread with @slots empty slots. Returns 0; -ENOMEM; -EAGAIN from the host. */
HV_MUST_CHECK int hv_deadline_create(unsigned slots, const struct hv_clock *clock,
                                     struct hv_deadline **deadline_out);
/** Stop and join it. NULL is accepted. */
void hv_deadline_destroy(struct hv_deadline *deadline);

/** Ring @bell with HV_REQUEST_TIMER at @when, or never, and on every hv_deadline_kick(). */
void hv_deadline_set(struct hv_deadline *deadline, unsigned slot, struct hv_doorbell *bell,
                     hv_ns when);

/** Forget the slot's bell; it is not being rung any more when this returns. */
void hv_deadline_clear(struct hv_deadline *deadline, unsigned slot);

/** Ring the slot's bell now, if it has one. Any thread, any lock: a worker's bell comes to this. */
void hv_deadline_kick(struct hv_deadline *deadline, unsigned slot);

/** How often the thread woke up. */
uint64_t hv_deadline_wakes(const struct hv_deadline *deadline);

/** A simulated clock was advanced. */
void hv_deadline_clock_moved(struct hv_deadline *deadline);
