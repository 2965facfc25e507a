/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The threads that take dead domains apart, so that killing one costs its killer nothing.
 *
 *     away --hv_reaper_add--> queued --hv_reaper_turn--> in work
 *     in work --more to do, or woken meanwhile--> queued, behind all others
 *     in work --waits for an event--> parked --hv_reaper_wake--> queued
 *     in work --nothing left--> away, the domain is GONE
 *
 * A domain stands in one place, so that one reaper at a time works at it, with no lock held; a turn is
 * a bounded step, so that a small domain behind a large one is gone soon; and what has to wait leaves
 * its reaper to the others. Many domains are taken apart at once by many threads, which meet in
 * nothing but this queue, once a turn: the heap's shards have locks of their own.
 *
 * What is GONE still stands in memory for who holds it. Its last holder may be anybody, a look-up
 * under a lock too, and freeing it waits (for who walks the lists of locks): so he leaves it on a pile,
 * by one compare-and-swap, and a reaper frees it.
 *
 * Invariants:
 *   (1) the core's reference on a domain is the reaper's from add to GONE;
 *   (2) a wake while the domain is in work is not lost: `woken` stands until the turn ends.
 */
#pragma once

#include "base/clock.h"
#include "base/list.h"
#include "sync/eventcount.h"
#include "sync/lock.h"
#include "sync/seqcount.h"

#include <pthread.h>

struct hv_domain;

/* As many frames and as much time as one turn has. */
#define HV_REAPER_TURN_FRAMES 4096u
#define HV_REAPER_TURN_NS     (200 * HV_NS_PER_US)
#define HV_REAPER_THREADS_MAX 16u

enum hv_reaper_place {
    HV_REAPER_AWAY,
    HV_REAPER_QUEUED,
    HV_REAPER_IN_WORK,
    HV_REAPER_PARKED,
};

/* A domain's part. Guarded by the reaper's lock. */
struct hv_reaping {
    struct hv_list link;
    enum hv_reaper_place place;
    bool woken;
    uint64_t frames; /* booked in frames_left */
    /* Owned by who left it on the pile, then by who took it from there. */
    struct hv_domain *below;
};

struct hv_reaper {
    /* Set at creation. */
    const struct hv_clock *clock; /* borrowed */
    uint64_t turn_frames;
    unsigned threads; /* that run */
    pthread_t thread[HV_REAPER_THREADS_MAX];
    struct hv_lock lock; /* HV_RANK_LEAF */
    /* Guarded by &lock. */
    struct hv_list queue;
    unsigned busy; /* domains queued or in work */
    /* Atomic. */
    _Atomic uint32_t stopping;
    _Atomic(struct hv_domain *) unheld; /* the pile of those that nobody holds any more */
    struct hv_eventcount work;          /* something was queued, or it is stopping */
    struct hv_eventcount idle;          /* the last domain is gone */
    /* Atomic, written under &lock, consistent with each other by `sequence`. */
    struct hv_seqcount sequence;
    _Atomic uint64_t domains;     /* not away */
    _Atomic uint64_t frames_left; /* what those have */
    _Atomic uint64_t frames_done; /* given back, ever */
    /* The present burst of work, its end 0; or the last one. */
    _Atomic uint64_t burst_ns, burst_end_ns, burst_frames;
};

/**
 * Start @threads of them, at most HV_REAPER_THREADS_MAX. With 0 nothing is done but by
 * hv_reaper_turn(): tests.
 *
 * @clock  borrowed for its life.
 *
 * Returns 0 and *reaper_out; -ENOMEM; -EAGAIN from the host.
 */
HV_MUST_CHECK int hv_reaper_create(unsigned threads, const struct hv_clock *clock,
                                   struct hv_reaper **reaper_out);

/** Wait until all domains that were added are gone, and stop. NULL is accepted. */
void hv_reaper_destroy(struct hv_reaper *reaper);

/** A domain is DYING. Moves the core's reference in. Context: any thread, ranks below LEAF. */
void hv_reaper_add(struct hv_reaper *reaper, struct hv_domain *domain);

/** What @domain may wait for has come. It is held by the caller. Context: as above. */
void hv_reaper_wake(struct hv_reaper *reaper, struct hv_domain *domain);

/** Wait until @domain, held by the caller and dying, is GONE or DEAD. Context: no lock held. */
void hv_reaper_await(struct hv_reaper *reaper, struct hv_domain *domain);

/**
 * Nobody holds @domain, which is GONE, any more: free it soon. Takes no lock and never waits.
 * Context: any thread, any lock.
 */
void hv_reaper_bury(struct hv_reaper *reaper, struct hv_domain *domain);

/**
 * Free what lies on the pile, and do one step for the first in the queue. False when both were
 * empty. Context: no lock held.
 */
bool hv_reaper_turn(struct hv_reaper *reaper);

struct hv_reaper_info {
    uint64_t domains;      /* being taken apart, zombies too */
    uint64_t frames_left;  /* that these have not given back */
    uint64_t frames_done;  /* a counter: given back since the core began */
    uint64_t frames_per_s; /* in the present burst of work, or the last one */
};

/** Takes no lock. Any thread. */
void hv_reaper_get_info(const struct hv_reaper *reaper, struct hv_reaper_info *info_out);
