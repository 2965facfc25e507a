/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Guest frame to what stands there (decisions D8). One radix level over 2 MiB extents; a leaf is
 * one word, so that lookups take no lock and a change is one store.
 *
 *   leaf   63:60 kind   59:40 holds of blocks (SHARED)   39:0 frame number
 *
 * A change publishes the leaf, drops the p2m lock, flushes the holders, waits, and only then puts
 * the reference of the old leaf (D4).
 *
 * Invariants: (1) a RAM or ROM_OVER_RAM leaf holds the allocation's reference and one WRITABLE type
 * reference on its frame, RAM_RO one SEALED; a SHARED leaf one general and one SEALED reference;
 * (2) readers take what they need from one load of the leaf.
 */
#pragma once

#include "mem/frame.h"
#include "sync/lock.h"

enum hv_leaf_kind {
    HV_LEAF_HOLE, /* nothing: reads all ones, writes are ignored */
    HV_LEAF_RAM,
    HV_LEAF_RAM_RO,       /* sealed: a store goes to the slow path */
    HV_LEAF_SHARED,       /* reads the frame; a store makes a page of one's own (mem/share.h) */
    HV_LEAF_ROM_OVER_RAM, /* reads the frame; stores are ignored */
    HV_LEAF_MMIO,         /* a device of the bus */
    HV_LEAF_ABSENT,       /* post-copy: not here yet */
    HV_LEAF_WINDOW,       /* a window into another backing: video memory */
    HV_LEAF_UNPOPULATED,  /* claimed RAM that the first touch allocates */
};
#define HV_LEAF_KINDS (HV_LEAF_UNPOPULATED + 1)

struct hv_leaf {
    enum hv_leaf_kind kind;
    hv_mfn mfn;     /* of hv_leaf_has_frame() */
    uint32_t holds; /* HV_LEAF_SHARED: blocks of an engine that were decoded from it */
};

#define HV_LEAF_HOLDS_MAX ((1u << 20) - 1)

struct hv_p2m {
    struct hv_lock lock; /* HV_RANK_P2M */
    /* Set at creation. */
    uint64_t frames; /* gfns [0, frames) are covered; beyond is HOLE */
    /* Atomic pointers to 512 atomic words each; NULL where all is HOLE. */
    _Atomic(_Atomic uint64_t *) *extents;
    /* Written under the lock: leaves of each kind; holes are not counted. */
    _Atomic uint64_t leaves[HV_LEAF_KINDS];
};

/**
 * Make an empty p2m over gfns [0, frames).
 *
 * Returns 0; -EINVAL for 0 or more than 2^34 frames (64 TiB); -ENOMEM.
 */
HV_MUST_CHECK int hv_p2m_init(struct hv_p2m *p2m, uint64_t frames);
void hv_p2m_finish(struct hv_p2m *p2m);

/**
 * Free the tables of up to @budget extents from extent *cursor on, which moves behind them. Nobody
 * looks them up any more. 0, or -EAGAIN when there are more.
 */
HV_MUST_CHECK int hv_p2m_free_tables(struct hv_p2m *p2m, uint64_t *cursor, uint64_t budget);

/** What stands at @gfn. Lock-free; any thread. Pairs with hv_p2m_set_locked(). */
struct hv_leaf hv_p2m_lookup(const struct hv_p2m *p2m, hv_gfn gfn);

/** True when something may stand in the 2 MiB around @gfn. Lock-free. */
bool hv_p2m_covers(const struct hv_p2m *p2m, hv_gfn gfn);

/** True when a frame stands behind the leaf. */
static inline bool hv_leaf_has_frame(struct hv_leaf leaf)
{
    return leaf.kind == HV_LEAF_RAM || leaf.kind == HV_LEAF_RAM_RO || leaf.kind == HV_LEAF_SHARED ||
           leaf.kind == HV_LEAF_ROM_OVER_RAM;
}

/** Make sure that hv_p2m_set_locked() on [first, first + count) cannot fail. -ENOMEM. */
HV_MUST_CHECK int hv_p2m_prepare(struct hv_p2m *p2m, hv_gfn first, uint64_t count);

/** Make holes of [first, first + count), which lies in one 2 MiB that hv_p2m_covers(). No flush. */
void hv_p2m_clear_locked(struct hv_p2m *p2m, hv_gfn first, uint64_t count) HV_REQUIRES(&p2m->lock);

/** Publish a leaf and return the old one. No flush. @gfn was prepared. */
struct hv_leaf hv_p2m_set_locked(struct hv_p2m *p2m, hv_gfn gfn, struct hv_leaf leaf)
    HV_REQUIRES(&p2m->lock);
