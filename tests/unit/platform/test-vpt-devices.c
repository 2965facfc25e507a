/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What all devices owe their timers, device by device: PIT, RTC, HPET and local APIC, each ticking
 * once a millisecond or so with a backlog that is kept.
 */
#include "lib/threads.h"
#include "platform/rtc-calendar.h"
#include "sync/race.h"
#include "unit/platform/rig-cmos.h"
#include "unit/platform/rig-irq.h"

#define MS              HV_NS_PER_MS

#define HPET_CONFIG     (HV_HPET_BASE + 0x10)
#define HPET_TIMER      (HV_HPET_BASE + 0x100)
#define HPET_COMPARATOR (HV_HPET_BASE + 0x108)

struct source {
    const char *name;
    enum hv_vpt_source id;
    int vector;
    /* Have it tick: route and unmask its interrupt. */
    void (*begin)(struct rig *rig);
    /* Write again what it ticks by. */
    void (*rewrite)(struct rig *rig);
    /* Have it tick at half the rate. */
    void (*slow_down)(struct rig *rig);
};

static void write_pit(struct rig *rig, uint16_t count)
{
    rig_outb(rig, 0x43, 0x34);
    rig_outb(rig, 0x40, (uint8_t)count);
    rig_outb(rig, 0x40, (uint8_t)(count >> 8));
}

static void rewrite_pit(struct rig *rig)
{
    write_pit(rig, 1193);
    /* While it counts: that takes over at the end of the cycle. */
    rig_outb(rig, 0x40, 1193 & 0xff);
    rig_outb(rig, 0x40, 1193 >> 8);
}

static void begin_pit(struct rig *rig)
{
    rig_pic_start(rig, 0, true);
    write_pit(rig, 1193);
}

static void slow_pit(struct rig *rig)
{
    write_pit(rig, 2386);
}

static void rewrite_rtc(struct rig *rig)
{
    rig_cmos_write(rig, RTC_A, RTC_A_DIVIDER_32K | 6);
    rig_cmos_write(rig, RTC_B, RTC_B_24H | RTC_B_PIE);
    rig_cmos_write(rig, RTC_B, RTC_B_24H | RTC_B_PIE | RTC_B_AIE);
    rig_cmos_write(rig, RTC_B, RTC_B_24H | RTC_B_PIE);
}

static void begin_rtc(struct rig *rig)
{
    rig_pic_start(rig, 0, true);
    rig_pic_start(rig, 1, true);
    rewrite_rtc(rig);
}

static void slow_rtc(struct rig *rig)
{
    rig_cmos_write(rig, RTC_A, RTC_A_DIVIDER_32K | 7);
}

static void rewrite_hpet(struct rig *rig)
{
    rig_mmio_write(rig, HPET_TIMER, 4, 20 << 9 | 0x4c); /* periodic, value set, interrupt */
    rig_mmio_write(rig, HPET_CONFIG, 4, 1);
    rig_mmio_write(rig, HPET_TIMER, 4, 20 << 9 | 0x0c);
    rig_mmio_write(rig, HPET_COMPARATOR, 4, 100000);
}

static void begin_hpet(struct rig *rig)
{
    rig_apic_enable(rig, 0);
    rig_ioapic_write(rig, 20, 0x60);
    rig_mmio_write(rig, HPET_TIMER, 4, 20 << 9 | 0x4c);
    rig_mmio_write(rig, HPET_COMPARATOR, 8, 100000);
    rig_mmio_write(rig, HPET_TIMER, 4, 20 << 9 | 0x0c);
    rig_mmio_write(rig, HPET_COMPARATOR, 8, 100000);
    rig_mmio_write(rig, HPET_CONFIG, 4, 1);
}

static void slow_hpet(struct rig *rig)
{
    rig_mmio_write(rig, HPET_COMPARATOR, 4, 200000);
}

static void rewrite_lapic(struct rig *rig)
{
    rig_apic_write(rig, 0, 0x3e0, 0xb);
    rig_apic_write(rig, 0, 0x320, 0x200ee);
    rig_apic_write(rig, 0, 0x380, 25000);
}

static void begin_lapic(struct rig *rig)
{
    rig_apic_enable(rig, 0);
    rewrite_lapic(rig);
}

static void slow_lapic(struct rig *rig)
{
    rig_apic_write(rig, 0, 0x3e0, 0);
}

