/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Programming of timers that makes no sense, and records that no machine can have: what follows is the
 * data sheet's, or a clamp that is counted and logged once, or a refusal that names the field.
 */
#include "lib/threads.h"
#include "platform/rtc-calendar.h"
#include "platform/tick.h"
#include "unit/platform/rig-cmos.h"
#include "unit/platform/rig-irq.h"

#include <errno.h>

#define HPET_CONFIG     (HV_HPET_BASE + 0x10)
#define HPET_COUNTER    (HV_HPET_BASE + 0xf0)
#define HPET_TIMER      (HV_HPET_BASE + 0x100)
#define HPET_COMPARATOR (HV_HPET_BASE + 0x108)
#define HPET_PERIODIC   (20u << 9 | 0x4cu) /* and its value is set, its interrupt enabled */
#define HPET_ONE_SHOT   (20u << 9 | 0x04u)
#define HPET_NARROW     0x100u

#define LAPIC_PERIODIC  0x200eeu
#define LAPIC_DEADLINE  0x400eeu
#define MSR_DEADLINE    0x6e0u

static unsigned take_all(struct rig *rig)
{
    unsigned count = 0;

    while (rig_take(rig, 0) >= 0) {
        rig_eoi(rig, 0);
        (void)rig_cmos_read(rig, RTC_C);
        count++;
    }
    return count;
}

static struct rig *start(void)
{
    struct rig *rig = rig_new();

    rig_apic_enable(rig, 0);
    rig_ioapic_write(rig, 20, 0x60);
    return rig;
}

/* 2.3.9.2.2: nothing is added at a match, so that there is one, and no division by the period. */
static void test_hpet_period_0(void)
{
    struct rig *rig = start();

    rig_mmio_write(rig, HPET_CONFIG, 4, 1);
    rig_mmio_write(rig, HPET_TIMER, 4, HPET_PERIODIC);
    rig_mmio_write(rig, HPET_COMPARATOR, 8, 100);
    rig_mmio_write(rig, HPET_COMPARATOR, 8, 0);
    rig_advance(rig, HV_NS_PER_S);
    TAP_EQ(take_all(rig), 1);
    /* It goes on when it is given a period and a comparator again. */
    rig_mmio_write(rig, HPET_TIMER, 4, HPET_PERIODIC);
    rig_mmio_write(rig, HPET_COMPARATOR, 8, rig_mmio_read(rig, HV_HPET_BASE + 0xf0, 8) + 100000);
    rig_mmio_write(rig, HPET_COMPARATOR, 8, 100000);
    for (unsigned i = 0; i < 5; i++) {
        rig_advance(rig, HV_NS_PER_MS);
        TAP_EQ(take_all(rig), 1);
    }
}

/* A one-shot comparator that the counter has passed: at once, at either width. */
static void test_hpet_past(void)
{
    struct rig *rig = start();

    rig_mmio_write(rig, HPET_CONFIG, 4, 1);
    rig_advance(rig, 50 * HV_NS_PER_S); /* beyond 32 bits */
    rig_mmio_write(rig, HPET_TIMER, 4, HPET_ONE_SHOT | HPET_NARROW);
    rig_mmio_write(rig, HPET_COMPARATOR, 8, rig_mmio_read(rig, HV_HPET_BASE + 0xf0, 4) - 1);
    rig_advance(rig, 0);
    TAP_EQ(take_all(rig), 1);
    rig_advance(rig, 20 * HV_NS_PER_S);
    TAP_EQ(take_all(rig), 0);
    rig_mmio_write(rig, HPET_TIMER, 4, HPET_ONE_SHOT);
    rig_mmio_write(rig, HPET_COMPARATOR, 8, 1);
    rig_advance(rig, 0);
    TAP_EQ(take_all(rig), 1);
    rig_advance(rig, 100 * HV_NS_PER_S);
    TAP_EQ(take_all(rig), 0);
}

