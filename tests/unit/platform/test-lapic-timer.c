/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The local APIC's timer in its three modes. A tick of divisor 1 is 40 ns. */
#include "platform/lapic.h"

#include "lib/tap.h"
#include "unit/platform/rig-irq.h"

#define VECTOR   0xee
#define PERIODIC 0x20000u
#define DEADLINE 0x40000u
#define TICK_NS  40u

static struct rig *start(uint32_t lvt, uint32_t divide)
{
    struct rig *rig = rig_new();

    rig_apic_enable(rig, 0);
    rig_apic_write(rig, 0, 0x3e0, divide);
    rig_apic_write(rig, 0, 0x320, lvt | VECTOR);
    return rig;
}

static uint32_t current(struct rig *rig)
{
    return rig_apic_read(rig, 0, 0x390);
}

static int take(struct rig *rig)
{
    int vector = rig_take(rig, 0);

    if (vector >= 0) {
        rig_eoi(rig, 0);
    }
    return vector;
}

static void test_one_shot(void)
{
    struct rig *rig = start(0, 0xb);

    TAP_EQ(HV_LAPIC_TICK_NS, TICK_NS);
    TAP_EQ(current(rig), 0);
    rig_apic_write(rig, 0, 0x380, 1000);
    TAP_EQ(current(rig), 1000);
    rig_advance(rig, 10 * TICK_NS);
    TAP_EQ(current(rig), 990);
    rig_advance(rig, 990 * TICK_NS - 1);
    TAP_EQ(current(rig), 1);
    TAP_EQ(take(rig), -1);
    rig_advance(rig, 1);
    TAP_EQ(current(rig), 0);
    TAP_EQ(take(rig), VECTOR);
    rig_advance(rig, HV_NS_PER_S);
    TAP_EQ(take(rig), -1);
    TAP_EQ(current(rig), 0);
    TAP_EQ(rig_apic_read(rig, 0, 0x380), 1000);
    /* Zero stops it. */
    rig_apic_write(rig, 0, 0x380, 1000);
    rig_apic_write(rig, 0, 0x380, 0);
    rig_advance(rig, HV_NS_PER_S);
    TAP_EQ(take(rig), -1);
}

static void test_divisors(void)
{
    static const struct {
        uint32_t code, divisor;
    } rows[] = {{0, 2}, {1, 4}, {2, 8}, {3, 16}, {8, 32}, {9, 64}, {0xa, 128}, {0xb, 1}};

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        struct rig *rig = start(0, rows[i].code);

        rig_apic_write(rig, 0, 0x380, 5000);
        rig_advance(rig, (uint64_t)5000 * TICK_NS * rows[i].divisor - 1);
        TAP_EQ(take(rig), -1);
        rig_advance(rig, 1);
        TAP_EQ(take(rig), VECTOR);
    }
}

static void test_divisor_changes(void)
{
    struct rig *rig = start(0, 0xb);

    rig_apic_write(rig, 0, 0x380, 10000);
    rig_advance(rig, 4000 * TICK_NS);
    rig_apic_write(rig, 0, 0x3e0, 0); /* by two: the other 6000 take twice as long */
    TAP_EQ(current(rig), 6000);
    rig_advance(rig, 12000 * TICK_NS - 1);
    TAP_EQ(take(rig), -1);
    rig_advance(rig, 1);
    TAP_EQ(take(rig), VECTOR);
}

static void test_periodic(void)
{
    struct rig *rig = start(PERIODIC, 0xb);
    uint64_t period = 5000 * TICK_NS;

    rig_apic_write(rig, 0, 0x380, 5000);
    for (unsigned i = 0; i < 100; i++) {
        TAP_EQ(current(rig), 5000);
        rig_advance(rig, period - TICK_NS);
        TAP_EQ(take(rig), -1);
        TAP_EQ(current(rig), 1);
        rig_advance(rig, TICK_NS);
        TAP_EQ(take(rig), VECTOR);
    }
    /* Three periods asleep: one tick, and the grid is kept. */
    rig_sleep(rig, 3 * period + TICK_NS);
    TAP_EQ(take(rig), VECTOR);
    TAP_EQ(take(rig), -1);
    TAP_EQ(current(rig), 4999);
}

