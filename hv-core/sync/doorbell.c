/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The two Dekker pairs of doorbell.h, and the futex words behind them:
 *
 *     ring     OR requests; load mode          |  enter, sleep   store mode; load requests
 *     wait     add waiters; load mode, ack.    |  leave          store mode; load waiters
 *                                              |  acknowledge    add acknowledged; load waiters
 *
 * A sleeper sleeps on `mode` itself. Whoever wakes it moves the mode to OUTSIDE first, so that a
 * sleeper on its way to the kernel does not get there, and of several ringers one makes the call.
 */
#include "sync/doorbell.h"

#include "base/clock.h"
#include "sync/futex.h"
#include "sync/lock.h"
#include "sync/race.h"

#define EVERYBODY (UINT32_MAX >> 1)

void hv_doorbell_init(struct hv_doorbell *bell)
{
    *bell = (struct hv_doorbell){.mode = HV_DOORBELL_MODE_OUTSIDE};
}

static void wake_sleeper(struct hv_doorbell *bell)
{
    uint32_t asleep = HV_DOORBELL_MODE_ASLEEP;

    if (hv_cas_seq(&bell->mode, &asleep, HV_DOORBELL_MODE_OUTSIDE)) {
        hv_futex_wake(&bell->mode, 1);
    }
}

void hv_doorbell_ring(struct hv_doorbell *bell, uint32_t requests)
{
    hv_or_seq(&bell->requests, requests);
    /* After the bits: hv_doorbell_take() clears in the other order, so that this word may stand
     * without a bit (one exit for nothing) but no bit without the word. */
    hv_store_seq(&bell->exit_request, 1);
    HV_RACE("doorbell.ring.posted");
    switch ((enum hv_doorbell_mode)hv_load_seq(&bell->mode)) {
    case HV_DOORBELL_MODE_OUTSIDE:
        break;
    case HV_DOORBELL_MODE_IN_GUEST:
        if (bell->interrupt) {
            bell->interrupt(bell->interrupt_context);
        }
        break;
    case HV_DOORBELL_MODE_ASLEEP:
        wake_sleeper(bell);
        break;
    }
}

uint32_t hv_doorbell_enter(struct hv_doorbell *bell)
{
    uint32_t requests;

    hv_store_seq(&bell->mode, HV_DOORBELL_MODE_IN_GUEST);
    HV_RACE("doorbell.enter.published");
    requests = hv_load_seq(&bell->requests);
    if (requests != 0) {
        /* Somebody may have seen IN_GUEST and wait already. */
        hv_doorbell_leave(bell);
    }
    return requests;
}

/* Make waiters look again. */
static void wake_waiters(struct hv_doorbell *bell)
{
    if (hv_load_seq(&bell->waiters) > 0) {
        hv_add_seq(&bell->acknowledged, 1);
        hv_futex_wake(&bell->acknowledged, EVERYBODY);
    }
}

void hv_doorbell_leave(struct hv_doorbell *bell)
{
    hv_store_seq(&bell->mode, HV_DOORBELL_MODE_OUTSIDE);
    HV_RACE("doorbell.leave.published");
    wake_waiters(bell);
}

uint32_t hv_doorbell_take(struct hv_doorbell *bell)
{
    hv_store_seq(&bell->exit_request, 0);
    HV_RACE("doorbell.take.cleared");
    return hv_swap_seq(&bell->requests, 0);
}

void hv_doorbell_acknowledge(struct hv_doorbell *bell)
{
    hv_add_seq(&bell->acknowledged, 1);
    if (hv_load_seq(&bell->waiters) > 0) {
        hv_futex_wake(&bell->acknowledged, EVERYBODY);
    }
}

uint32_t hv_doorbell_sleep(struct hv_doorbell *bell, hv_ns deadline)
{
    uint32_t requests;

    for (;;) {
        hv_store_seq(&bell->mode, HV_DOORBELL_MODE_ASLEEP);
        HV_RACE("doorbell.sleep.published");
        requests = hv_load_seq(&bell->requests);
        if (requests != 0 || !hv_ns_before(hv_clock_host_now(), deadline)) {
            break;
        }
        hv_futex_wait(&bell->mode, HV_DOORBELL_MODE_ASLEEP, deadline);
    }
    hv_store_seq(&bell->mode, HV_DOORBELL_MODE_OUTSIDE);
    return requests;
}

void hv_doorbell_wait(struct hv_doorbell *bell, uint32_t since)
{
    hv_lock_check_wait(HV_RANK_FLUSH_WAIT, "a doorbell's acknowledgement");
    hv_add_seq(&bell->waiters, 1);
    while (hv_doorbell_in_guest(bell) && hv_doorbell_acknowledged(bell) == since) {
        HV_RACE("doorbell.wait.sleeps");
        hv_futex_wait(&bell->acknowledged, since, HV_NS_NEVER);
    }
    hv_sub_seq(&bell->waiters, 1);
}
