/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What stops when a domain ends, and goes on when it is reset or resumed. */
#include "domain/domain.h"
#include "lib/threads.h"
#include "machine.h"
#include "sync/race.h"

/* Start the PIT at 1 kHz, wait for a tick at the 8259A, and write 5 to the debug port. */
static const uint8_t code_tick[] = {
    0xb0, 0x34, 0xe6, 0x43, /* mov $0x34,%al; out %al,$0x43: counter 0, both bytes, mode 2 */
    0xb0, 0xa9, 0xe6, 0x40, /* 1193 */
    0xb0, 0x04, 0xe6, 0x40, /**/
    0xe4, 0x20,             /* in $0x20,%al: requests */
    0xa8, 0x01,             /* test $1,%al */
    0x74, 0xfa,             /* je back */
    0xb0, 0x05, 0xe6, 0xf4, /* mov $5,%al; out %al,$0xf4 */
    0xeb, 0xfe,             /* jmp here */
};

static bool timers_halted(const struct machine *machine)
{
    const struct hv_platform *platform = &machine->domain->platform;
    bool halted = true;

    for (unsigned i = 0; i < platform->lapics.count; i++) {
        halted = halted && hv_load_seq(&platform->lapics.lapic[i].timer.halted);
    }
    return halted && hv_load_seq(&platform->pit.timer.halted);
}

/* Ended by itself or from outside, its timers stop; a reset and a new run start them again. */
static void test_timers_stop(void)
{
    struct hv_domain_status status;
    struct machine machine;

    TAP_OK(machine_make(&machine, 2));
    for (unsigned i = 0; i < 3; i++) {
        TAP_OK(!timers_halted(&machine) || i > 0);
        TAP_OK(machine_run(&machine, code_tick, sizeof(code_tick), &status));
        TAP_EQ(status.end, HV_DOMAIN_END_DEBUG_EXIT);
        TAP_OK(timers_halted(&machine));
        TAP_OK(hv_load_relaxed(&machine.domain->platform.pit.timer.running));
        TAP_EQ(hv_domain_reset(machine.domain), 0);
    }
    hv_domain_crash(machine.domain, hv_domain_life(machine.domain), "from outside");
    TAP_OK(timers_halted(&machine));
    machine_unmake(&machine);
}

/* Without memory it is paused; its timers stop as if somebody else had done it, and go on. */
static void test_timers_stop_without_memory(void)
{
    struct hv_domain_status status;
    struct machine machine;

    TAP_OK(machine_make(&machine, 1));
    TAP_OK(machine_load(&machine, code_tick, sizeof(code_tick)));
    hv_domain_end(machine.domain, HV_DOMAIN_END_NO_MEMORY, 0, 0, "none");
    TAP_OK(timers_halted(&machine));
    TAP_EQ(hv_domain_unpause(machine.domain), 0);
    TAP_EQ(hv_domain_wait_change(machine.domain, HV_DOMAIN_STATE_RUNNING, 10 * HV_NS_PER_S), 0);
    hv_domain_get_status(machine.domain, &status);
    TAP_EQ(status.end, HV_DOMAIN_END_DEBUG_EXIT);
    machine_unmake(&machine);
}

static const uint8_t code_spin[] = {0xeb, 0xfe};

/* It runs, nobody says that it has ended, and its timers tick. */
static bool lives(const struct machine *machine)
{
    struct hv_domain_status status;

    hv_domain_get_status(machine->domain, &status);
    return status.state == HV_DOMAIN_STATE_RUNNING && status.end == HV_DOMAIN_END_NONE &&
           !timers_halted(machine);
}

