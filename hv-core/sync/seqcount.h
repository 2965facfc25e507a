/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A few words that one writer changes together and any number of readers copy without taking a
 * lock: steal time, guest clock parameters, statistics blocks.
 *
 *     writer:  hv_seqcount_write_begin(&c);  hv_seqcount_store(&word, v); …  hv_seqcount_write_end(&c);
 *     reader:  do {
 *                  s = hv_seqcount_read_begin(&c);
 *                  a = hv_seqcount_load(&word); …
 *              } while (hv_seqcount_read_retry(&c, s));
 *
 * The guarded words are atomics, and the order stands on them, not on fences: stores of data are
 * releases, so the odd count is visible before any of them; loads of data are acquires, so a reader
 * that saw one new word also sees the odd count, or a later one, when it looks again. On x86-64 all
 * of this is plain moves.
 *
 * Writers are serialised by the user: one thread, or a lock.
 *
 * Source: H.-J. Boehm, "Can seqlocks get along with programming language memory models?", 2012.
 */
#pragma once

#include "base/assert.h"
#include "sync/atomic.h"

#include <hv/types.h>

#include <sched.h>

struct hv_seqcount {
    /* Atomic: odd while a write is under way. */
    _Atomic uint32_t sequence;
};

#define hv_seqcount_store(word, value) hv_store_release(word, value)
#define hv_seqcount_load(word)         hv_load_acquire(word)

static inline void hv_seqcount_write_begin(struct hv_seqcount *count)
{
    uint32_t sequence = hv_load_relaxed(&count->sequence);

    HV_ASSERT((sequence & 1) == 0);
    /* Ordered before the data by the release of each hv_seqcount_store(). */
    hv_store_relaxed(&count->sequence, sequence + 1);
}

static inline void hv_seqcount_write_end(struct hv_seqcount *count)
{
    uint32_t sequence = hv_load_relaxed(&count->sequence);

    HV_ASSERT((sequence & 1) == 1);
    /* Pairs with hv_seqcount_read_begin(): who sees this sees all data. */
    hv_store_release(&count->sequence, sequence + 1);
}

/** Start reading; waits while a write is under way. The value goes to hv_seqcount_read_retry(). */
static inline uint32_t hv_seqcount_read_begin(const struct hv_seqcount *count)
{
    uint32_t sequence = hv_load_acquire(&count->sequence);

    for (unsigned spins = 1; (sequence & 1) != 0; spins++) {
        if (spins % 64 == 0) {
            /* The writer has lost its CPU: it can do with ours. */
            sched_yield();
        }
        sequence = hv_load_acquire(&count->sequence);
    }
    return sequence;
}

/** True when what was read since hv_seqcount_read_begin() may be torn. */
static inline bool hv_seqcount_read_retry(const struct hv_seqcount *count, uint32_t begun)
{
    /* Not hoisted above the data: their loads are acquires. */
    return hv_load_relaxed(&count->sequence) != begun;
}
