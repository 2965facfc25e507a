/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Changes of a domain's state: run, pause, end, reset. The diagram stands in domain.h. */
#include "domain/domain.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "domain/core.h"
#include "sync/futex.h"
#include "sync/race.h"

static enum hv_domain_state get_state(const struct hv_domain *domain)
{
    return (enum hv_domain_state)hv_load_seq(&domain->state);
}

bool hv_domain_change(struct hv_domain *domain, enum hv_domain_state from, enum hv_domain_state to)
{
    uint32_t expected = from;

    return hv_cas_seq(&domain->state, &expected, to);
}

void hv_domain_announce(struct hv_domain *domain)
{
    hv_add_seq(&domain->changes, 1);
    hv_futex_wake(&domain->changes, INT32_MAX);
    hv_eventcount_signal(&domain->core->changes);
}

void hv_domain_ring_vcpus(struct hv_domain *domain)
{
    for (unsigned i = 0; i < domain->vcpus; i++) {
        hv_doorbell_ring(&domain->vcpu[i].bell, HV_REQUEST_STOP);
    }
}

/* Let the state say so, and the vCPUs look at it. Only from RUNNING: a pause or a destroy under way
 * has stopped them already, and decides the state itself. */
static void settle_end(struct hv_domain *domain, enum hv_domain_end end)
{
    enum hv_domain_state to =
        end == HV_DOMAIN_END_NO_MEMORY ? HV_DOMAIN_STATE_PAUSED : HV_DOMAIN_STATE_SHUTDOWN;

    /* Nobody is left to take ticks, and it may be long before somebody resets or destroys it. Before
     * the change: who finds SHUTDOWN may reset and resume. */
    hv_platform_halt(&domain->platform);
    if (hv_domain_change(domain, HV_DOMAIN_STATE_RUNNING, to)) {
        hv_domain_ring_vcpus(domain);
        hv_domain_announce(domain);
    }
}

static void end_life(struct hv_domain *domain, uint64_t life, enum hv_domain_end end, uint32_t code,
                     unsigned vcpu, const char *reason)
{
    if (hv_domain_enter(domain) < 0) {
        return; /* killed before it came to that */
    }
    /* Written before, settled after: pairs with run_again(), and with the reset's renewal. */
    if (hv_ending_set(&domain->ending, life, end, code, vcpu, reason)) {
        HV_RACE("domain.end.set");
        settle_end(domain, end);
        hv_ending_settle(&domain->ending);
    }
    hv_domain_leave(domain);
}

void hv_domain_end(struct hv_domain *domain, enum hv_domain_end end, uint32_t code, unsigned vcpu,
                   const char *reason)
{
    end_life(domain, hv_domain_life(domain), end, code, vcpu, reason);
}

uint64_t hv_domain_life(const struct hv_domain *domain)
{
    return hv_ending_life(&domain->ending);
}

void hv_domain_crash(struct hv_domain *domain, uint64_t life, const char *reason)
{
    end_life(domain, life, HV_DOMAIN_END_CRASH, 0, 0, reason);
}

void hv_domain_stop_vcpus(struct hv_domain *domain)
{
    uint32_t inside;

    hv_lock_check_wait(HV_RANK_FLUSH_WAIT, "stopping vCPUs");
    HV_ASSERT(get_state(domain) != HV_DOMAIN_STATE_RUNNING || hv_load_seq(&domain->held));
    hv_domain_ring_vcpus(domain);
    /* Pairs with leave_domain() of the run loop. */
    while ((inside = hv_load_seq(&domain->active)) != 0) {
        hv_futex_wait(&domain->active, inside, HV_NS_NEVER);
    }
}

/* They find RUNNING. */
static void wake_vcpus(struct hv_domain *domain)
{
    for (unsigned i = 0; i < domain->vcpus; i++) {
        hv_sched_wake(&domain->vcpu[i].entity);
    }
}

/* What PAUSED promises, however it came to be: nobody inside, and no timer that fires. */
static void quiesce(struct hv_domain *domain)
{
    hv_domain_stop_vcpus(domain);
    hv_platform_pause(&domain->platform);
}

/* The state changes while the domain stands still, which only a kill can forestall. */
static int settle_state(struct hv_domain *domain, enum hv_domain_state from,
                        enum hv_domain_state to)
{
    if (!hv_domain_change(domain, from, to)) {
        return -ECANCELED;
    }
    hv_domain_announce(domain);
    return 0;
}

/* One who ended it while timers were being resumed had halted them for nothing, and may not have been
 * able to change the state. Pairs with hv_domain_end(): who writes `end` after this look settles it. */
static void settle_again(struct hv_domain *domain)
{
    enum hv_domain_end end = hv_ending_end(&domain->ending);

    if (end != HV_DOMAIN_END_NONE) {
        settle_end(domain, end);
    }
}

static int run_again(struct hv_domain *domain)
{
    int rc;

    quiesce(domain);
    hv_platform_resume(&domain->platform);
    HV_RACE("domain.unpause.resumed");
    rc = settle_state(domain, HV_DOMAIN_STATE_PAUSED, HV_DOMAIN_STATE_RUNNING);
    if (rc < 0) {
        return rc;
    }
    wake_vcpus(domain);
    settle_again(domain);
    return 0;
}

/*
 * No vCPU sees the clock jump before its guest is told that it stood: they are out meanwhile. Not by
 * PAUSED, which others would take for the end of its running.
 */
