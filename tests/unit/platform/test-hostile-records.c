/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Records of timers with fields that nobody has written: refused with the field's name, or a machine
 * whose timers keep the floor and the law of their ticks, and whose own record can be loaded.
 */
#include "unit/platform/rig-cmos.h"
#include "unit/platform/rig-irq.h"

#include <errno.h>

#define SPAN_MS 10u
/* What a timer can have the worker look for in that: its ticks, with a wrap and a late one. */
#define LOOKS   (SPAN_MS * HV_NS_PER_MS / HV_VPT_PERIOD_FLOOR_NS + 3)

static struct hv_platform_record record, broken;

/* The parts of it that timers are in. */
static const struct {
    size_t offset, bytes;
} parts[] = {
#define PART(field)                                         \
    {                                                       \
        offsetof(struct hv_platform_record, field),         \
            sizeof(((struct hv_platform_record *)0)->field) \
    }
    PART(clock),    PART(pit),      PART(rtc),    PART(hpet), PART(acpi),
    PART(lapic[0]), PART(lapic[1]), PART(ioapic), PART(pic),
#undef PART
};

static uint64_t any_value(uint64_t old)
{
    switch (tap_rng() % 10) {
    case 0:
        return 0;
    case 1:
        return UINT64_MAX - tap_rng() % 4;
    case 2:
        return UINT64_C(1) << tap_rng() % 64;
    case 3:
        return (UINT64_C(1) << tap_rng() % 64) - 1;
    case 4:
        return old + tap_rng() % 5 - 2;
    case 5:
        return old ^ UINT64_C(1) << tap_rng() % 64;
    case 6:
        return tap_rng() % 8;
    default:
        return tap_rng() >> tap_rng() % 64;
    }
}

/* A whole number at a place where one may stand. */
static void break_one(void)
{
    static const size_t widths[] = {1, 4, 8, 8};
    size_t part = tap_rng() % HV_ARRAY_LEN(parts);
    size_t width = widths[tap_rng() % HV_ARRAY_LEN(widths)];
    size_t at = parts[part].offset + tap_rng() % (parts[part].bytes / width) * width;
    uint64_t value = 0;

    memcpy(&value, (const uint8_t *)&broken + at, width);
    value = any_value(value);
    memcpy((uint8_t *)&broken + at, &value, width);
}

static void program(struct rig *rig)
{
    static const enum hv_vpt_source sources[] = {HV_VPT_PIT,   HV_VPT_RTC,   HV_VPT_LAPIC,
                                                 HV_VPT_HPET0, HV_VPT_HPET1, HV_VPT_HPET2};

    for (size_t i = 0; i < HV_ARRAY_LEN(sources); i++) {
        struct hv_vpt_policy policy = {.kind = (enum hv_tick_policy)(tap_rng() % HV_TICK_POLICIES)};

        policy.slew_per_cent = policy.kind == HV_TICK_CATCHUP ? 300 : 0;
        hv_platform_set_tick_policy(&rig->platform, sources[i], &policy);
    }
    rig_apic_enable(rig, 0);
    rig_apic_enable(rig, 1);
    rig_ioapic_write(rig, 20, 0x60);
    rig_ioapic_write(rig, 21, 0x8061);
    rig_outb(rig, 0x43, (uint8_t)(0x30 | (tap_rng() & 0xe)));
    rig_outb(rig, 0x40, (uint8_t)tap_rng());
    rig_outb(rig, 0x40, (uint8_t)(tap_rng() % 16));
    rig_cmos_write(rig, 0xb, (uint8_t)(tap_rng() & 0x76));
    for (unsigned i = 0; i < HV_HPET_TIMERS; i++) {
        uint64_t at = HV_HPET_BASE + 0x100 + 0x20 * i;
        uint32_t config = (20 + i % 2) << 9 | 4 | (tap_rng() & 0x10a);

        rig_mmio_write(rig, at, 4, config | 0x40);
        rig_mmio_write(rig, at + 8, 8, tap_rng() % 1000000);
        rig_mmio_write(rig, at + 8, 8, tap_rng() % 1000000);
    }
    rig_mmio_write(rig, HV_HPET_BASE + 0x10, 4, tap_rng() % 8 ? 1 : 3);
    for (unsigned i = 0; i < 2; i++) {
        rig_apic_write(rig, i, 0x3e0, tap_rng() & 0xb);
        rig_apic_write(rig, i, 0x320, (tap_rng() & 3) << 17 | 0xee);
        rig_apic_write(rig, i, 0x380, (uint32_t)(tap_rng() % 100000));
    }
    rig_sleep(rig, tap_rng() % (5 * HV_NS_PER_MS));
}