/* Who found the guest beyond repair before a reset does not end what came of it. */
static void test_stale_crash(void)
{
    struct machine machine;
    uint64_t life;

    TAP_OK(machine_make(&machine, 1));
    life = hv_domain_life(machine.domain);
    TAP_EQ(hv_domain_reset(machine.domain), 0);
    TAP_EQ(hv_domain_life(machine.domain), life + 1);
    TAP_OK(machine_load(&machine, code_spin, sizeof(code_spin)));
    TAP_EQ(hv_domain_unpause(machine.domain), 0);
    hv_domain_crash(machine.domain, life, "what was");
    TAP_OK(lives(&machine));
    TAP_EQ(hv_domain_pause(machine.domain), 0);
    TAP_EQ(hv_domain_unpause(machine.domain), 0);
    hv_domain_crash(machine.domain, life, "what was");
    TAP_OK(lives(&machine));
    hv_domain_crash(machine.domain, life + 1, "what is");
    TAP_OK(!lives(&machine));
    machine_unmake(&machine);
}

static void crash_as_1(unsigned index, void *context)
{
    (void)index;
    hv_race_name_thread(1);
    hv_domain_crash(context, hv_domain_life(context), "because");
}

static _Atomic int renewed_rc;

static void reset_as_2(unsigned index, void *context)
{
    (void)index;
    hv_race_name_thread(2);
    hv_store_seq(&renewed_rc, hv_domain_reset(context));
}

/*
 * One who has said that it ended, and loses his CPU before the state follows: were the domain reset
 * and resumed meanwhile, he would stop it, and it would have ended without an end.
 */
static void test_slow_crash(void)
{
    struct threads slow, other;
    struct machine machine;

    if (!HV_CONFIG_RACE_POINTS) {
        tap_skip("This build has no race points.");
        return;
    }
    TAP_OK(machine_make(&machine, 1));
    hv_race_begin();
    hv_race_stop(1, "domain.end.set", 0);
    hv_race_stop(2, "ending.renew.waits", 0);
    threads_start(&slow, 1, crash_as_1, machine.domain);
    TAP_OK(hv_race_await(1, "domain.end.set"));
    threads_start(&other, 1, reset_as_2, machine.domain);
    TAP_OK(hv_race_await(2, "ending.renew.waits"));
    hv_race_end();
    threads_join(&other);
    threads_join(&slow);
    TAP_EQ(renewed_rc, 0);
    TAP_OK(machine_load(&machine, code_spin, sizeof(code_spin)));
    TAP_EQ(hv_domain_unpause(machine.domain), 0);
    TAP_OK(lives(&machine));
    machine_unmake(&machine);
}

/* Memory outlives a reset, whoever wrote it. */
static void test_reset_keeps_memory(void)
{
    static const uint8_t code[] = {
        0xc7, 0x05, 0x00, 0x00, 0x20, 0x00, 1, 2, 3, 4, /* movl $0x04030201,0x200000 */
        0xb0, 0x05, 0xe6, 0xf4, 0xeb, 0xfe,             /* debug exit */
    };
    struct hv_domain_status status;
    struct machine machine;
    uint32_t word = 77;

    TAP_OK(machine_make(&machine, 1));
    TAP_EQ(hv_guest_copy(machine.domain, (hv_gpa){0x300000}, &word, 4, HV_COPY_TO_GUEST), 0);
    TAP_OK(machine_run(&machine, code, sizeof(code), &status));
    TAP_EQ(hv_domain_reset(machine.domain), 0);
    TAP_EQ(hv_guest_copy(machine.domain, (hv_gpa){0x300000}, &word, 4, HV_COPY_FROM_GUEST), 0);
    TAP_EQ(word, 77);
    TAP_EQ(hv_guest_copy(machine.domain, (hv_gpa){0x200000}, &word, 4, HV_COPY_FROM_GUEST), 0);
    TAP_EQ(word, 0x04030201);
    machine_unmake(&machine);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"domain.lifecycle.timers-stop", test_timers_stop},
        {"domain.lifecycle.reset-keeps-memory", test_reset_keeps_memory},
        {"domain.lifecycle.timers-stop-without-memory", test_timers_stop_without_memory},
        {"domain.lifecycle.stale-crash", test_stale_crash},
        {"domain.lifecycle.slow-crash", test_slow_crash},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