static void wake_from_sleep(struct hv_domain *domain)
{
    hv_store_seq(&domain->held, true);
    quiesce(domain);
    HV_RACE("domain.follow.quiet");
    hv_platform_resume(&domain->platform);
    hv_store_seq(&domain->held, false);
    wake_vcpus(domain);
    settle_again(domain);
}

static int follow_host(struct hv_domain *domain, void *context)
{
    (void)context;
    if (get_state(domain) != HV_DOMAIN_STATE_RUNNING) {
        return 0; /* it follows when it runs again */
    }
    if (hv_guest_clock_unaware(&domain->platform.clock)) {
        wake_from_sleep(domain);
    } else {
        hv_platform_follow_wall(&domain->platform);
    }
    return 0;
}

void hv_domain_follow_host(struct hv_domain *domain)
{
    /* Under the lifecycle lock: no pause or resume is half done. One that dies needs no clock. */
    (void)!hv_domain_act(domain, follow_host, NULL);
}

int hv_domain_refuse(const struct hv_domain *domain)
{
    return get_state(domain) < HV_DOMAIN_STATE_DYING ? -EBUSY : -ECANCELED;
}

static int unpause(struct hv_domain *domain, void *context)
{
    (void)context;
    if (get_state(domain) != HV_DOMAIN_STATE_PAUSED) {
        return hv_domain_refuse(domain);
    }
    return hv_ending_forget(&domain->ending)
               ? run_again(domain)
               : settle_state(domain, HV_DOMAIN_STATE_PAUSED, HV_DOMAIN_STATE_SHUTDOWN);
}

int hv_domain_unpause(struct hv_domain *domain)
{
    return hv_domain_act(domain, unpause, NULL);
}

static int stop(struct hv_domain *domain, void *context)
{
    (void)context;
    if (hv_domain_change(domain, HV_DOMAIN_STATE_RUNNING, HV_DOMAIN_STATE_PAUSED)) {
        HV_RACE("domain.pause.changed");
        quiesce(domain);
        hv_domain_announce(domain);
        return 0;
    }
    if (get_state(domain) == HV_DOMAIN_STATE_PAUSED) {
        quiesce(domain); /* by itself, perhaps: NO_MEMORY */
        return 0;
    }
    if (get_state(domain) == HV_DOMAIN_STATE_SHUTDOWN) {
        /* Its end was announced from inside an engine: let what that has counted be booked. */
        hv_domain_stop_vcpus(domain);
    }
    return hv_domain_refuse(domain);
}

int hv_domain_pause(struct hv_domain *domain)
{
    return hv_domain_act(domain, stop, NULL);
}

static void power_up(struct hv_domain *domain)
{
    quiesce(domain);
    /* First: what is found wrong from here on is of the new life, and not lost. */
    hv_ending_renew(&domain->ending);
    hv_platform_reset(&domain->platform);
    for (unsigned i = 0; i < domain->vcpus; i++) {
        struct hv_vcpu *vcpu = &domain->vcpu[i];

        hv_cpu_reset(&vcpu->cpu, i == 0);
        hv_store_seq(&vcpu->startup, 0);
        domain->ops->state_changed(vcpu->engine);
    }
    hv_store_seq(&domain->halted, 0);
}

static int reset(struct hv_domain *domain, void *context)
{
    enum hv_domain_state state = get_state(domain);

    (void)context;
    if (state != HV_DOMAIN_STATE_PAUSED && state != HV_DOMAIN_STATE_SHUTDOWN) {
        return hv_domain_refuse(domain);
    }
    power_up(domain);
    return settle_state(domain, state, HV_DOMAIN_STATE_PAUSED);
}

int hv_domain_reset(struct hv_domain *domain)
{
    return hv_domain_act(domain, reset, NULL);
}

static int press(struct hv_domain *domain, void (*button)(struct hv_platform *platform))
{
    int rc = hv_domain_enter(domain);

    if (rc < 0) {
        return rc;
    }
    if (get_state(domain) == HV_DOMAIN_STATE_RUNNING) {
        button(&domain->platform);
    } else {
        rc = hv_domain_refuse(domain);
    }
    hv_domain_leave(domain);
    return rc;
}

int hv_domain_press_power(struct hv_domain *domain)
{
    return press(domain, hv_platform_press_power);
}

int hv_domain_press_nmi(struct hv_domain *domain)
{
    return press(domain, hv_platform_press_nmi);
}

void hv_domain_get_status(struct hv_domain *domain, struct hv_domain_status *status_out)
{
    memset(status_out, 0, sizeof(*status_out));
    status_out->state = get_state(domain);
    hv_ending_get(&domain->ending, status_out);
}

int hv_domain_wait_change(struct hv_domain *domain, enum hv_domain_state than, uint64_t timeout_ns)
{
    struct hv_clock host;
    hv_ns deadline;

    hv_clock_init_host(&host);
    deadline = hv_ns_add(hv_clock_now(&host), timeout_ns);
    for (;;) {
        uint32_t seen = hv_load_seq(&domain->changes);

        if (get_state(domain) != than) {
            return 0;
        }
        if (!hv_ns_before(hv_clock_now(&host), deadline)) {
            return -ETIMEDOUT;
        }
        hv_futex_wait(&domain->changes, seen, deadline);
    }
}