/* 2^31 ticks before the counter's end: a narrow comparator sees 32 bits of it, whatever the others do. */
static void test_hpet_wrap(void)
{
    struct rig *rig = start();

    rig_mmio_write(rig, HPET_COUNTER, 8, UINT64_MAX - 0x7fffffff);
    rig_mmio_write(rig, HPET_CONFIG, 4, 1);
    rig_mmio_write(rig, HPET_TIMER, 4, HPET_ONE_SHOT | HPET_NARROW);
    rig_mmio_write(rig, HPET_COMPARATOR, 8, 5); /* 2^31 + 5 ticks ahead: 21 s */
    TAP_EQ(rig_looks(rig, 20 * HV_NS_PER_S, 100, NULL), 0);
    TAP_EQ(take_all(rig), 0);
    TAP_EQ(rig_looks(rig, 2 * HV_NS_PER_S, 100, NULL), 1);
    TAP_EQ(take_all(rig), 1);
    TAP_EQ(rig_looks(rig, 43 * HV_NS_PER_S, 100, NULL), 1); /* 2^32 ticks later */
    TAP_EQ(take_all(rig), 1);
}

static _Atomic uint32_t refused;

static void reload_body(unsigned index, void *context)
{
    struct rig *rig = context;

    for (unsigned i = 0; i < 2000; i++) {
        uint64_t value;

        if (hv_bus_write(&rig->bus, HV_BUS_PORT, index, 0x40, 1, index ? 0x12 : i) ||
            hv_bus_write(&rig->bus, HV_BUS_PORT, index, 0x43, 1, index ? 0x00 : 0x34) ||
            hv_bus_read(&rig->bus, HV_BUS_PORT, index, 0x40, 1, &value)) {
            hv_add_relaxed(&refused, 1);
        }
        hv_platform_update_timers(&rig->platform, index);
    }
}

/* A count's two bytes, torn apart: by a control word, and by another vCPU. */
static void test_pit_reload(void)
{
    struct rig *rig = start();
    const struct hv_vpt *timer = &rig->platform.pit.timer;

    rig_pic_start(rig, 0, true);
    rig_outb(rig, 0x43, 0x34);
    rig_outb(rig, 0x40, 0xff); /* the low byte, which the next control word forgets */
    rig_outb(rig, 0x43, 0x34);
    rig_outb(rig, 0x40, 0xa9);
    TAP_EQ(hv_load_relaxed(&timer->running), 0);
    rig_outb(rig, 0x40, 0x04);
    TAP_EQ(hv_load_relaxed(&timer->period_ns), hv_ticks_to_ns(0x4a9, HV_PIT_HZ));
    threads_run(2, reload_body, rig);
    TAP_EQ(refused, 0);
    hv_vpt_check(timer);
    /* Whatever they have left: programmed in one piece it is as new. */
    rig_outb(rig, 0x43, 0x34);
    rig_outb(rig, 0x40, 0xa9);
    rig_outb(rig, 0x40, 0x04);
    (void)take_all(rig);
    rig_advance(rig, hv_ticks_to_ns(0x4a9, HV_PIT_HZ) - 1);
    TAP_EQ(take_all(rig), 0);
    rig_advance(rig, 1);
    TAP_EQ(take_all(rig), 1);
}

/* Table 5, 32.768 kHz: the rates 1 and 2 are those of 8 and 9. */
static void test_rtc_rate_1(void)
{
    static const struct {
        uint8_t rate;
        uint32_t hz;
    } rows[] = {{1, 256}, {2, 128}, {3, 8192}, {8, 256}, {9, 128}, {15, 2}};

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        struct rig *rig = rig_new();

        rig_cmos_write(rig, RTC_A, RTC_A_DIVIDER_32K | rows[i].rate);
        rig_cmos_write(rig, RTC_B, RTC_B_24H | RTC_B_PIE);
        TAP_EQ(hv_load_relaxed(&rig->platform.rtc.periodic.period_ns),
               hv_ticks_to_ns(32768 / rows[i].hz, 32768));
        rig_advance(rig, 2 * HV_NS_PER_S);
        TAP_EQ(hv_load_relaxed(&rig->platform.rtc.periodic.counters.fired), 2 * rows[i].hz);
        TAP_EQ(hv_load_relaxed(&rig->platform.rtc.periodic.counters.period_clamped), 0);
    }
}

/* SDM 3A, figure 11-10: three bits that are not neighbours; what stands between is reserved. */
static void test_lapic_divide(void)
{
    static const uint8_t divisors[] = {2, 4, 8, 16, 32, 64, 128, 1};

    for (uint32_t code = 0; code < 32; code++) {
        struct rig *rig = start();
        unsigned divisor = divisors[(code & 3) | (code & 8) >> 1];

        rig_apic_write(rig, 0, 0x3e0, code);
        TAP_EQ(rig_apic_read(rig, 0, 0x3e0), code & 0xb);
        rig_apic_write(rig, 0, 0x320, 0xee);
        rig_apic_write(rig, 0, 0x380, 1000);
        rig_advance(rig, UINT64_C(1000) * HV_LAPIC_TICK_NS * divisor - 1);
        TAP_EQ(take_all(rig), 0);
        rig_advance(rig, 1);
        TAP_EQ(take_all(rig), 1);
    }
}

