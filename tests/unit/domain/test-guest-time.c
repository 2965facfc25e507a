/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Time of machines that run, are paused, and sleep with their host, on a real core. */
#include "domain/core.h"
#include "domain/domain.h"
#include "domain/host-watch.h"
#include "lib/threads.h"
#include "machine.h"
#include "sync/race.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HOUR (3600 * HV_NS_PER_S)

/* jmp to itself */
static const uint8_t spin[] = {0xeb, 0xfe};

static const struct hv_domain_config standard = {
    .name = "second",
    .engine = "soft",
    .memory_bytes = MACHINE_BYTES,
    .vcpus = 1,
};

/* As if the host had slept so long, and nobody had noticed yet. */
static void sleep_unnoticed(struct hv_domain *domain, uint64_t span_ns)
{
    struct hv_guest_clock *clock = &domain->platform.clock;

    hv_lock_take(&clock->lock);
    clock->asleep_ns -= span_ns;
    hv_lock_drop(&clock->lock);
}

static uint64_t now_of(struct hv_domain *domain)
{
    return hv_platform_tsc(&domain->platform);
}

static void check_watch(struct machine *machine, struct hv_domain *second)
{
    const _Atomic uint32_t *looks = hv_host_watch_looks(machine->core->host_watch);
    const struct hv_guest_clock_counters *first = &machine->domain->platform.clock.counters;
    const struct hv_guest_clock_counters *other = &second->platform.clock.counters;
    uint32_t before = hv_load_seq(looks);
    uint64_t running, paused;

    TAP_EQ(hv_domain_unpause(machine->domain), 0);
    running = now_of(machine->domain);
    paused = now_of(second);
    sleep_unnoticed(machine->domain, HOUR);
    sleep_unnoticed(second, HOUR);
    hv_host_watch_look(machine->core->host_watch);
    TAP_AWAIT(hv_load_seq(looks) != before);
    TAP_EQ(hv_load_relaxed(&first->suspends), 1);
    TAP_OK(now_of(machine->domain) >= running + HOUR);
    /* One that does not run follows when it does. */
    TAP_EQ(hv_load_relaxed(&other->suspends), 0);
    TAP_OK(now_of(second) < paused + HOUR);
    TAP_EQ(hv_domain_unpause(second), 0);
    TAP_EQ(hv_load_relaxed(&other->suspends), 1);
    TAP_OK(now_of(second) >= paused + HOUR);
    TAP_EQ(hv_domain_pause(second), 0);
    TAP_EQ(hv_domain_pause(machine->domain), 0);
}

static void test_watch(void)
{
    struct hv_domain *second = NULL;
    struct machine machine;
    char why[128];

    TAP_OK(machine_make(&machine, 1));
    TAP_OK(machine_load(&machine, spin, sizeof(spin)));
    TAP_EQ(hv_domain_create(machine.core, &standard, &second, why, sizeof(why)), 0);
    check_watch(&machine, second);
    hv_domain_destroy(second);
    machine_unmake(&machine);
}

/* Machines come and go while it looks. */
static void test_watch_races(void)
{
    struct machine machine;
    char why[128];

    TAP_OK(machine_make(&machine, 1));
    TAP_OK(machine_load(&machine, spin, sizeof(spin)));
    for (unsigned i = 0; i < threads_rounds(200); i++) {
        struct hv_domain *second = NULL;

        hv_host_watch_look(machine.core->host_watch);
        TAP_EQ(hv_domain_unpause(machine.domain), 0);
        sleep_unnoticed(machine.domain, HOUR);
        hv_host_watch_look(machine.core->host_watch);
        TAP_EQ(hv_domain_create(machine.core, &standard, &second, why, sizeof(why)), 0);
        TAP_EQ(hv_domain_pause(machine.domain), 0);
        hv_domain_destroy(second);
    }
    TAP_EQ(hv_load_relaxed(&machine.domain->platform.clock.counters.suspended_ns),
           threads_rounds(200) * HOUR);
    machine_unmake(&machine);
}

static void follow_slowly(unsigned index, void *context)
{
    (void)index;
    hv_race_name_thread(1);
    hv_domain_follow_host(context);
}

/*
 * It ends while it is held. Who ended it has stopped clock and timers before they were resumed: who holds
 * it does that again, or they would go on in a machine that does not run.
 */
