/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a thread holds, for the checks of ranks (lock-check.c). Called only if HV_CONFIG_RANKS.
 */
#pragma once

#include "sync/lock.h"

/** Abort, naming both, when @lock may not be taken on top of what this thread holds. */
void hv_lock_check_take(const struct hv_lock *lock);

/** As above for the second of a pair, whose first is held. */
void hv_lock_check_second(const struct hv_lock *first, const struct hv_lock *second);

/** Note that this thread has taken, or is about to drop, @lock. Dropping what is not held aborts.*/
void hv_lock_note_taken(struct hv_lock *lock);
void hv_lock_note_dropped(struct hv_lock *lock);