/* Bits that are ignored in memory are #GP in x2APIC mode, and change nothing. */
static void test_x2apic_reserved_bits(void)
{
    static const struct {
        uint32_t index;
        uint64_t good, bad;
    } rows[] = {
        {0x832, 0x200ee, 0x80000},                                   /* LVT timer: above the mode */
        {0x832, 0x200ee, 0x800},                                     /* no delivery mode */
        {0x83e, 0xb, 0x4},                                           /* divide configuration */
        {0x83e, 0x3, 0x10},        {0x838, 5000, UINT64_C(1) << 32}, /* initial count */
        {0x80f, 0x1ff, 0x10000},                                     /* spurious vector */
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        struct rig *rig = start();
        uint64_t value;

        TAP_EQ(hv_platform_msr_write(&rig->platform, 0, 0x1b, 0xfee00000 | 0xd00), 0);
        TAP_EQ(hv_platform_msr_write(&rig->platform, 0, rows[i].index, rows[i].good), 0);
        TAP_EQ(hv_platform_msr_write(&rig->platform, 0, rows[i].index, rows[i].good | rows[i].bad),
               HV_FAULTED);
        TAP_EQ(hv_platform_msr_read(&rig->platform, 0, rows[i].index, &value), 0);
        TAP_EQ(value, rows[i].good);
    }
}

/* ---- the floor ---- */

static unsigned lines;
static char line_last[HV_LOG_LINE_MAX];

static void count_line(void *context, enum hv_log_level level, const char *line)
{
    (void)context;
    (void)level;
    lines++;
    strncpy(line_last, line, sizeof(line_last) - 1);
}

static void shortest_pit(struct rig *rig)
{
    rig_outb(rig, 0x43, 0x14); /* low byte only, mode 2 */
    rig_outb(rig, 0x40, 1);
}

static void shortest_hpet(struct rig *rig)
{
    rig_mmio_write(rig, HPET_CONFIG, 4, 1);
    rig_mmio_write(rig, HPET_TIMER, 4, HPET_PERIODIC);
    rig_mmio_write(rig, HPET_COMPARATOR, 8, rig_mmio_read(rig, HV_HPET_BASE + 0xf0, 8) + 1);
    rig_mmio_write(rig, HPET_COMPARATOR, 8, 1);
}

static void shortest_lapic(struct rig *rig)
{
    rig_apic_write(rig, 0, 0x3e0, 0xb);
    rig_apic_write(rig, 0, 0x320, LAPIC_PERIODIC);
    rig_apic_write(rig, 0, 0x380, 1);
}

/* The shortest period that each can be given, in a tenth of a second: no more than 1000 interrupts. */
static void test_period_floor(void)
{
    static const struct {
        const char *name;
        unsigned timer; /* of hv_platform_get_timer() */
        void (*program)(struct rig *rig);
    } rows[] = {
        {"pit0", 0, shortest_pit}, {"hpet0", 3, shortest_hpet}, {"lapic", 6, shortest_lapic}};

    hv_log_set_sink(count_line, NULL, HV_LOG_LEVEL_INFO);
    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        struct rig *rig = start();
        struct hv_platform_timer timer;
        unsigned taken = 0;

        rig_pic_start(rig, 0, true);
        lines = 0;
        for (unsigned again = 1; again <= 3; again++) {
            rows[i].program(rig);
            hv_platform_get_timer(&rig->platform, rows[i].timer, &timer);
            TAP_OK(timer.period_ns >= 100000 && timer.period_ns < 101000);
            TAP_OK(timer.period_clamped >= again);
        }
        TAP_EQ(lines, 1);
        TAP_OK(strstr(line_last, rows[i].name) && strstr(line_last, " ns is served as 100"));
        for (unsigned us = 0; us < 100000; us += 10) {
            rig_advance(rig, 10 * HV_NS_PER_US);
            taken += take_all(rig);
        }
        TAP_OK(taken >= 980 && taken <= 1001);
    }
}

/*
 * A local APIC's count whose registers are written so that its next period seems to have begun before:
 * with the rate that makes what has passed nearly all of a longer one, or, at each tick, by a change of
 * mode and back. Each count is the shortest that does it.
 */