static const struct source sources[] = {
    {"pit", HV_VPT_PIT, 0x30, begin_pit, rewrite_pit, slow_pit},
    {"rtc", HV_VPT_RTC, 0x38, begin_rtc, rewrite_rtc, slow_rtc},
    {"hpet", HV_VPT_HPET0, 0x60, begin_hpet, rewrite_hpet, slow_hpet},
    {"lapic", HV_VPT_LAPIC, 0xee, begin_lapic, rewrite_lapic, slow_lapic},
};

static const struct hv_vpt *timer_of(struct rig *rig, const struct source *source)
{
    switch (source->id) {
    case HV_VPT_PIT:
        return &rig->platform.pit.timer;
    case HV_VPT_RTC:
        return &rig->platform.rtc.periodic;
    case HV_VPT_HPET0:
    case HV_VPT_HPET1:
    case HV_VPT_HPET2:
        return &rig->platform.hpet.timer[source->id - HV_VPT_HPET0].vpt;
    case HV_VPT_LAPIC:
    case HV_VPT_PM:
    case HV_VPT_SOURCES:
        break;
    }
    return &rig->platform.lapics.lapic[0].timer;
}

static uint64_t pending_of(struct rig *rig, const struct source *source)
{
    return hv_load_relaxed(&timer_of(rig, source)->pending);
}

static struct rig *begin(const struct source *source)
{
    const struct hv_vpt_policy delay = {.kind = HV_TICK_DELAY};
    struct rig *rig = rig_new();

    hv_platform_set_tick_policy(&rig->platform, source->id, &delay);
    source->begin(rig);
    return rig;
}

/* The guest takes what is there, and sees to it. Returns how many ticks of the source that was. */
static unsigned take_all(struct rig *rig, const struct source *source)
{
    unsigned count = 0;
    int vector;

    while ((vector = rig_take(rig, 0)) >= 0) {
        count += vector == source->vector;
        if (vector == source->vector && source->id == HV_VPT_RTC) {
            (void)rig_cmos_read(rig, RTC_C);
        }
        rig_eoi(rig, 0);
        rig_run_timers(rig);
    }
    return count;
}

/* It runs for @span_ns, and takes each tick within 50 µs. */
static unsigned run_for(struct rig *rig, const struct source *source, uint64_t span_ns)
{
    unsigned count = 0;

    for (uint64_t passed = 0; passed < span_ns; passed += 50 * HV_NS_PER_US) {
        rig_advance(rig, 50 * HV_NS_PER_US);
        count += take_all(rig, source);
    }
    hv_vpt_check(timer_of(rig, source));
    return count;
}

/* Registers that are written again, as they were: what waits is neither lost nor doubled. */
static void rewritten(const struct source *source)
{
    struct rig *rig = begin(source);
    const struct hv_vpt_counters *counters = &timer_of(rig, source)->counters;
    uint64_t taken, waits;

    rig_sleep(rig, 20 * MS + MS / 2);
    waits = pending_of(rig, source);
    TAP_OK(waits >= 20 && waits <= 22);
    for (unsigned i = 0; i < 3; i++) {
        source->rewrite(rig);
        TAP_EQ(pending_of(rig, source), waits);
    }
    taken = run_for(rig, source, 10 * MS);
    TAP_OK(taken >= 9 && taken <= 11);
    source->rewrite(rig);
    taken += run_for(rig, source, 10 * MS);
    TAP_OK(taken >= 19 && taken <= 21);
    TAP_EQ(hv_load_relaxed(&counters->accepted), taken);
    TAP_EQ(hv_load_relaxed(&counters->accepted) + pending_of(rig, source),
           hv_load_relaxed(&counters->fired));
    TAP_EQ(hv_load_relaxed(&counters->discarded), 0);
    /* At another rate: what was issued is taken, the rest is given up. */
    source->slow_down(rig);
    TAP_OK(pending_of(rig, source) <= 1);
    taken = run_for(rig, source, 20 * MS);
    TAP_OK(taken >= 9 && taken <= 11);
}

static void each_source(void (*test)(const struct source *source))
{
    for (size_t i = 0; i < HV_ARRAY_LEN(sources); i++) {
        test(&sources[i]);
        if (tap_failed()) {
            tap_note("source %s", sources[i].name);
            return;
        }
    }
}

static void test_rewritten(void)
{
    each_source(rewritten);
}

/* ---- by which way a tick is taken ---- */

#define PIN_VECTOR 0x31 /* of the I/O APIC's; the 8259A gives it to IRQ 1 */

/* A tick of the PIT is issued, its wire at both controllers; IRQ 1 is raised, too. */
static struct rig *raise_two(uint64_t entry)
{
    struct rig *rig = begin(&sources[0]);