static void test_end_while_held(void)
{
    struct hv_domain_status status;
    struct threads slow;
    struct machine machine;
    bool parked;

    TAP_OK(machine_make(&machine, 1));
    TAP_OK(machine_load(&machine, spin, sizeof(spin)));
    TAP_EQ(hv_domain_unpause(machine.domain), 0);
    sleep_unnoticed(machine.domain, HOUR);
    hv_race_begin();
    hv_race_stop(1, "domain.follow.quiet", 0);
    threads_start(&slow, 1, follow_slowly, machine.domain);
    parked = hv_race_await(1, "domain.follow.quiet");
    hv_domain_crash(machine.domain, hv_domain_life(machine.domain), "while it is held");
    hv_race_end();
    threads_join(&slow);
    TAP_OK(parked);
    hv_domain_get_status(machine.domain, &status);
    TAP_EQ(status.state, HV_DOMAIN_STATE_SHUTDOWN);
    TAP_OK(hv_load_relaxed(&machine.domain->platform.clock.frozen));
    TAP_OK(hv_load_relaxed(&machine.domain->platform.pit.timer.halted));
    machine_unmake(&machine);
}

/* What a pause is for the guest: nothing, or as long as it was. */
static void test_policies(void)
{
    struct machine machine;

    TAP_OK(machine_make(&machine, 1));
    for (unsigned policy = HV_CLOCK_ADVANCE; policy <= HV_CLOCK_FREEZE; policy++) {
        struct hv_domain_config config = standard;
        const struct hv_guest_clock_counters *counters;
        struct hv_domain *domain = NULL;
        uint64_t paused, begun, stopped;
        char why[128];

        config.clock_policy = (enum hv_clock_policy)policy;
        TAP_EQ(hv_domain_create(machine.core, &config, &domain, why, sizeof(why)), 0);
        counters = &domain->platform.clock.counters;
        TAP_EQ(hv_domain_unpause(domain), 0);
        begun = hv_load_relaxed(&counters->stopped_ns);
        TAP_EQ(hv_domain_pause(domain), 0);
        paused = now_of(domain);
        TAP_EQ(now_of(domain), paused);
        TAP_EQ(hv_domain_pause(domain), 0); /* it is already */
        TAP_EQ(now_of(domain), paused);
        TAP_EQ(hv_domain_unpause(domain), 0);
        stopped = hv_load_relaxed(&counters->stopped_ns) - begun;
        TAP_OK(stopped > 0);
        TAP_EQ(hv_load_relaxed(&counters->stops), 2);
        TAP_EQ(hv_load_relaxed(&counters->withheld_ns),
               policy == HV_CLOCK_FREEZE ? hv_load_relaxed(&counters->stopped_ns) : 0);
        TAP_OK(now_of(domain) >= paused + (policy == HV_CLOCK_FREEZE ? 0 : stopped));
        hv_domain_destroy(domain);
    }
    machine_unmake(&machine);
}

/* What a machine lacks is nowhere: not in CPUID, not where the builder looks, and has no ticks. */
static void test_absent(void)
{
    const struct hv_vpt_policy merge = {.kind = HV_TICK_MERGE};
    struct hv_domain_config config = standard;
    struct hv_platform_layout layout;
    struct hv_domain *domain = NULL;
    struct machine machine;
    char why[128];

    TAP_OK(machine_make(&machine, 1));
    config.timers_absent = HV_TIMER_ALL & ~(unsigned)HV_TIMER_LAPIC;
    TAP_EQ(hv_domain_create(machine.core, &config, &domain, why, sizeof(why)), 0);
    hv_domain_get_layout(domain, &layout);
    TAP_EQ(layout.hpet_base, 0);
    TAP_EQ(layout.timers_absent, config.timers_absent);
    TAP_EQ(domain->policy.pv_features & (1u << HV_PV_CLOCKSOURCE | 1u << HV_PV_CLOCKSOURCE2), 0);
    TAP_OK(domain->policy.pv_features & 1u << HV_PV_STEAL_TIME);
    for (unsigned source = HV_VPT_PIT; source < HV_VPT_PM; source++) {
        TAP_EQ(
            hv_domain_set_tick_policy(domain, (enum hv_vpt_source)source, &merge, why, sizeof(why)),
            (uint64_t)-EINVAL);
        TAP_STR(why, "the machine has no such timer");
    }
    TAP_EQ(hv_domain_set_tick_policy(domain, HV_VPT_LAPIC, &merge, why, sizeof(why)), 0);
    hv_domain_destroy(domain);
    machine_unmake(&machine);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"domain.guest-time.watch", test_watch},
        {"domain.guest-time.watch-races", test_watch_races},
        {"domain.guest-time.end-while-held", test_end_while_held},
        {"domain.guest-time.policies", test_policies},
        {"domain.guest-time.absent", test_absent},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