/* kvm-unit-tests, x86/apic.c, test_apic_change_mode: the count goes on over changes of the mode. */
static void test_mode_changes(void)
{
    struct rig *rig = start(0, 0xb);
    uint32_t initial = 100000;

    rig_apic_write(rig, 0, 0x380, initial);
    rig_advance(rig, 60000 * TICK_NS);
    rig_apic_write(rig, 0, 0x320, PERIODIC | VECTOR);
    TAP_EQ(current(rig), 40000);
    TAP_EQ(rig_apic_read(rig, 0, 0x380), initial);
    rig_advance(rig, 40000 * TICK_NS);
    TAP_EQ(take(rig), VECTOR);
    TAP_EQ(current(rig), initial);
    rig_advance(rig, 1030000 * TICK_NS);
    TAP_EQ(take(rig), VECTOR);
    TAP_EQ(current(rig), 70000);
    rig_apic_write(rig, 0, 0x320, VECTOR);
    TAP_EQ(current(rig), 70000);
    rig_advance(rig, 70000 * TICK_NS);
    TAP_EQ(take(rig), VECTOR);
    TAP_EQ(current(rig), 0);
    rig_apic_write(rig, 0, 0x320, PERIODIC | VECTOR);
    TAP_EQ(current(rig), 0); /* it stays at zero */
    rig_advance(rig, HV_NS_PER_S);
    TAP_EQ(take(rig), -1);
}

static void test_masked(void)
{
    struct rig *rig = start(PERIODIC | 0x10000, 0xb);
    const struct hv_vpt_counters *counters = &rig->platform.lapics.lapic[0].timer.counters;

    rig_apic_write(rig, 0, 0x380, 5000);
    rig_advance(rig, 10 * 5000 * TICK_NS);
    TAP_EQ(take(rig), -1);
    TAP_EQ(hv_load_relaxed(&counters->masked_skips), 10);
    rig_apic_write(rig, 0, 0x320, PERIODIC | VECTOR);
    rig_advance(rig, 2 * 5000 * TICK_NS); /* not taken between: the second waits for that */
    TAP_EQ(take(rig), VECTOR);
    TAP_EQ(take(rig), -1);
    TAP_EQ(hv_load_relaxed(&counters->fired), 12);
    TAP_EQ(hv_load_relaxed(&counters->issued), 1);
    TAP_EQ(hv_load_relaxed(&rig->platform.lapics.lapic[0].timer.pending), 1);
    TAP_EQ(hv_load_relaxed(&counters->accepted), 1);
    rig_advance(rig, HV_VPT_PERIOD_FLOOR_NS);
    TAP_EQ(take(rig), VECTOR);
    TAP_EQ(hv_load_relaxed(&counters->issued), 2);
}