    rig_apic_enable(rig, 0);
    rig_ioapic_write(rig, 2, entry);
    rig_advance(rig, MS + MS / 10);
    hv_platform_set_gsi(&rig->platform, 1, true);
    return rig;
}

static uint64_t accepted(struct rig *rig)
{
    return hv_load_relaxed(&rig->platform.pit.timer.counters.accepted);
}

static void test_ways(void)
{
    struct rig *rig = raise_two(PIN_VECTOR);

    /* By both, IRQ 1 by a vector that the tick has, too: only the I/O APIC's is the tick's. */
    TAP_EQ(rig_take(rig, 0), PIN_VECTOR);
    TAP_EQ(accepted(rig), 1);
    rig_eoi(rig, 0);
    rig_advance(rig, MS);
    TAP_EQ(rig_take(rig, 0), PIN_VECTOR);
    TAP_EQ(accepted(rig), 2);
    rig_advance(rig, MS);
    TAP_EQ(rig_take(rig, 0), 0x30); /* in service still: now the 8259A is asked */
    TAP_EQ(rig_take(rig, 0), 0x31);
    TAP_EQ(accepted(rig), 2);
    rig_eoi(rig, 0);
    TAP_EQ(rig_take(rig, 0), PIN_VECTOR);
    TAP_EQ(accepted(rig), 3);

    /* By the 8259A alone. */
    rig = raise_two(0x10000 | PIN_VECTOR);
    TAP_EQ(rig_take(rig, 0), 0x30);
    TAP_EQ(accepted(rig), 1);
    rig_advance(rig, MS);
    TAP_EQ(rig_take(rig, 0), 0x30);
    TAP_EQ(accepted(rig), 2);

    /* By the 8259A, whom an ExtINT message of the pin asks. */
    rig = raise_two(0x700);
    rig_apic_write(rig, 0, 0x350, 0x10700);
    TAP_EQ(rig_take(rig, 0), 0x30);
    TAP_EQ(accepted(rig), 1);
}

static void take_body(unsigned index, void *context)
{
    (void)index;
    hv_race_name_thread(1);
    (void)rig_take(context, 0);
}

/*
 * A tick that waits too long is raised again with the next one: before the vCPU takes it, or after
 * that and before it is told to whom it belongs. Each tick is taken once all the same.
 */
static void raised_again(const struct source *source, bool after)
{
    struct rig *rig = begin(source);
    const struct hv_vpt_counters *counters = &timer_of(rig, source)->counters;
    struct threads taking;
    uint64_t taken;

    rig_sleep(rig, 5 * MS + MS / 2);
    if (!after) {
        rig_sleep(rig, MS * 6 / 10);
    }
    hv_race_begin();
    hv_race_stop(1, "platform.acknowledged", 0);
    threads_start(&taking, 1, take_body, rig);
    TAP_OK(hv_race_await(1, "platform.acknowledged"));
    if (after) {
        rig_sleep(rig, MS * 6 / 10); /* the next point, before the next would be issued */
    }
    TAP_EQ(hv_load_relaxed(&counters->accepted), 0);
    hv_race_end();
    threads_join(&taking);
    TAP_EQ(timer_of(rig, source)->awaits, after); /* what was raised is the next one's */
    rig_eoi(rig, 0);
    taken = 1 + run_for(rig, source, 20 * MS);
    TAP_EQ(hv_load_relaxed(&counters->accepted), taken);
    TAP_EQ(hv_load_relaxed(&counters->fired), taken + pending_of(rig, source));
    TAP_OK(taken <= 22);
}

static void test_raised_again(void)
{
    if (!HV_CONFIG_RACE_POINTS) {
        tap_skip("this build has no race points");
        return;
    }
    for (unsigned after = 0; after < 2; after++) {
        raised_again(&sources[0], after); /* by the 8259A */
        raised_again(&sources[2], after); /* by the I/O APIC */
    }
}

/* ---- masked ---- */

/* A tick while its wire to vCPU 1 is masked; then vCPU 0 unmasks that, and vCPU 1 has to be woken. */
static void unmask_after_tick(const struct source *source, unsigned pin, uint64_t entry)
{
    const uint64_t to_1 = UINT64_C(1) << 56 | entry;
    struct rig *rig = begin(source);

    rig_apic_enable(rig, 0);
    rig_apic_enable(rig, 1);
    rig_ioapic_write(rig, pin, 0x10000 | to_1);
    rig_outb(rig, 0x21, 0xff);
    rig_advance(rig, 3 * MS);
    TAP_OK(pending_of(rig, source) > 0);
    TAP_EQ(rig_take(rig, 1), -1);
    rig->kicks[1] = 0;
    rig_ioapic_write(rig, pin, to_1);
    rig_advance(rig, MS);
    TAP_OK(rig->kicks[1] > 0);
    TAP_EQ(rig_take(rig, 1), (uint8_t)entry);
    TAP_EQ(hv_load_relaxed(&timer_of(rig, source)->counters.accepted), 1);
    hv_vpt_check(timer_of(rig, source));
}

