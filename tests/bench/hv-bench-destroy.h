/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Parts of `hv-bench destroy`: the heap of one lock that the historic strategies free into, the ways
 * to take domains apart, the model of many cores, and machines that were really booted.
 */
#pragma once

#include "base/histogram.h"
#include "unit/mem/mem-fixture.h"

#include <pthread.h>

/* ---- hv-bench-destroy-heap.c: a buddy system under one lock, on the product's frame table ---- */

/* 2 MiB: what is above that was never merged in the time of a destroy either. */
#define OLD_ORDERS 10u

struct old_heap {
    struct hv_frame *frames;
    uint64_t frame_count;
    struct hv_lock lock;
    /* Guarded by &lock: first frame of each order's list, and how many there are in all. */
    HV_ALIGNED(HV_CACHE_LINE) uint32_t head[OLD_ORDERS];
    uint64_t free_frames;
};

void old_heap_init(struct old_heap *heap, struct hv_arena *arena);
void old_heap_finish(struct old_heap *heap);
/** Frames that nothing refers to any more, by one lock operation. */
void old_heap_free(struct old_heap *heap, const hv_mfn *frames, size_t count);
/** One frame, HV_MFN_NONE if there is none. */
hv_mfn old_heap_alloc(struct old_heap *heap);
uint64_t old_heap_free_frames(struct old_heap *heap);

/* ---- hv-bench-destroy-ways.c ---- */

#define DESTROY_DOMAINS_MAX 64u

struct destroy_domain {
    struct hv_memory memory;
    uint64_t cursor; /* historic: next gfn to be given back */
};

/* Whose step is next, of the product's way. */
struct destroy_turns {
    struct hv_lock lock;
    /* Guarded by &lock. */
    unsigned first, count;
    unsigned domain[DESTROY_DOMAINS_MAX]; /* a ring */
};

/* What is measured, made anew for each run of each strategy. */
struct destroy_rig {
    unsigned domains;
    unsigned made;  /* of these, when memory ran out on the way */
    uint64_t pages; /* of each */
    struct hv_arena *arena;
    struct old_heap old;
    struct hv_lock domctl; /* all operations on domains, of which only one goes on at a time */
    struct hv_lock kill;
    struct destroy_turns turns;
    struct destroy_domain domain[DESTROY_DOMAINS_MAX];
};

struct destroy_way {
    const char *name;
    /** Give back some pages. -EAGAIN: call again. */
    int (*step)(struct destroy_rig *rig, struct destroy_domain *domain);
    /** What a management tool asks for all the time. Returns free frames. */
    uint64_t (*getinfo)(struct destroy_rig *rig);
    /** A small operation that needs a frame, and gives it back. */
    void (*other)(struct destroy_rig *rig);
    /** Zero all that is free and was used. */
    void (*scrub)(struct destroy_rig *rig);
    unsigned lines;  /* of shared memory that an operation on the heap writes, lock and all */
    unsigned queues; /* heap locks that operations spread over */
    bool serial;     /* one destroyer at a time goes on */
    bool batched;    /* few operations on the heap: the locks are sampled each time */
    bool product;
};

enum { DESTROY_WAYS = 5 };
extern const struct destroy_way destroy_ways[DESTROY_WAYS];

/* ---- hv-bench-destroy-run.c ---- */

enum destroy_figure {
    DESTROY_NS_PER_PAGE,
    DESTROY_CPU_NS_PER_PAGE,
    DESTROY_LOCK_OPS_PER_PAGE,
    DESTROY_WALL_S,
    DESTROY_SERIAL_WALL_S,
    DESTROY_OVER_IDEAL, /* what all CPUs that can take part could do at best */
    DESTROY_ACQUISITIONS,
    DESTROY_HELD_S,
    DESTROY_BLOCKED,
    DESTROY_BLOCKED_S,
    DESTROY_HOLD_NS,
    DESTROY_HOLD_P50_NS,
    DESTROY_SERIAL_CPU_S,
    DESTROY_SERIAL_HOLD_P50_NS,
    DESTROY_GETINFO_P99_US,
    DESTROY_OTHER_P99_US,
    DESTROY_EXTENT_FREE_PCT,
    DESTROY_ZEROED_S, /* without memory behind the frames, only booked */
    DESTROY_FIGURES,
};

struct destroy_measured {
    double figures[DESTROY_FIGURES];
    bool wrong; /* pages were lost */
};

#define DESTROY_OBSERVED_MAX 200000u

/* What an observer saw. */
struct destroy_observed {
    uint32_t count;
    float each[DESTROY_OBSERVED_MAX]; /* ns */
};

/** Note what began at @start, by bench_wall_ns(), and ends now. Returns now. */
double destroy_note(struct destroy_observed *observed, double start);
/** The order is lost. */
double destroy_p99_us(struct destroy_observed *observed);
/** Pages that came back by whole extents so far. */
uint64_t destroy_extent_pages(const struct hv_arena *arena);

/* One destroy of all domains. */
struct destroy {
    struct destroy_rig *rig;
    const struct destroy_way *way;
    unsigned threads;
    bool pinned; /* each to a CPU of its own */
    pthread_barrier_t start;
    _Atomic uint32_t left;      /* destroyers */
    _Atomic uint64_t disturbed; /* see struct destroy_trial */
    double begin_ns[DESTROY_DOMAINS_MAX], end_ns[DESTROY_DOMAINS_MAX];
    double cpu_ns[DESTROY_DOMAINS_MAX];
    struct destroy_observed getinfo, other;
};

/** Run destroy->way on destroy->rig twice, together and one after the other. 0, or -ENOMEM. */
int destroy_measure(struct destroy *destroy, enum hv_backing_kind backing,
                    struct destroy_measured *measured);

/* One destroy without an observer. */
struct destroy_trial {
    double wall_ns, cpu_ns, hold_p50_ns;
    double operations;  /* on the heap's locks */
    uint64_t disturbed; /* how often another thread took a destroyer's CPU, or had it first */
};

/**
 * By so many threads, each on a CPU of its own: of @tries the one that was disturbed least, and of up
 * to three times as many until one was not. (The shortest may be one whose threads were kept from each
 * other.) 0, or -ENOMEM.
 */
int destroy_try(struct destroy *destroy, unsigned threads, unsigned tries,
                struct destroy_trial *best_out);

/** CPUs of the host. */
unsigned destroy_cpus(void);

/* ---- hv-bench-destroy-model.c ---- */

struct bench;

/**
 * What the model says of @ways on up to @cores cores, and by how much it is wrong for one and for two
 * threads of this host: a row for each way and number of cores. 0, or an exit status.
 */
int destroy_model_rows(struct bench *bench, const struct destroy_way *const *ways, unsigned count,
                       double pages, unsigned cores);

/** All spans that locks of @lock's class were held, as far as sampled. */
void destroy_holds(const struct hv_lock *lock, struct hv_histogram *sum_out);

/* ---- hv-bench-destroy-booted.c ---- */

/** Machines that run Linux, destroyed together: a row. 0, or an exit status. */
int destroy_booted_row(struct bench *bench, unsigned machines);
