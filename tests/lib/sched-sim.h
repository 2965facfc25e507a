/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Run queues on a simulated clock: pCPUs without threads, vCPUs that are small programs. What picks,
 * wakes, preempts, parks and yields is the product's sched/ as it is; only the worker's loop, which
 * waits for real time, is written anew here.
 *
 * A vCPU does something for a span of its own running, then act() is asked what comes next:
 *
 *     static void act(struct sim_vcpu *vcpu)
 *     {
 *         sim_do(vcpu, 30000);                 go on for 30 us, or SIM_FOR_EVER
 *         sim_halt(vcpu, SIM_FOR_EVER);        or halt until it is woken, or for so long at most
 *         sim_rest(vcpu);                      also: end the slice, and go on in the next
 *     }
 *
 * act() may wake others, change what they do (sim_do() on another), and yield
 * (hv_runqueue_yield_to() with sim_queue()). The same seed gives the same run.
 */
#pragma once

#include "sched/yield.h"

#define SIM_FOR_EVER (UINT64_MAX / 4)

struct sim;

struct sim_vcpu {
    struct hv_sched_entity entity;
    struct hv_doorbell bell;
    struct sim *sim;
    void *program;    /* the user's */
    hv_ns until;      /* of what it does; while it runs */
    uint64_t left_ns; /* the same while it does not */
    hv_ns wake_at;    /* of a halt with an end */
    bool running, halts, rests;
    /* The program's. */
    bool spins, out_of_patience;
    uint64_t delay_ns, patience_ns;
};

struct sim_pcpu {
    struct hv_runqueue *queue;
    struct sim_vcpu *vcpu; /* NULL: idle */
    const struct sim_vcpu *last_ran;
    hv_ns slice_end;
    bool look; /* idle, and to look for work */
};

struct sim_config {
    unsigned pcpus;
    struct hv_sched_tuning tuning;
    uint64_t switch_ns;  /* what it takes to begin a slice with another vCPU than before */
    unsigned jitter_pct; /* slices are so much shorter or longer, at random */
    uint64_t seed;
    void (*act)(struct sim_vcpu *vcpu);
    /* May be NULL: it begins to run, and stops. */
    void (*begin)(struct sim_vcpu *vcpu);
    void (*end)(struct sim_vcpu *vcpu);
};

struct sim {
    struct hv_clock clock;
    struct hv_runqueues queues;
    struct sim_config config;
    struct sim_pcpu *pcpu;
    struct sim_vcpu **vcpu; /* all that were added */
    unsigned vcpus, room;
    uint64_t random;
    uint64_t switches;
};

/** Returns 0, or -ENOMEM. Room for @vcpus. */
HV_MUST_CHECK int sim_init(struct sim *sim, const struct sim_config *config, unsigned vcpus);
/** Retires all vCPUs. */
void sim_finish(struct sim *sim);

/** Add a vCPU, which runs act() as soon as it may; index @index of @group. */
void sim_add(struct sim *sim, struct sim_vcpu *vcpu, struct hv_sched_group *group, unsigned index,
             void *program);

/** The same, at home on a certain pCPU. */
void sim_add_at(struct sim *sim, struct sim_vcpu *vcpu, struct hv_sched_group *group,
                unsigned index, void *program, unsigned home);

/** Let @span_ns pass. */
void sim_run(struct sim *sim, uint64_t span_ns);

static inline hv_ns sim_now(const struct sim *sim)
{
    return hv_clock_now(&sim->clock);
}

/** The queue of the pCPU that the vCPU runs on. */
static inline struct hv_runqueue *sim_queue(const struct sim_vcpu *vcpu)
{
    return hv_load_relaxed(&vcpu->entity.home);
}

/** From now on the vCPU, which need not run, does something for so long. */
void sim_do(struct sim_vcpu *vcpu, uint64_t span_ns);
void sim_halt(struct sim_vcpu *vcpu, uint64_t span_ns);
void sim_rest(struct sim_vcpu *vcpu);

/** A number below @limit. */
uint64_t sim_random(struct sim *sim, uint64_t limit);

/** What it has run up to now, in ns. */
uint64_t sim_ran(const struct sim_vcpu *vcpu);