/* The same by the 8259A, which keeps the edge of a pin that is masked. */
static void unmask_pic(const struct source *source)
{
    struct rig *rig = begin(source);

    rig_outb(rig, 0x21, 0xff);
    rig_advance(rig, 3 * MS);
    TAP_EQ(rig_take(rig, 0), -1);
    rig->kicks[0] = 0;
    rig_outb(rig, 0x21, 0x00);
    TAP_OK(rig->kicks[0] > 0);
    TAP_EQ(rig_take(rig, 0), source->vector);
}

/*
 * The 2009 case of Xen's: a vCPU that had halted for its timer was not woken by the unmasking. Not the
 * RTC by the I/O APIC: its wire stays high until register C is read, and there is no other edge.
 */
static void test_unmask_wakeup(void)
{
    unmask_after_tick(&sources[0], 2, 0x50);
    unmask_after_tick(&sources[2], 20, 0x60);
    unmask_pic(&sources[0]);
    unmask_pic(&sources[1]);
}

/* HPET timer 0, level-triggered, its pin masked: its wire stands, and is one interrupt when it opens. */
static void test_level_masked(void)
{
    struct rig *rig = begin(&sources[2]);
    const struct hv_vpt *vpt = timer_of(rig, &sources[2]);

    rig_ioapic_write(rig, 20, 0x18060);
    rig_mmio_write(rig, HPET_TIMER, 4, 20 << 9 | 0x0e);
    rig_advance(rig, 5 * MS + MS / 2);
    TAP_EQ(rig_take(rig, 0), -1);
    TAP_EQ(rig_mmio_read(rig, HV_HPET_BASE + 0x20, 4), 1);
    TAP_EQ(hv_load_relaxed(&vpt->counters.issued), 1);
    rig_ioapic_write(rig, 20, 0x8060);
    TAP_EQ(rig_take(rig, 0), 0x60);
    TAP_EQ(hv_load_relaxed(&vpt->counters.accepted), 1);
    rig_mmio_write(rig, HV_HPET_BASE + 0x20, 4, 1);
    rig_eoi(rig, 0);
    TAP_EQ(rig_take(rig, 0), -1);
    /* The backlog goes on once the status is cleared, one a period, each seen to. */
    TAP_EQ(hv_load_relaxed(&vpt->pending), 4);
    for (unsigned i = 0; i < 3; i++) {
        rig_advance(rig, MS);
        TAP_EQ(rig_take(rig, 0), 0x60);
        rig_mmio_write(rig, HV_HPET_BASE + 0x20, 4, 1);
        rig_eoi(rig, 0);
    }
    TAP_EQ(hv_load_relaxed(&vpt->counters.accepted), 4);
    hv_vpt_check(vpt);
}

/* ---- the local APIC's phase ---- */

/* Each period ends where it would have, whatever was between: in step with the count as it reads. */
static void check_phase(struct rig *rig, uint64_t origin_ns)
{
    const uint64_t passed = hv_clock_now(&rig->clock).v - origin_ns;
    const uint32_t count = rig_apic_read(rig, 0, 0x390);

    TAP_EQ(count, 25000 - passed % MS / HV_LAPIC_TICK_NS);
}

