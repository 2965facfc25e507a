/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One virtual CPU: the parts that each floor keeps for it, composed (decisions D13).
 *
 * Threads: whichever worker runs `entity` owns everything but the atomics and the doorbell.
 */
#pragma once

#include "cpu/state.h"
#include "engine/ops.h"
#include "mem/tlb-holder.h"
#include "sched/sched.h"
#include "sync/doorbell.h"

struct hv_domain;

/* Bits of hv_vcpu.startup: what other vCPUs' interrupt commands ask of this one. */
enum hv_vcpu_startup {
    HV_VCPU_STARTUP_VECTOR = 0xff, /* of the SIPI */
    HV_VCPU_STARTUP_SIPI = 1u << 8,
    HV_VCPU_STARTUP_INIT = 1u << 9,
    HV_VCPU_STARTUP_NMI = 1u << 10,
    HV_VCPU_STARTUP_NMI_AGAIN = 1u << 11, /* a second one, before the first was taken */
    HV_VCPU_STARTUP_NMIS = HV_VCPU_STARTUP_NMI | HV_VCPU_STARTUP_NMI_AGAIN,
};

/* Hypercalls that are counted by themselves; the names are in docs/stats.md. */
enum hv_hypercall_kind {
    HV_HYPERCALL_KICK_CPU,
    HV_HYPERCALL_SEND_IPI,
    HV_HYPERCALL_SCHED_YIELD,
    HV_HYPERCALL_POLL_IRQ,
    HV_HYPERCALL_REFUSED, /* not there, or not for this caller */
    HV_HYPERCALL_KINDS,
};

struct hv_vcpu {
    struct hv_cpu cpu;
    struct hv_doorbell bell;
    struct hv_holder holder;
    struct hv_sched_entity entity;
    struct hv_engine_vcpu *engine; /* owned */
    /* Set at creation. */
    struct hv_domain *domain;
    unsigned index;
    char name[16]; /* of the holder */
    /* Owned by the running worker: the index of the one that its timers fire on. */
    unsigned worker;
    /* Atomic: pending enum hv_vcpu_startup bits; pairs with the run loop's swap. */
    _Atomic uint32_t startup;
    /* Counters: of the running worker, and of whoever kicks. */
    _Atomic uint64_t halts;
    _Atomic uint64_t kicks;
    _Atomic uint64_t hypercalls[HV_HYPERCALL_KINDS];
};

/**
 * Make the registers and everything a floor keeps; the engine's part comes later.
 *
 * Returns 0; under the policy `host` -ENOMEM or -EAGAIN when there is no thread for it.
 */
HV_MUST_CHECK int hv_vcpu_init(struct hv_vcpu *vcpu, struct hv_domain *domain, unsigned index);

/** Make it look: an interrupt, NMI, INIT or SIPI may be there. Any thread, ranks < RUNQUEUE. */
void hv_vcpu_kick(struct hv_vcpu *vcpu);

/** Post startup bits and kick. A SIPI while INIT is pending stands behind it. */
void hv_vcpu_post_startup(struct hv_vcpu *vcpu, uint32_t bits);

/**
 * It has left the engine by a hypercall: do that, result in RAX. On its thread, OUTSIDE.
 *
 * Returns false when its slice is over by that.
 */
bool hv_vcpu_hypercall(struct hv_vcpu *vcpu, struct hv_worker *worker);

/** The body of the run loop: run until the slice ends or there is nothing to do. */
enum hv_sched_verdict hv_vcpu_run(void *context, struct hv_worker *worker, hv_ns slice_end);
