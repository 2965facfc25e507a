/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the two kinds of lock share behind their backs: the checks of ranks (lock-check.c, called
 * only if HV_CONFIG_RANKS), and the booking of waits and samples (lock-profile.c, only if
 * HV_CONFIG_LOCK_PROFILE).
 */
#pragma once

#include "sync/lock.h"

#include "base/cycles.h"

/* ---- ranks ---- */

/** Abort, naming both, when @lock may not be taken on top of what this thread holds. */
void hv_lock_check_take(const struct hv_lock_head *lock);

/** As above for the second of a pair, whose first is held. */
void hv_lock_check_second(const struct hv_lock_head *first, const struct hv_lock_head *second);

/** Note that this thread has taken, or is about to drop, @lock. Dropping what is not held aborts. */
void hv_lock_note_taken(struct hv_lock_head *lock);
void hv_lock_note_dropped(struct hv_lock_head *lock);

/** The same of a reader, who is not alone. Dropping what this thread does not read aborts. */
void hv_lock_note_shared(struct hv_lock_head *lock);
void hv_lock_note_unshared(struct hv_lock_head *lock);

/** Abort unless this thread reads @lock. */
void hv_lock_check_shared(const struct hv_lock_head *lock);

/** This thread begins, or ends, a walk of the locks, during which it may take none. */
void hv_lock_note_walk(bool begins);

/* ---- taking ---- */

enum hv_lock_word {
    HV_LOCK_WORD_FREE = 0,
    HV_LOCK_WORD_HELD = 1,
    HV_LOCK_WORD_WAITED = 2,
};

/** Take a lock that is free: the first step of a taking, and nearly always the only one. */
static inline bool hv_lock_take_free(struct hv_lock *lock)
{
    uint32_t expected = HV_LOCK_WORD_FREE;

    return hv_cas_seq(&lock->word, &expected, HV_LOCK_WORD_HELD);
}

/** The rest of a taking whose first step was in vain. */
void hv_lock_take_slow(struct hv_lock *lock);

/** Rounds with a pause in each that fill the bounded while a taker spins before it parks. */
uint32_t hv_lock_spin_rounds(void);

/* ---- profile ---- */

/* The class of the registry's own lock, which is there before any other. */
#define HV_LOCK_REGISTRY_NAME "sync.registry"

/** The class of locks of that name, a literal. */
unsigned hv_lock_class_find(const char *name);

/** Give it histograms of its own, if it has none and there are some left. */
void hv_lock_side_detail(struct hv_lock_side *side);

/** Give back what a contended side has. Nobody looks at it any more. */
void hv_lock_side_finish(struct hv_lock_side *side);

struct hv_lock_wait {
    uint64_t span_ns;
    unsigned parked;  /* times it slept */
    uint32_t waiters; /* with this one */
};

/* What is booked when a holding ends. */
struct hv_lock_sample {
    unsigned class_index;
    bool readers;                  /* whose side it is */
    bool own;                      /* the lock's owner is who this thread runs for */
    bool waited, held, acquired;   /* which of these spans are there */
    struct hv_lock_detail *detail; /* may be NULL */
    uint64_t wait_ns, hold_ns, acquire_ns;
};

/* The thread's own: the one holding, if any, of which spans are kept until it ends. */
struct hv_lock_sampler {
    uint32_t countdown; /* takings until one is sampled */
    uint32_t random;
    const struct hv_lock_side *side; /* NULL: none */
    bool waited;
    uint64_t wait_ns;
    uint64_t taken;  /* cycles when it was taken; 0: that is not sampled */
    uint64_t before; /* and before that; 0: there was a wait */
};

extern _Thread_local struct hv_lock_sampler hv_lock_sampler;

/** A slow path is over, and the lock taken: count it, and keep its span for the end of the holding. */
void hv_lock_note_wait(const struct hv_lock_head *head, struct hv_lock_side *side,
                       const struct hv_lock_wait *wait);

/**
 * The taking is done: count it. After the last locked operation of the taking, which would wait for
 * this store to leave the CPU: 2 ns.
 */
static inline void hv_lock_note_acquired(struct hv_lock *lock)
{
    if (HV_CONFIG_LOCK_PROFILE) {
        hv_count(&lock->head.side.counters.acquired, 1);
    }
    if (HV_CONFIG_RANKS) {
        hv_lock_note_taken(&lock->head);
    }
}

/** True when the taking that begins is to be sampled. */
static inline bool hv_lock_sample_due(void)
{
    return HV_CONFIG_LOCK_PROFILE && HV_UNLIKELY(--hv_lock_sampler.countdown == 0);
}

/**
 * The taking is done, and had begun at @before; 0 if there was a wait. Its spans are kept, unless its
 * class is sampled more rarely than a thread looks up.
 */
void hv_lock_sample_begin(const struct hv_lock_head *head, const struct hv_lock_side *side,
                          uint64_t before);

/** True when there are spans to book at the end of this holding. */
static inline bool hv_lock_sampled(const struct hv_lock_side *side)
{
    return HV_CONFIG_LOCK_PROFILE && HV_UNLIKELY(hv_lock_sampler.side == side);
}

/** It ends; still held. */
void hv_lock_sample_end(const struct hv_lock_head *head, const struct hv_lock_side *side,
                        struct hv_lock_sample *sample_out);

/** It has been dropped. */
void hv_lock_sample_book(const struct hv_lock_sample *sample);