static void test_lapic_phase(void)
{
    static struct hv_timer_queue other;
    const struct hv_vpt_policy merge = {.kind = HV_TICK_MERGE};
    const struct source *lapic = &sources[3];
    struct rig *rig = begin(lapic);
    const uint64_t origin_ns = hv_clock_now(&rig->clock).v;
    struct hv_timer_queue *homes[] = {&other, &rig->queue};
    bool masked = false;

    hv_timer_queue_init(&other, &rig->clock, &rig->bell, 1);
    hv_platform_set_tick_policy(&rig->platform, HV_VPT_LAPIC, &merge);
    for (unsigned i = 0; i < 1000; i++) {
        uint64_t next;

        /* Ticks are missed, or none. */
        hv_clock_advance(&rig->clock, tap_rng() % (tap_rng() % 4 ? MS : 10 * MS));
        if (tap_rng() % 2) {
            masked = !masked;
            rig_apic_write(rig, 0, 0x320, masked ? 0x300ee : 0x200ee);
        }
        if (tap_rng() % 2) {
            hv_platform_rehome_timers(&rig->platform, 0, homes[tap_rng() % 2]);
        }
        (void)take_all(rig, lapic);
        check_phase(rig, origin_ns);
        /* The vCPU comes to what it has missed; from there on the next is on the grid. */
        hv_timer_queue_run(&other, hv_clock_now(&rig->clock));
        rig_run_timers(rig);
        (void)take_all(rig, lapic);
        next = hv_load_relaxed(&timer_of(rig, lapic)->due_ns);
        TAP_EQ((next - origin_ns) % MS, 0);
        hv_clock_advance(&rig->clock, next - hv_clock_now(&rig->clock).v - 1);
        hv_timer_queue_run(&other, hv_clock_now(&rig->clock));
        rig_run_timers(rig);
        TAP_EQ(take_all(rig, lapic), 0);
        hv_clock_advance(&rig->clock, 1);
        hv_timer_queue_run(&other, hv_clock_now(&rig->clock));
        rig_run_timers(rig);
        TAP_EQ(take_all(rig, lapic), !masked);
        check_phase(rig, origin_ns);
    }
    TAP_EQ(hv_load_relaxed(&timer_of(rig, lapic)->counters.fired),
           (hv_clock_now(&rig->clock).v - origin_ns) / MS);
    hv_platform_rehome_timers(&rig->platform, 0, &rig->queue);
    hv_timer_queue_finish(&other);
}

/* ---- saved as of one moment ---- */

/* A one-shot of the local APIC and of the HPET, in a millisecond; the PM timer's half, later. */
static void arm_one_shots(struct rig *rig)
{
    rig_apic_enable(rig, 0);
    rig_ioapic_write(rig, 20, 0x60);
    rig_apic_write(rig, 0, 0x3e0, 0xb);
    rig_apic_write(rig, 0, 0x320, 0xee);
    rig_apic_write(rig, 0, 0x380, 25000);
    rig_mmio_write(rig, HPET_CONFIG, 4, 1);
    rig_mmio_write(rig, HPET_TIMER, 4, 20 << 9 | 0x04);
    rig_mmio_write(rig, HPET_COMPARATOR, 8, 100000);
    rig_access_write(rig, HV_BUS_PORT, 0, HV_ACPI_EVENT_PORT + 2, 2, 1);
}

static struct hv_platform_record saved;

static void save_body(unsigned index, void *context)
{
    (void)index;
    hv_race_name_thread(1);
    hv_platform_save(&((struct rig *)context)->platform, &saved);
}

/* Time goes on while @point is passed: the record is as of before, and no tick comes twice or never. */
static void saved_while_it_falls_due(const char *point)
{
    struct rig *rig = rig_new();
    struct threads saving;
    const char *field;

    arm_one_shots(rig);
    hv_race_begin();
    hv_race_stop(1, point, 0);
    threads_start(&saving, 1, save_body, rig);
    TAP_OK(hv_race_await(1, point));
    hv_clock_advance(&rig->clock, 2000 * HV_NS_PER_S);
    hv_race_end();
    threads_join(&saving);

    rig = rig_new();
    if (hv_platform_load(&rig->platform, &saved, &field) < 0) {
        tap_fail(__FILE__, __LINE__, "%s: own record refused for %s", point, field);
        return;
    }
    for (unsigned i = 0; i < 2; i++) {
        rig_advance(rig, 5 * MS);
        while (rig_take(rig, 0) >= 0) {
            rig_eoi(rig, 0);
        }
    }
    TAP_EQ(hv_load_relaxed(&rig->platform.hpet.timer[0].vpt.counters.accepted) +
               saved.hpet.timer[0].vpt.awaits,
           1);
    TAP_EQ(hv_load_relaxed(&rig->platform.lapics.lapic[0].timer.counters.accepted), 1);
}

static void test_saved_at_once(void)
{
    static const char *const points[] = {"hpet.expired", "acpi.settled", "lapic.settled"};

    if (!HV_CONFIG_RACE_POINTS) {
        tap_skip("this build has no race points");
        return;
    }
    for (size_t i = 0; i < HV_ARRAY_LEN(points); i++) {
        saved_while_it_falls_due(points[i]);
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"vpt.rewritten-registers", test_rewritten},
        {"vpt.ways", test_ways},
        {"vpt.raised-again", test_raised_again},
        {"vpt.unmask-wakeup", test_unmask_wakeup},
        {"vpt.level-masked", test_level_masked},
        {"vpt.lapic-phase", test_lapic_phase},
        {"vpt.saved-as-of-one-moment", test_saved_at_once},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
