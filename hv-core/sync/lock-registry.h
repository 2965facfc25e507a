/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Every lock that somebody owns, in lists that any thread walks without taking a lock.
 *
 *     owner ── lock ── lock ── …        a domain, or the core itself
 *     owner ── lock ── …
 *
 * Locks are made deep inside the floors, by code that does not know whose they are. Who makes a
 * domain says so once, and what the thread makes from then on is listed with it:
 *
 *     before = hv_lock_owner_use(&domain->locks);
 *     … make everything …
 *     hv_lock_owner_use(before);
 *
 *   epoch     one global count. Who takes a lock off its list asks for e = ++epoch.
 *   walkers   a walk has the epoch in which it began, in one of a few slots; 0: free.
 *   A lock may go when each slot is 0 or >= e.
 *
 * Guarantees, as of grace periods (qsbr.h, where they are proved): a lock that a walk has found
 * stays where it is until the walk ends; one that was taken off before a walk began is not found.
 * A walk reads counters and histograms, takes no lock, and waits for nothing but, when all slots are
 * in use, for another walk. What waits for walks that began before it is the end of a lock, or of an
 * owner, and with it who ends it: a reaper, or a control thread that ends a core or failed to make a
 * domain. Nobody else does, so that a watcher, however slow, stalls no machine that runs, nor who
 * looks one up or lets go of it.
 */
#pragma once

#include "sync/lock-head.h"

struct hv_lock_owner {
    /* Set at creation. */
    char name[64]; /* of the domain; "" for the core itself */
    /* Guarded by the registry; followed by walkers without it. */
    _Atomic(struct hv_lock_head *) locks;
    _Atomic(struct hv_lock_owner *) next;
    struct hv_lock_owner *before;
};

/** @name is copied. */
void hv_lock_owner_init(struct hv_lock_owner *owner, const char *name);

/** All its locks are finished. Waits for walks: no lock of rank >= HV_RANK_FLUSH_WAIT is held. */
void hv_lock_owner_finish(struct hv_lock_owner *owner);

/**
 * List the locks that this thread makes from now on with @owner; NULL: with nobody.
 *
 * Returns what was said before.
 */
struct hv_lock_owner *hv_lock_owner_use(struct hv_lock_owner *owner);

/* One walk. No lock may be taken, made or finished until it ends. */
struct hv_lock_walk {
    unsigned slot;
};

void hv_lock_walk_begin(struct hv_lock_walk *walk);
void hv_lock_walk_end(struct hv_lock_walk *walk);

/** The owner after @owner; the first for NULL; NULL after the last. During a walk. */
const struct hv_lock_owner *hv_lock_walk_owners(const struct hv_lock_owner *owner);

/** The lock of @owner's after @lock; the first for NULL; NULL after the last. During a walk. */
const struct hv_lock_head *hv_lock_walk_locks(const struct hv_lock_owner *owner,
                                              const struct hv_lock_head *lock);
