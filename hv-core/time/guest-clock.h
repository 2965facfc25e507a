/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A machine's own time: what its TSCs, its devices and the clock that it shares with the hypervisor
 * count, and nothing else does. In ns since the machine was made.
 *
 *     running --hv_guest_clock_freeze--> frozen --hv_guest_clock_thaw--> running
 *
 * While it runs it is the host's clock, off by a constant. While it is frozen it stands; how it goes
 * on is the policy's: where it stood (HV_CLOCK_FREEZE), or as much later as the host's time says that
 * it was frozen (HV_CLOCK_ADVANCE). Time in which the host slept, or the machine was a file, counts
 * as frozen.
 *
 * Invariants:
 *   (1) it never goes back: a reading is at least each one that was complete when it began, whichever
 *       threads made them and whatever the host's clock does; but for hv_guest_clock_load();
 *   (2) readers take no lock, and wait for nobody but a writer of three words.
 *
 * A host whose monotonic clock goes back all the same is caught by (1): the guest's goes on from the
 * last reading, at the host's pace, and what it was spared is counted. So readers publish what they
 * read; that word is on a line of its own, and written only by who has read more than stands there.
 *
 * Threads: now() anybody's; freeze, thaw and load serialise themselves.
 * Source: Xen's hvm_get_guest_time(), without its lock.
 */
#pragma once

#include "base/clock.h"
#include "sync/lock.h"
#include "sync/seqcount.h"

#include <hv/timers.h>

#define HV_GUEST_CLOCK_RECORD_VERSION 1
/* The host has slept, if its two clocks have come apart by more: nothing else does that. */
#define HV_GUEST_CLOCK_SLEEP_MIN_NS   (10 * HV_NS_PER_MS)

/* Written under the lock, read without. */
struct hv_guest_clock_counters {
    _Atomic uint64_t stops;        /* times it was frozen, and went on */
    _Atomic uint64_t stopped_ns;   /* of the host's time, while it was frozen */
    _Atomic uint64_t suspends;     /* times the host was found to have slept while it ran… */
    _Atomic uint64_t suspended_ns; /* …and for how long */
    _Atomic uint64_t withheld_ns;  /* of both, what the guest did not see */
    _Atomic uint64_t clamps;       /* times the host's clock was found to have gone back… */
    _Atomic uint64_t clamp_max_ns; /* …and by how much at most */
};

struct hv_guest_clock_config {
    const struct hv_clock *host; /* borrowed */
    enum hv_clock_policy policy;
    uint64_t start_ns; /* what it shows at first */
    /**
     * The clock is another moment's than it was a moment ago: who waits for a moment of it is to ask
     * for hv_clock_source_moment() anew. By any reader, under any lock of rank < HV_RANK_LEAF.
     */
    void (*moved)(void *context);
    void *context;
};

struct hv_guest_clock {
    struct hv_clock clock; /* what devices read: derived */
    /* Set at creation. */
    enum hv_clock_policy policy;
    void (*moved)(void *context);
    void *context;
    struct hv_lock lock; /* HV_RANK_LEAF: of writers */
    /* Guarded by &lock. */
    uint64_t stopped_at_ns; /* frozen: since when, by the host's clock with its sleep */
    uint64_t absent_ns;     /* frozen: how long it was a file before that */
    /* Atomic, changed under &lock: the host's sleep that is accounted for. */
    _Atomic uint64_t asleep_ns;
    struct hv_guest_clock_counters counters;
    /* Under the sequence: one moment by both clocks; and whether it stands there. */
    HV_ALIGNED(HV_CACHE_LINE) struct hv_seqcount sequence;
    _Atomic uint64_t host_ns, guest_ns;
    _Atomic bool frozen;
    /* Atomic: the latest reading. */
    HV_ALIGNED(HV_CACHE_LINE) _Atomic uint64_t last_ns;
};

struct hv_guest_clock_record {
    uint32_t version, reserved;
    uint64_t guest_ns; /* where it stood */
    uint64_t wall_ns;  /* and when that was, since 1970 by the host's wall clock */
};

/** It runs. */
void hv_guest_clock_init(struct hv_guest_clock *guest, const struct hv_guest_clock_config *config);
/** Zeroed memory is accepted. */
void hv_guest_clock_finish(struct hv_guest_clock *guest);

/** Let it stand; nothing, when it does. Any thread, any lock of rank < HV_RANK_LEAF. */
void hv_guest_clock_freeze(struct hv_guest_clock *guest);
/** Let it go on; nothing, when it does. */
void hv_guest_clock_thaw(struct hv_guest_clock *guest);

/**
 * Has the host slept, and the clock, if it runs, not taken notice? It does with the next freeze(): so let
 * it stand for a moment, while no vCPU can see it jump.
 */
bool hv_guest_clock_unaware(const struct hv_guest_clock *guest);

/** Both at any time. */
void hv_guest_clock_save(struct hv_guest_clock *guest, struct hv_guest_clock_record *record_out);
/** NULL, or the name of the field that no clock can have so. */
const char *hv_guest_clock_check(const struct hv_guest_clock_record *record);
/**
 * Be what was saved, and frozen if it is: then thaw() reckons with the time since. When it runs, that
 * time is dealt with at once. A wall clock that was set back since counts as none.
 */
void hv_guest_clock_load(struct hv_guest_clock *guest, const struct hv_guest_clock_record *record);
