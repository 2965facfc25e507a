/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Everything that can cache a translation to a host address is a holder: a vCPU's software TLB, a
 * map cache of a device or migration thread, a KVM domain. The flush protocol keeps them honest.
 *
 *   clock   one global counter. A holder that flushes takes t = ++clock before it clears its
 *           entries and publishes `flushed = t` after.
 *   filter  a holder needs a flush for stamp s if and only if flushed <= s.
 *   ask     ring HV_REQUEST_FLUSH. OUTSIDE: it will flush before its next lookup, no wait.
 *           IN_GUEST: wait for its acknowledgement, or for it to leave.
 *
 * vCPU holders are reached only through their domain's mask; mapper caches stand in one global
 * list. The mask of a tainted frame is owner.dirty ∪ mapper list (D3). A mapper that is waited for
 * is watched, and retires only when nobody watches it. Masks of mappers have 64 bits: mappers beyond
 * share them.
 *
 * A wait ends when the holder is not IN_GUEST or its `flushed` is newer than the stamp, never by an
 * acknowledgement alone: that may be of requests taken before ours was rung.
 *
 * Source: decisions D3, D4.
 */
#pragma once

#include "base/list.h"
#include "sync/doorbell.h"

struct hv_holder {
    /* Set at creation. */
    struct hv_doorbell *bell; /* borrowed: the vCPU's or the mapper's */
    const char *name;         /* who it is, for zombies: borrowed */
    unsigned index;           /* bit in its domain's mask, or in masks of mappers */
    /* Atomic: time of the last completed flush. */
    _Atomic uint64_t flushed;
    /* Atomic, mappers only (vCPUs have their domain's mask): it may hold pointers; set before it
     * first looks up, cleared by itself when it has forgotten them all. */
    _Atomic uint32_t dirty;
    /* Guarded by the registry's lock, mappers only. */
    struct hv_list link;
    unsigned watchers; /* flushes that wait for it: it may not be retired under them */
};

struct hv_flush_counters {
    _Atomic uint64_t issued, filtered, lazy, waited;
};

struct hv_holders;

void hv_holder_init(struct hv_holder *holder, struct hv_doorbell *bell, const char *name,
                    unsigned index);

/** The present flush time: what a put stamps a frame with. */
uint64_t hv_flush_clock(const struct hv_holders *holders);

/**
 * Owner of the holder: begin a flush, before clearing; the value goes to hv_holder_flushed().
 */
uint64_t hv_holder_flush_begin(struct hv_holders *holders);

/** Owner: all entries from before @time are gone. */
void hv_holder_flushed(struct hv_holder *holder, uint64_t time);

/** A mapper: it is about to use pointers. Pairs with the read of `dirty` in hv_holders_flush(). */
static inline void hv_holder_mark_dirty(struct hv_holder *holder)
{
    if (!hv_load_relaxed(&holder->dirty)) {
        hv_store_seq(&holder->dirty, 1);
    }
}

/**
 * Register a mapper's holder, which gives it its index, and retire it; it is OUTSIDE. Retire waits
 * for flushes that watch it. Locks: HV_RANK_LEAF.
 */
void hv_holders_register_mapper(struct hv_holders *holders, struct hv_holder *holder);
void hv_holders_retire_mapper(struct hv_holders *holders, struct hv_holder *holder);

/* For hv_holders_flush(). */
#define HV_MAPPERS_NONE UINT64_C(0)
#define HV_MAPPERS_ALL  UINT64_MAX

/**
 * Flush every holder of @vcpus (an array indexed by bit, with @mask telling which), and every mapper
 * whose bit stands in @mappers, that may hold entries older than @stamp, and wait until each is safe.
 *
 * Context: OUTSIDE; counts as HV_RANK_FLUSH_WAIT.
 */
void hv_holders_flush(struct hv_holders *holders, struct hv_holder *const *vcpus, uint64_t mask,
                      uint64_t mappers, uint64_t stamp, struct hv_flush_counters *counters);

/** The bits of @mappers that some mapper which may hold entries as old as @stamp has. LEAF. */
uint64_t hv_holders_suspects(struct hv_holders *holders, uint64_t mappers, uint64_t stamp);

/**
 * Ring @requests on every holder of @mask and wait until each is OUTSIDE or has served them: the
 * adoption of a dirty epoch. Context: as hv_holders_flush().
 */
void hv_holders_post(struct hv_holder *const *vcpus, uint64_t mask, uint32_t requests);
