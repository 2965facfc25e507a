/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What one thread rings to make a vCPU, or a sleeping worker, look up. The only thing that mem,
 * time and sched may do to a vCPU while they hold a lock, whatever its rank.
 *
 *     OUTSIDE --hv_doorbell_enter--> IN_GUEST --hv_doorbell_leave--> OUTSIDE
 *     OUTSIDE --hv_doorbell_sleep--> ASLEEP  --(ring, or deadline)--> OUTSIDE
 *
 * A request is a bit. Ringing ORs the bits and then looks at the mode; the owner publishes its mode
 * and then looks at the bits. Both sides are sequentially consistent store-then-load (Dekker), so
 * that at least one sees the other:
 *   (1) the owner never goes IN_GUEST, nor to sleep, past a request it has not seen;
 *   (2) a ringer that saw OUTSIDE need not wait: requests are served before the next entry.
 *
 * `exit_request` is what the engine polls at block edges: nonzero whenever a bit stands.
 */
#pragma once

#include "sync/atomic.h"

#include <hv/types.h>

enum hv_doorbell_mode {
    HV_DOORBELL_MODE_OUTSIDE,
    HV_DOORBELL_MODE_IN_GUEST,
    HV_DOORBELL_MODE_ASLEEP,
};

/* Request bits. */
enum hv_doorbell_request {
    HV_REQUEST_FLUSH = 1u << 0,     /* flush the TLB (mem/tlb-holder.h) */
    HV_REQUEST_EVENT = 1u << 1,     /* an interrupt may be deliverable, or a timer is due */
    HV_REQUEST_STOP = 1u << 2,      /* leave the engine, and look whether and how to go on */
    HV_REQUEST_EPOCH = 1u << 3,     /* adopt the domain's dirty epoch (decisions D5) */
    HV_REQUEST_CODE = 1u << 4,      /* acknowledge freed block memory (decisions D4) */
    HV_REQUEST_TIMER = 1u << 5,     /* the queue's earliest deadline moved */
    HV_REQUEST_EXCLUSIVE = 1u << 6, /* another vCPU of the domain wants the guest for itself */
};

struct HV_ALIGNED(HV_CACHE_LINE) hv_doorbell {
    _Atomic uint32_t mode;
    _Atomic uint32_t requests;
    /* Polled by engines; the same word a KVM backend mirrors into immediate_exit. */
    _Atomic uint32_t exit_request;
    /* Futex word of threads that wait for a request to be served or the mode to change. */
    _Atomic uint32_t acknowledged;
    _Atomic uint32_t waiters;
    /* Set at creation, may be NULL: called on the ringer's thread when the owner is IN_GUEST, to
     * force it out of the host kernel (KVM_RUN), or to pass the ring on to a bell whose own takes
     * no lock. It never blocks, and takes no lock but one of HV_RANK_DOORBELL. */
    void (*interrupt)(void *context);
    void *interrupt_context;
};

/** Make a bell nobody has rung, mode OUTSIDE, without an `interrupt`. */
void hv_doorbell_init(struct hv_doorbell *bell);

/** Post @requests and make the owner look. Never blocks. Context: any thread, any lock. */
void hv_doorbell_ring(struct hv_doorbell *bell, uint32_t requests);

/**
 * Owner: go IN_GUEST unless a request stands.
 *
 * Returns 0 and the mode is IN_GUEST; or the standing requests, mode OUTSIDE.
 */
HV_MUST_CHECK uint32_t hv_doorbell_enter(struct hv_doorbell *bell);

/** Owner: go OUTSIDE and wake those who wait for that. */
void hv_doorbell_leave(struct hv_doorbell *bell);

/** Pairs with hv_doorbell_enter(): false after a ring means that the request is served before the
 *  next entry. Any thread. */
static inline bool hv_doorbell_in_guest(const struct hv_doorbell *bell)
{
    return hv_load_seq(&bell->mode) == HV_DOORBELL_MODE_IN_GUEST;
}

/** Owner: take all standing requests, clearing them and `exit_request`. */
uint32_t hv_doorbell_take(struct hv_doorbell *bell);

/** Owner: say that requests taken before are served; wakes those who wait for it. */
void hv_doorbell_acknowledge(struct hv_doorbell *bell);

/** Owner: sleep until rung, or until @deadline by CLOCK_MONOTONIC. Returns standing requests. */
uint32_t hv_doorbell_sleep(struct hv_doorbell *bell, hv_ns deadline);

/** What hv_doorbell_wait() compares with. */
static inline uint32_t hv_doorbell_acknowledged(const struct hv_doorbell *bell)
{
    return hv_load_seq(&bell->acknowledged);
}

/**
 * Wait until the owner is not IN_GUEST, or `acknowledged` is not @since.
 *
 * An acknowledgement of an earlier request ends the wait, too: so the caller rings, and then looks
 * at its own condition between reading and waiting, in a loop:
 *
 *     hv_doorbell_ring(bell, HV_REQUEST_FLUSH);
 *     for (;;) {
 *         since = hv_doorbell_acknowledged(bell);
 *         if (hv_load_seq(&holder->flushed) > stamp || !hv_doorbell_in_guest(bell)) break;
 *         hv_doorbell_wait(bell, since);
 *     }
 *
 * The caller holds no lock its owner may need: counts as taking HV_RANK_FLUSH_WAIT.
 */
void hv_doorbell_wait(struct hv_doorbell *bell, uint32_t since);
