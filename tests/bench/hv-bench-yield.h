/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The parts of `hv-bench yield`: machines that run something like `ebizzy -M` (hv-bench-yield-guest.c),
 * and two engines that run them: the product's run queues in simulated time, and its workers in real
 * time.
 *
 * Each record: think; take the machine's one lock; work under it; let it go. Every some records all
 * other vCPUs are sent an interrupt and waited for, as a TLB shootdown does. The lock is Linux's
 * paravirtual queued spinlock: a waiter spins for a while and halts; who lets go kicks the head of
 * the queue if that has halted; a free lock whose head does not run may be taken by who comes along.
 */
#pragma once

#include "bench/hv-bench.h"
#include "sched/sched.h"

#define YIELD_VCPUS_MAX 16
#define YIELD_VMS_MAX   3
#define YIELD_FOR_EVER  (UINT64_MAX / 4)

enum yield_variant {
    /* Who spins too long yields to whoever is next. */
    YIELD_VANILLA, /* no paravirtual lock: waiters spin on */
    YIELD_KICK,    /* who lets go kicks, and the head of the queue waits for its turn */
    /* Who spins too long yields to one of its machine, if one may be what it waits for. */
    YIELD_BOOST,      /* a kick is a directed yield as well */
    YIELD_PENALTY,    /* and a yielder stands back for a while */
    YIELD_PAUSE_LOOP, /* no paravirtual lock: the pause loop is all that there is */
    YIELD_VARIANTS,
};

struct yield_parameters {
    uint64_t pcpus;
    uint64_t think_ns, hold_ns; /* on average; half to three halves */
    uint64_t spin_ns;           /* a waiter's patience */
    uint64_t ipi_every;         /* records; 0: never */
    uint64_t slice_ns, jitter_pct;
    uint64_t kick_ns, halt_ns; /* what the way out of the guest and back costs */
    uint64_t switch_ns;        /* to another vCPU */
};

enum yield_state {
    YIELD_STATE_THINK,
    YIELD_STATE_HOLD,
    YIELD_STATE_QUEUED, /* spins, not the first */
    YIELD_STATE_HEAD,   /* spins, the first: the next to have the lock */
    YIELD_STATE_HALTED, /* waits for a kick */
    YIELD_STATE_ANSWERS /* spins until all have answered its interrupt */
};

struct yield_vm;

struct yield_vcpu {
    struct yield_vm *vm;
    unsigned index;
    struct hv_sched_entity *entity;
    enum yield_state state;
    bool running;
    bool ready;  /* halted, and kicked: knows what it waited for */
    bool nudged; /* the engine's: not out of patience, but told to look */
    uint64_t random;
    uint64_t asked_by; /* vCPUs that wait for its answer */
    unsigned answers;  /* that it waits for */
    uint64_t records, kicks, halts;
};

struct yield_vm {
    const struct yield_parameters *parameters;
    enum yield_variant variant;
    unsigned vcpus;
    struct yield_vcpu vcpu[YIELD_VCPUS_MAX];
    struct yield_vcpu *owner;
    struct yield_vcpu *queue[YIELD_VCPUS_MAX];
    unsigned queued;
    const struct yield_engine *engine;
};

/* What a machine asks of what runs it; on the thread of a vCPU that runs. */
struct yield_engine {
    /** Something that @vcpu, which spins and runs, waits for has come: let it step. */
    void (*nudge)(struct yield_vcpu *vcpu);
    void (*wake)(struct yield_vcpu *vcpu);
    /** Hypercall KICK_CPU of @me. */
    void (*kick)(struct yield_vcpu *me, struct yield_vcpu *target);
    /** Hypercall SCHED_YIELD. */
    void (*yield)(struct yield_vcpu *me, struct yield_vcpu *target);
    /** @me sends an interrupt to @target. */
    void (*send)(struct yield_vcpu *me, struct yield_vcpu *target);
};

struct yield_next {
    uint64_t span_ns; /* go on for so long, then step */
    bool halt;        /* first halt until woken */
    bool spins;       /* what it does is spinning */
};

void yield_vm_init(struct yield_vm *vm, const struct yield_parameters *parameters,
                   enum yield_variant variant, unsigned vcpus, const struct yield_engine *engine,
                   uint64_t seed);

/** What the vCPU did is over, or it was nudged: what comes next? */
struct yield_next yield_step(struct yield_vcpu *vcpu);

/** It begins to run again: it takes its interrupts, and is nudged when what it spins for has come. */
void yield_begin(struct yield_vcpu *vcpu);

struct yield_result {
    double records_per_s; /* of a machine, on average */
    double share_error_pct;
    double attempted, successful, kicks, halts, switches;
    double cpu_pct;  /* in real time: of the pCPUs, how much the host let them have */
    double miss_pct; /* in real time: by how much the simulation of the same is off */
};

/** One run of @vms machines. Returns 0, or a negative errno. */
int yield_run_sim(const struct yield_parameters *parameters, enum yield_variant variant,
                  unsigned vms, uint64_t span_ns, uint64_t seed, struct yield_result *result_out);
int yield_run_real(const struct yield_parameters *parameters, enum yield_variant variant,
                   unsigned vms, uint64_t span_ns, uint64_t seed, struct yield_result *result_out);

/** By how much the machine that is furthest off has more or less than an equal share, in per cent. */
double yield_share_error(const double *ran, unsigned vms);
