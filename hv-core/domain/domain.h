/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A domain's life.
 *
 *     NEW --hv_domain_create--> PAUSED <--hv_domain_pause / unpause--> RUNNING
 *     RUNNING --hv_domain_end--> SHUTDOWN --hv_domain_reset--> PAUSED
 *     RUNNING --no host memory--> PAUSED (end = NO_MEMORY)
 *     PAUSED, RUNNING, SHUTDOWN --hv_domain_kill--> DYING --reaper--> GONE
 *     DYING --reaper finds pages mapped by others--> DEAD --reaper, after the last unmap--> GONE
 *
 * Who holds a reference has the object, whatever its state; when it is GONE and the last has let go, a
 * reaper frees it. What it is made of goes in between, so who is to touch that is inside: a vCPU in
 * its turn, a control thread from hv_domain_enter() to hv_domain_leave(). Both are refused from DYING
 * on, and the reaper begins when nobody is inside.
 *
 * A vCPU counts itself into `active` and then looks at the state; who stops the domain changes the
 * state and then waits for `active` to become 0. Both sides store, then load, sequentially
 * consistent.
 *
 * Invariants:
 *   (1) guest code runs only while the state is RUNNING, the machine not held, and the vCPU counted in
 *       active;
 *   (2) no platform timer fires but while it is RUNNING, or on the way there or away;
 *   (3) `end` is written once between two resets or resumes, by the first who ends the domain, and
 *       only by who means the life that it has;
 *   (4) from PAUSED on every change of state is a compare-and-exchange, but the last, to GONE. Most
 *       hold the lifecycle lock; RUNNING -> SHUTDOWN or PAUSED by the guest's own end, and the kill,
 *       are done under any lock. A domain that paused itself may have vCPUs inside still: whoever
 *       counts on PAUSED stops them first;
 *   (5) nobody is inside from the end of HV_TEARDOWN_LEAVING on.
 */
#pragma once

#include "domain/ending.h"
#include "domain/reaper.h"
#include "domain/teardown.h"
#include "domain/vcpu.h"
#include "mem/memory.h"
#include "platform/bus.h"
#include "platform/platform.h"
#include "sync/lock-registry.h"

#include <hv/domain.h>

struct hv_domain {
    /* Set at creation. */
    struct hv_core *core; /* borrowed */
    hv_handle handle;
    char name[64];
    struct hv_platform_layout layout;
    const struct hv_engine_ops *ops;
    const char *engine_reason;       /* a literal: why that one */
    struct hv_engine_domain *engine; /* owned */
    unsigned vcpus;
    struct hv_vcpu *vcpu; /* array, owned */
    struct hv_cpu_policy policy;
    struct hv_memory memory;
    struct hv_bus bus;
    struct hv_platform platform;
    struct hv_log_limit log_limit;
    struct hv_lock_owner locks; /* all that the floors made for it */
    struct hv_sched_group group;

    struct hv_lock lifecycle; /* HV_RANK_LIFECYCLE */
    struct hv_ending ending;
    struct hv_teardown teardown;
    struct hv_reaping reaping;

    /* Atomic. */
    _Atomic uint32_t state;    /* enum hv_domain_state */
    _Atomic uint32_t active;   /* vCPUs inside their run loop; futex word */
    _Atomic uint32_t users;    /* control threads inside */
    _Atomic uint32_t changes;  /* bumped with each change of state; futex word */
    _Atomic bool held;         /* its vCPUs keep out for a moment, although it is RUNNING */
    _Atomic uint64_t halted;   /* vCPUs that wait with interrupts off or for SIPI */
    _Atomic uint64_t nmi_deaf; /* of those: in an NMI's handler, or waiting for SIPI */
};

/**
 * End the domain by itself: power-off, reset, triple fault, crash. The first caller wins.
 *
 * Context: a vCPU of it in its turn, which a reset waits for, so that it is the life that the guest
 * has; others call hv_domain_crash(). Any lock of rank < HV_RANK_LEAF; never blocks. vCPUs stop at
 * their next look.
 */
void hv_domain_end(struct hv_domain *domain, enum hv_domain_end end, uint32_t code, unsigned vcpu,
                   const char *reason);

/**
 * Be inside: nothing of it goes before hv_domain_leave(). The caller holds it, and may be a while.
 * -ECANCELED when it is dying. Takes no lock. Context: any thread, any lock.
 */
HV_MUST_CHECK int hv_domain_enter(struct hv_domain *domain);
/** Context: any thread, ranks below LEAF. */
void hv_domain_leave(struct hv_domain *domain);

/**
 * Inside and under the lifecycle lock: what act(domain, context) returns, or -ECANCELED when it is
 * dying. Context: a control thread.
 */
HV_MUST_CHECK int hv_domain_act(struct hv_domain *domain,
                                int (*act)(struct hv_domain *domain, void *context), void *context);

/** What to answer when the state is not the one that is asked for: -EBUSY, or -ECANCELED for good. */
HV_MUST_CHECK int hv_domain_refuse(const struct hv_domain *domain);

/** The last of some has left: if it is dying, its reaper shall look again. Held by the caller. */
void hv_domain_wake_reaper(struct hv_domain *domain);

/**
 * Nobody holds it, nothing is left of it, or it was never published: free it, and its name.
 * Context: waits for who walks the lists of locks; no lock held.
 */
void hv_domain_free(struct hv_domain *domain);

/** Change the state if it is @from. Whoever waits for a change is to be woken by the next. */
bool hv_domain_change(struct hv_domain *domain, enum hv_domain_state from, enum hv_domain_state to);

/** Wake whoever waits for a change of state. */
void hv_domain_announce(struct hv_domain *domain);

/**
 * The host may have slept, or its wall clock been set: let a machine that runs follow, which takes its
 * vCPUs out for a moment in the first case. Context: a control thread, which holds it.
 */
void hv_domain_follow_host(struct hv_domain *domain);

/** Make every vCPU look at the state. */
void hv_domain_ring_vcpus(struct hv_domain *domain);

/** No longer RUNNING, or held: ring every vCPU, and wait until none is inside. No lock of rank >= DEVICE. */
void hv_domain_stop_vcpus(struct hv_domain *domain);

/** What the platform and the engine call upward; tables in wiring.c. */
extern const struct hv_cpu_hooks hv_domain_cpu_hooks;       /* context: struct hv_vcpu */
extern const struct hv_engine_io hv_domain_engine_io;       /* context: struct hv_vcpu */
extern const struct hv_platform_ops hv_domain_platform_ops; /* context: struct hv_domain */
extern const struct hv_memory_hooks hv_domain_memory_hooks; /* context: struct hv_domain */