static void hurry_by_rate(struct rig *rig, unsigned step, uint64_t step_ns, bool ticked)
{
    (void)ticked;
    rig_apic_write(rig, 0, 0x3e0, step % 2 ? 0xa : 0xb); /* by 128, by 1 */
    if (step == 0) {
        rig_apic_write(rig, 0, 0x320, LAPIC_PERIODIC);
        rig_apic_write(rig, 0, 0x380, (uint32_t)((step_ns + step_ns / 200) / HV_LAPIC_TICK_NS));
    }
}

static void hurry_by_mode(struct rig *rig, unsigned step, uint64_t step_ns, bool ticked)
{
    (void)step_ns;
    if (step == 0) {
        rig_apic_write(rig, 0, 0x3e0, 0xb);
        rig_apic_write(rig, 0, 0x320, LAPIC_PERIODIC);
        rig_apic_write(rig, 0, 0x380, 51000 / HV_LAPIC_TICK_NS);
    } else if (ticked) {
        rig_apic_write(rig, 0, 0x320, LAPIC_PERIODIC & 0xff);
        rig_apic_write(rig, 0, 0x320, LAPIC_PERIODIC);
    }
}

static void hurry_pit(struct rig *rig, unsigned step, uint64_t step_ns, bool ticked)
{
    (void)step_ns;
    if (step % 7 == 0) {
        shortest_pit(rig);
    } else if (!ticked) {
        rig_outb(rig, 0x40, (uint8_t)(step + 1));
    }
}

static void hurry_hpet(struct rig *rig, unsigned step, uint64_t step_ns, bool ticked)
{
    (void)step_ns;
    if (ticked || step % 3 == 0) {
        shortest_hpet(rig);
        rig_mmio_write(rig, HPET_CONFIG, 4, 0);
        rig_mmio_write(rig, HPET_CONFIG, 4, 1);
    }
}

static void hurry_rtc(struct rig *rig, unsigned step, uint64_t step_ns, bool ticked)
{
    (void)step_ns;
    rig_cmos_write(rig, RTC_A, ticked ? 0 : RTC_A_DIVIDER_32K | (uint8_t)(3 + step % 3));
    rig_cmos_write(rig, RTC_B, RTC_B_24H | RTC_B_PIE);
}

/* However a guest writes to a source, and whenever: it ticks no more often than the floor has it. */
static void test_floor_hurried(void)
{
    static const struct {
        unsigned timer;
        void (*hurry)(struct rig *rig, unsigned step, uint64_t step_ns, bool ticked);
    } rows[] = {
        {6, hurry_by_rate}, {6, hurry_by_mode}, {0, hurry_pit}, {3, hurry_hpet}, {1, hurry_rtc}};

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        for (uint64_t step_ns = 700; step_ns < 150000; step_ns = step_ns * 13 / 10) {
            struct rig *rig = start();
            struct hv_platform_timer timer;
            bool ticked = false;

            rig_pic_start(rig, 0, true);
            for (unsigned step = 0; step < 1000; step++) {
                rows[i].hurry(rig, step, step_ns, ticked);
                rig_advance(rig, step_ns);
                ticked = take_all(rig) > 0;
            }
            hv_platform_get_timer(&rig->platform, rows[i].timer, &timer);
            if (timer.issued > step_ns * 1000 / HV_VPT_PERIOD_FLOOR_NS + 1) {
                tap_fail(__FILE__, __LINE__, "row %zu, each %" PRIu64 " ns: %" PRIu64 " ticks", i,
                         step_ns, timer.issued);
            }
        }
    }
}

/* How many ticks HPET 0 gives a guest that takes all at once. */
static uint64_t issued(struct rig *rig, unsigned span_ms)
{
    uint64_t before = hv_load_relaxed(&rig->platform.hpet.timer[0].vpt.counters.issued);

    for (unsigned i = 0; i < span_ms * 10; i++) {
        rig_advance(rig, 100 * HV_NS_PER_US);
        (void)take_all(rig);
    }
    return hv_load_relaxed(&rig->platform.hpet.timer[0].vpt.counters.issued) - before;
}

#define HPET_MS (HV_NS_PER_MS / HV_HPET_TICK_NS)

static void program_ms(struct rig *rig, uint32_t width, uint64_t comparator)
{
    rig_mmio_write(rig, HPET_TIMER, 4, HPET_PERIODIC | width);
    rig_mmio_write(rig, HPET_COMPARATOR, 8, comparator);
    rig_mmio_write(rig, HPET_COMPARATOR, 8, HPET_MS);
}

