/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How long locks are waited for, held, and how long taking one takes when nobody else has it.
 *
 *   counters   always on, plain stores of the holder
 *   wait       the slow path is always timed: it costs microseconds anyway
 *   hold, acquire
 *              one taking in 64 of each thread, by the time-stamp counter; or as often as somebody
 *              wants of a class
 *
 * What was sampled or waited is booked after the lock was dropped, so that no holding becomes longer
 * by it: samples in the histogram of the lock's class, of which threads share HV_LOCK_STRIPES sets
 * by number. A lock that was contended once has histograms of its own as well, and readers have them
 * from the beginning, while the pool of those lasts. Waits are there alone, or with the class when
 * the pool was empty.
 *
 * All that costs 0.4 to 0.6 ns of the 19.3 ns of a take and drop (`hv-bench locks`).
 *
 * Nothing is ever set back: who wants figures from a moment on subtracts a copy (stat/).
 */
#pragma once

#include "sync/lock-head.h"

/* Sets of histograms for classes. */
#define HV_LOCK_STRIPES      8
/* Names of locks there are room for; the rest is "other" together. */
#define HV_LOCK_CLASSES      48
/* Sides of locks that can have histograms of their own at one time. */
#define HV_LOCK_DETAILS      256
/* One taking in so many is sampled, on average, unless another number was set for its class. */
#define HV_LOCK_SAMPLING     64u
#define HV_LOCK_SAMPLING_MAX 1000000u

/**
 * Say on whose behalf this thread runs: what it waits for locks of @owner is booked on @vcpu, below
 * HV_MAX_VCPUS. NULL: on nobody's.
 */
void hv_lock_set_waiter(const struct hv_lock_owner *owner, unsigned vcpu);

/**
 * Sample one taking in @one_in of the locks of a class, on average: 1 each, 0 none. Threads look up
 * as often as the class wants that wants it most, which all takings then pay for.
 *
 * Returns 0; -EINVAL beyond HV_LOCK_SAMPLING_MAX; -ENOENT when no lock of that name was ever made.
 * Context: any thread, any lock.
 */
HV_MUST_CHECK int hv_lock_set_sampling(const char *name, uint32_t one_in);

/** How often the side was taken. Of readers, who count in the lock's word, too. */
uint64_t hv_lock_side_acquired(const struct hv_lock_side *side);

/** Add the sampled or timed spans of all locks of @side's class, its readers or the rest, to @sum. */
void hv_lock_class_sum(const struct hv_lock_head *head, const struct hv_lock_side *side,
                       enum hv_lock_span span, struct hv_histogram *sum);