static void check_laws(const struct rig *rig)
{
    const struct hv_platform *platform = &rig->platform;

    hv_vpt_check(&platform->pit.timer);
    hv_vpt_check(&platform->rtc.periodic);
    for (unsigned i = 0; i < HV_HPET_TIMERS; i++) {
        hv_vpt_check(&platform->hpet.timer[i].vpt);
    }
    for (unsigned i = 0; i < RIG_VCPUS; i++) {
        hv_vpt_check(&platform->lapics.lapic[i].timer);
    }
}

/* The guest takes what comes. */
static void take(struct rig *rig)
{
    for (unsigned i = 0; i < 2; i++) {
        if (rig_take(rig, i) >= 0) {
            rig_eoi(rig, i);
        }
    }
    (void)rig_cmos_read(rig, 0xc);
    rig_mmio_write(rig, HV_HPET_BASE + 0x20, 8, 7);
}

/* A one-shot whose vector waits already, for another's sake: nothing of it is left over. */
static void test_merged(void)
{
    struct rig *rig = rig_new();
    const struct hv_vpt *timer = &rig->platform.lapics.lapic[0].timer;
    const char *field = "";

    rig_apic_enable(rig, 0);
    rig_apic_write(rig, 0, 0x320, 0xee);
    rig_apic_write(rig, 0, 0x300, 0x400ee); /* to itself */
    rig_apic_write(rig, 0, 0x380, 1000);
    rig_advance(rig, HV_NS_PER_MS);
    TAP_EQ(hv_load_relaxed(&timer->counters.fired), 1);
    TAP_EQ(hv_load_relaxed(&timer->counters.merged), 1);
    TAP_EQ(hv_load_relaxed(&timer->pending), 0);
    hv_platform_save(&rig->platform, &record);
    TAP_EQ(hv_platform_load(&rig->platform, &record, &field), 0);
}

static void test_records(void)
{
    unsigned loaded = 0;

    for (unsigned round = 0; round < 20000; round++) {
        static struct rig *rig;
        const char *field = NULL;
        unsigned looks;

        if (round % 50 == 0) {
            rig = rig_new();
            program(rig);
            hv_platform_pause(&rig->platform);
            hv_platform_save(&rig->platform, &record);
            hv_platform_resume(&rig->platform);
        }
        broken = record;
        for (unsigned i = 0; i <= tap_rng() % 3; i++) {
            break_one();
        }
        /* Close to the last moment that a record can have, it may be over when it is saved. */
        broken.clock.guest_ns &= ~(UINT64_C(1) << 61);
        hv_platform_pause(&rig->platform);
        if (hv_platform_load(&rig->platform, &broken, &field) != 0) {
            TAP_OK(field != NULL);
            hv_platform_resume(&rig->platform);
            continue;
        }
        loaded++;
        hv_platform_resume(&rig->platform);
        check_laws(rig);
        looks = rig_looks(rig, SPAN_MS * HV_NS_PER_MS, 10 * (unsigned)LOOKS, take);
        if (looks > 8 * LOOKS) {
            tap_fail(__FILE__, __LINE__, "round %u: timers fired %u times", round, looks);
            return;
        }
        check_laws(rig);
        hv_platform_pause(&rig->platform);
        hv_platform_save(&rig->platform, &broken);
        if (hv_platform_load(&rig->platform, &broken, &field) != 0) {
            tap_fail(__FILE__, __LINE__, "round %u: own record refused: %s", round, field);
        }
        hv_platform_resume(&rig->platform);
    }
    TAP_OK(loaded > 1000);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"platform.hostile-records.merged", test_merged},
        {"platform.hostile-records.timers", test_records},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