/* A narrow comparator that wraps before it matches, while ticks wait: those come, and no others. */
static void test_hpet_far_first(void)
{
    const struct hv_vpt_policy policy = {.kind = HV_TICK_DELAY, .limit_ns = 10 * HV_NS_PER_S};
    struct rig *rig = start();
    const struct hv_vpt *timer = &rig->platform.hpet.timer[0].vpt;

    hv_platform_set_tick_policy(&rig->platform, HV_VPT_HPET0, &policy);
    rig_mmio_write(rig, HPET_CONFIG, 4, 1);
    rig_advance(rig, 10 * HV_NS_PER_S);
    program_ms(rig, HPET_NARROW, 10001 * HPET_MS);
    rig_sleep(rig, 10 * HV_NS_PER_MS);
    program_ms(rig, HPET_NARROW, HPET_MS);
    TAP_EQ(hv_load_relaxed(&timer->counters.fired), 10);
    TAP_EQ(issued(rig, 99), 9); /* one has been before */
    TAP_EQ(hv_load_relaxed(&timer->counters.fired), 10);
    hv_vpt_check(timer);
    rig_advance(rig, 33 * HV_NS_PER_S - 160 * HV_NS_PER_MS); /* 2^32 ticks after the last, nearly */
    TAP_EQ(hv_load_relaxed(&timer->counters.fired), 10);
}

/* One-shots have no floor: each costs the guest an exit, and the worker one look for all that is due. */
static void test_one_shots(void)
{
    struct rig *rig = start();
    const struct hv_vpt *timer = &rig->platform.lapics.lapic[0].timer;

    rig_apic_write(rig, 0, 0x320, LAPIC_DEADLINE);
    for (unsigned i = 0; i < 1000; i++) {
        TAP_EQ(hv_platform_msr_write(&rig->platform, 0, MSR_DEADLINE, 1), 0);
        TAP_EQ(take_all(rig), 1);
    }
    TAP_EQ(hv_load_relaxed(&timer->counters.accepted), 1000);
    /* The worker has one of them to look at, the last; and one that is ahead, once. */
    TAP_EQ(hv_timer_queue_run(&rig->queue, hv_clock_now(&rig->clock)), 1);
    TAP_EQ(hv_platform_msr_write(&rig->platform, 0, MSR_DEADLINE, hv_clock_now(&rig->clock).v + 1),
           0);
    hv_clock_advance(&rig->clock, 1);
    TAP_EQ(hv_timer_queue_run(&rig->queue, hv_clock_now(&rig->clock)), 1);
    TAP_EQ(hv_timer_queue_run(&rig->queue, hv_clock_now(&rig->clock)), 0);
    TAP_EQ(hv_timer_queue_next(&rig->queue).v, HV_NS_NEVER.v);
}

/* ---- records ---- */

static struct hv_platform_record record;

/* A machine whose timers all run. */
static struct rig *busy(void)
{
    struct rig *rig = start();

    rig_outb(rig, 0x43, 0x34);
    rig_outb(rig, 0x40, 0xa9);
    rig_outb(rig, 0x40, 0x04);
    rig_cmos_write(rig, RTC_B, RTC_B_24H | RTC_B_PIE);
    shortest_hpet(rig);
    rig_apic_write(rig, 0, 0x3e0, 0xb);
    rig_apic_write(rig, 0, 0x320, LAPIC_PERIODIC);
    rig_apic_write(rig, 0, 0x380, 25000);
    rig_advance(rig, 3 * HV_NS_PER_MS);
    return rig;
}

#define BREAK(device, what)          \
    static void break_##device(void) \
    {                                \
        what;                        \
    }