static void test_deadline(void)
{
    struct rig *rig = start(DEADLINE, 0xb);
    uint64_t now = hv_clock_now(&rig->clock).v;
    uint64_t value;

    rig->tsc_offset = UINT64_C(0) - 777; /* the guest's TSC is behind the clock */
    TAP_EQ(hv_platform_msr_write(&rig->platform, 0, 0x6e0, now - 777 + 5000), 0);
    TAP_EQ(hv_platform_msr_read(&rig->platform, 0, 0x6e0, &value), 0);
    TAP_EQ(value, now - 777 + 5000);
    rig_advance(rig, 4999);
    TAP_EQ(take(rig), -1);
    rig_advance(rig, 1);
    TAP_EQ(take(rig), VECTOR);
    TAP_EQ(hv_platform_msr_read(&rig->platform, 0, 0x6e0, &value), 0);
    TAP_EQ(value, 0);
    /* In the past: within the write. */
    TAP_EQ(hv_platform_msr_write(&rig->platform, 0, 0x6e0, 1), 0);
    TAP_EQ(take(rig), VECTOR);
    rig_advance(rig, HV_NS_PER_S);
    TAP_EQ(take(rig), -1);
    /* Zero disarms. */
    now = hv_clock_now(&rig->clock).v;
    TAP_EQ(hv_platform_msr_write(&rig->platform, 0, 0x6e0, now + 5000), 0);
    TAP_EQ(hv_platform_msr_write(&rig->platform, 0, 0x6e0, 0), 0);
    rig_advance(rig, HV_NS_PER_S);
    TAP_EQ(take(rig), -1);
    /* The TSC is set forward: the deadline comes sooner. */
    now = hv_clock_now(&rig->clock).v;
    TAP_EQ(hv_platform_msr_write(&rig->platform, 0, 0x6e0, now - 777 + 5000), 0);
    rig->tsc_offset += 2000;
    hv_platform_tsc_changed(&rig->platform, 0);
    rig_advance(rig, 3000);
    TAP_EQ(take(rig), VECTOR);
    /* The initial count is not this mode's. */
    rig_apic_write(rig, 0, 0x380, 1000);
    TAP_EQ(rig_apic_read(rig, 0, 0x380), 0);
    TAP_EQ(current(rig), 0);
}

static void test_deadline_mode_changes(void)
{
    struct rig *rig = start(DEADLINE, 0xb);
    uint64_t value;

    TAP_EQ(hv_platform_msr_write(&rig->platform, 0, 0x6e0, hv_clock_now(&rig->clock).v + 5000), 0);
    rig_apic_write(rig, 0, 0x320, VECTOR);
    TAP_EQ(hv_platform_msr_read(&rig->platform, 0, 0x6e0, &value), 0);
    TAP_EQ(value, 0);
    rig_advance(rig, HV_NS_PER_S);
    TAP_EQ(take(rig), -1);
    /* Outside the mode the MSR is ignored. */
    TAP_EQ(hv_platform_msr_write(&rig->platform, 0, 0x6e0, 1), 0);
    TAP_EQ(hv_platform_msr_read(&rig->platform, 0, 0x6e0, &value), 0);
    TAP_EQ(value, 0);
    TAP_EQ(take(rig), -1);
    rig_apic_write(rig, 0, 0x380, 100000);
    rig_apic_write(rig, 0, 0x320, DEADLINE | VECTOR);
    rig_advance(rig, HV_NS_PER_S);
    TAP_EQ(take(rig), -1);
    TAP_EQ(rig_apic_read(rig, 0, 0x380), 0);
}

static void test_shortest_period(void)
{
    struct rig *rig = start(PERIODIC, 0xb);

    rig_apic_write(rig, 0, 0x380, 1);
    rig_advance(rig, HV_NS_PER_MS);
    TAP_EQ(hv_load_relaxed(&rig->platform.lapics.lapic[0].timer.counters.fired), 10);
    TAP_EQ(hv_load_relaxed(&rig->platform.lapics.lapic[0].timer.counters.period_clamped), 1);
    TAP_EQ(take(rig), VECTOR);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"platform.lapic-timer.one-shot", test_one_shot},
        {"platform.lapic-timer.divisors", test_divisors},
        {"platform.lapic-timer.divisor-changes", test_divisor_changes},
        {"platform.lapic-timer.periodic", test_periodic},
        {"platform.lapic-timer.mode-changes", test_mode_changes},
        {"platform.lapic-timer.masked", test_masked},
        {"platform.lapic-timer.deadline", test_deadline},
        {"platform.lapic-timer.deadline-mode-changes", test_deadline_mode_changes},
        {"platform.lapic-timer.shortest-period", test_shortest_period},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