BREAK(pit_count, record.pit.counter[0].count = 0)
BREAK(pit_next, record.pit.counter[0].next_count = 0x10001)
BREAK(pit_mode, record.pit.counter[1].mode = 6)
BREAK(pit_held, record.pit.timer.held_ticks = 1193)
BREAK(pit_pending, record.pit.timer.pending = UINT64_MAX)
BREAK(pit_policy, record.pit.timer.policy = HV_TICK_POLICIES)
BREAK(rtc_second, record.rtc.second_elapsed_ns = HV_NS_PER_S)
BREAK(rtc_seen, record.rtc.periodic_seen++)
BREAK(rtc_a, record.rtc.memory[RTC_A] |= 0x80)
BREAK(rtc_awaits, record.rtc.periodic.awaits = 2)
BREAK(hpet_phase, record.hpet.phase_ns = HV_HPET_TICK_NS)
BREAK(hpet_remaining, record.hpet.timer[1].remaining_ns = 5)
BREAK(hpet_route, record.hpet.timer[0].config = 3u << 9)
BREAK(hpet_narrow, record.hpet.timer[2].config = 0x100)
BREAK(hpet_pending, record.hpet.timer[1].vpt.pending = 7)
BREAK(hpet_next, record.hpet.timer[0].vpt.next_issue_ns = 7)
BREAK(pm_wraps, record.acpi.timer_wraps++)
BREAK(lapic_divide, record.lapic[0].divide = 4)
BREAK(lapic_elapsed, record.lapic[1].timer_elapsed_ns = 1)
BREAK(lapic_counting, record.lapic[1].timer_counting = 1)
BREAK(lapic_deadline, record.lapic[0].tsc_deadline = 1)
BREAK(lapic_discarded, record.lapic[0].timer.discarded_last = 1)

static void test_records(void)
{
    static const struct {
        const char *field;
        void (*break_it)(void);
    } rows[] = {
        {"pit.count", break_pit_count},
        {"pit.next_count", break_pit_next},
        {"pit.mode", break_pit_mode},
        {"vpt.held_ticks", break_pit_held},
        {"vpt.pending", break_pit_pending},
        {"vpt.policy", break_pit_policy},
        {"rtc.second_elapsed_ns", break_rtc_second},
        {"rtc.periodic_seen", break_rtc_seen},
        {"rtc.register_a", break_rtc_a},
        {"vpt.awaits", break_rtc_awaits},
        {"hpet.phase_ns", break_hpet_phase},
        {"hpet.timer.remaining_ns", break_hpet_remaining},
        {"hpet.timer.config", break_hpet_route},
        {"hpet.timer.comparator", break_hpet_narrow},
        {"vpt.pending", break_hpet_pending},
        {"vpt.next_issue_ns", break_hpet_next},
        {"acpi.timer_wraps", break_pm_wraps},
        {"lapic.divide", break_lapic_divide},
        {"lapic.timer_elapsed_ns", break_lapic_elapsed},
        {"lapic.timer_counting", break_lapic_counting},
        {"lapic.tsc_deadline", break_lapic_deadline},
        {"vpt.discarded_last", break_lapic_discarded},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        struct rig *rig = busy();
        const char *field = "";

        hv_platform_save(&rig->platform, &record);
        TAP_EQ(hv_platform_load(&rig->platform, &record, &field), 0);
        rows[i].break_it();
        TAP_EQ(hv_platform_load(&rig->platform, &record, &field), -EPROTO);
        TAP_STR(field, rows[i].field);
    }
}

/* A record of a time when the machine was younger: what ticked since holds nothing up. */
static void test_younger(void)
{
    struct rig *rig;
    const char *field = "";

    rig_clock_policy = HV_CLOCK_FREEZE;
    rig = start();
    rig_clock_policy = HV_CLOCK_ADVANCE;
    rig_mmio_write(rig, HPET_CONFIG, 4, 1);
    program_ms(rig, 0, 100);
    hv_platform_save(&rig->platform, &record);
    TAP_EQ(issued(rig, 1000), 1000);
    hv_platform_pause(&rig->platform);
    TAP_EQ(hv_platform_load(&rig->platform, &record, &field), 0);
    hv_platform_resume(&rig->platform);
    TAP_EQ(issued(rig, 10), 10);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"bad-input.hpet-period-0", test_hpet_period_0},
        {"bad-input.hpet-comparator-in-the-past", test_hpet_past},
        {"bad-input.hpet-far-first", test_hpet_far_first},
        {"bad-input.hpet-wrap", test_hpet_wrap},
        {"bad-input.pit-reload-races", test_pit_reload},
        {"bad-input.rtc-rate-1", test_rtc_rate_1},
        {"bad-input.lapic-divide", test_lapic_divide},
        {"bad-input.x2apic-reserved-bits", test_x2apic_reserved_bits},
        {"bad-input.period-floor", test_period_floor},
        {"bad-input.floor-hurried", test_floor_hurried},
        {"bad-input.one-shots", test_one_shots},
        {"bad-input.timer-records", test_records},
        {"bad-input.younger-record", test_younger},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
