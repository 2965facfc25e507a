/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The HPET: counter, comparators, routes, legacy replacement. A tick is 10 ns. */
#include "platform/hpet.h"

#include <string.h>

#include "lib/tap.h"
#include "unit/platform/rig-cmos.h"
#include "unit/platform/rig-irq.h"

#define CONFIG     0x10u
#define STATUS     0x20u
#define COUNTER    0xf0u

#define LEVEL      0x002u
#define INTERRUPT  0x004u
#define PERIODIC   0x008u
#define SET_VALUE  0x040u
#define NARROW     0x100u
#define ROUTE(pin) ((uint32_t)(pin) << 9)

#define MS         UINT64_C(100000) /* ticks */

static uint64_t read64(struct rig *rig, uint32_t offset)
{
    return rig_mmio_read(rig, HV_HPET_BASE + offset, 8);
}

static void write64(struct rig *rig, uint32_t offset, uint64_t value)
{
    rig_mmio_write(rig, HV_HPET_BASE + offset, 8, value);
}

static uint32_t timer_register(unsigned timer, uint32_t offset)
{
    return 0x100 + timer * 0x20 + offset;
}

static void configure(struct rig *rig, unsigned timer, uint32_t value)
{
    write64(rig, timer_register(timer, 0), value);
}

static void compare(struct rig *rig, unsigned timer, uint64_t value)
{
    write64(rig, timer_register(timer, 8), value);
}

/* Pins 20 to 23 as vectors 60h to 63h, pins 2 and 8 (IRQ 0 and 8) as 50h and 58h, edges. */
static struct rig *start(void)
{
    struct rig *rig = rig_new();

    rig_apic_enable(rig, 0);
    for (unsigned i = 0; i < 4; i++) {
        rig_ioapic_write(rig, 20 + i, 0x60 + i);
    }
    rig_ioapic_write(rig, 2, 0x50);
    rig_ioapic_write(rig, 8, 0x58);
    write64(rig, CONFIG, 1);
    return rig;
}

static int take(struct rig *rig)
{
    int vector = rig_take(rig, 0);

    if (vector >= 0) {
        rig_eoi(rig, 0);
    }
    return vector;
}

/* Take all that waits; how many were there? */
static unsigned drain(struct rig *rig)
{
    unsigned count = 0;

    while (take(rig) >= 0) {
        count++;
    }
    return count;
}

static void test_registers(void)
{
    struct rig *rig = rig_new();

    TAP_EQ(read64(rig, 0), UINT64_C(0x009896808086a201));
    TAP_EQ(rig_mmio_read(rig, HV_HPET_BASE + 4, 4), 10000000);
    TAP_EQ(read64(rig, CONFIG), 0);
    TAP_EQ(read64(rig, timer_register(0, 0)), UINT64_C(0x00f0000000000030));
    TAP_EQ(read64(rig, timer_register(2, 8)), UINT64_MAX);
    configure(rig, 1, UINT32_MAX & ~ROUTE(31));
    TAP_EQ(read64(rig, timer_register(1, 0)), UINT64_C(0x00f000000000013e));
    TAP_EQ(read64(rig, timer_register(3, 0)), 0);
    TAP_EQ(read64(rig, 0x3f8), 0);
    rig_mmio_write(rig, HV_HPET_BASE + CONFIG, 1, 1); /* too narrow */
    TAP_EQ(read64(rig, CONFIG), 0);
    rig_mmio_write(rig, HV_HPET_BASE + CONFIG, 4, UINT32_MAX);
    TAP_EQ(read64(rig, CONFIG), 3);
}

static void test_counter(void)
{
    struct rig *rig = rig_new();

    write64(rig, COUNTER, UINT64_C(0x1fffffff0));
    rig_advance(rig, 1000);
    TAP_EQ(read64(rig, COUNTER), UINT64_C(0x1fffffff0));
    write64(rig, CONFIG, 1);
    rig_advance(rig, 205);
    TAP_EQ(read64(rig, COUNTER), UINT64_C(0x200000004));
    TAP_EQ(rig_mmio_read(rig, HV_HPET_BASE + COUNTER, 4), 4);
    TAP_EQ(rig_mmio_read(rig, HV_HPET_BASE + COUNTER + 4, 4), 2);
    write64(rig, COUNTER, 7); /* running: ignored */
    TAP_EQ(read64(rig, COUNTER), UINT64_C(0x200000004));
    write64(rig, CONFIG, 0);
    rig_advance(rig, 1000);
    TAP_EQ(read64(rig, COUNTER), UINT64_C(0x200000004));
    write64(rig, CONFIG, 1);
    rig_advance(rig, 10);
    TAP_EQ(read64(rig, COUNTER), UINT64_C(0x200000005));
}

static void test_one_shot(void)
{
    struct rig *rig = start();

    configure(rig, 0, INTERRUPT | ROUTE(20));
    compare(rig, 0, read64(rig, COUNTER) + MS);
    rig_advance(rig, HV_NS_PER_MS - 1);
    TAP_EQ(take(rig), -1);
    rig_advance(rig, 1);
    TAP_EQ(take(rig), 0x60);
    rig_advance(rig, 100 * HV_NS_PER_S);
    TAP_EQ(take(rig), -1);
    /* In the past: at once. */
    compare(rig, 0, 5);
    rig_advance(rig, 0);
    TAP_EQ(take(rig), 0x60);
    /* Further than any machine lives. */
    compare(rig, 0, UINT64_MAX);
    rig_advance(rig, 100 * HV_NS_PER_S);
    TAP_EQ(take(rig), -1);
    /* Written before the counter runs, with the counter set between. */
    write64(rig, CONFIG, 0);
    compare(rig, 0, 2 * MS);
    write64(rig, COUNTER, MS);
    rig_advance(rig, HV_NS_PER_S);
    TAP_EQ(take(rig), -1);
    write64(rig, CONFIG, 1);
    rig_advance(rig, HV_NS_PER_MS - 1);
    TAP_EQ(take(rig), -1);
    rig_advance(rig, 1);
    TAP_EQ(take(rig), 0x60);
}

/* Report 37, Xen's b144cf45d5: a 32-bit comparator in the past fires at once, not after the wrap (43 s). */
static void test_narrow_one_shot(void)
{
    static const uint32_t behind[] = {1, 100, 1000000, 500000000};
    struct rig *rig = start();

    rig_advance(rig, 50 * HV_NS_PER_S); /* beyond 32 bits */
    configure(rig, 0, INTERRUPT | NARROW | ROUTE(20));
    for (size_t i = 0; i < HV_ARRAY_LEN(behind); i++) {
        compare(rig, 0, (uint32_t)read64(rig, COUNTER) - behind[i]);
        rig_advance(rig, 0);
        TAP_EQ(take(rig), 0x60);
    }
    /* Ahead, over the wrap. */
    compare(rig, 0, (uint32_t)(read64(rig, COUNTER) + 0x7fffffff));
    TAP_EQ(read64(rig, timer_register(0, 8)) >> 32, 0);
    rig_advance(rig, UINT64_C(0x7fffffff) * 10 - 1);
    TAP_EQ(take(rig), -1);
    rig_advance(rig, 1);
    TAP_EQ(take(rig), 0x60);
    /* And, as the hardware does, again when the counter comes around. */
    rig_advance(rig, (UINT64_C(1) << 32) * 10 - 1);
    TAP_EQ(take(rig), -1);
    rig_advance(rig, 1);
    TAP_EQ(take(rig), 0x60);
}

/* Report 37 over a save: what has passed by then fires at once, what has not does in its time. */
static void test_saved_late(void)
{
    struct hv_hpet_record record;
    struct rig *rig = start();
    struct hv_hpet *hpet = &rig->platform.hpet;

    /* The match passes, and the machine stops before its timer fires: it is delivered into the
     * record's chips. */
    configure(rig, 0, INTERRUPT | NARROW | ROUTE(20));
    compare(rig, 0, (uint32_t)(read64(rig, COUNTER) + MS));
    hv_clock_advance(&rig->clock, 2 * HV_NS_PER_MS);
    hv_platform_pause(&rig->platform);
    TAP_EQ(take(rig), -1);
    hv_hpet_save(hpet, &record);
    TAP_EQ(take(rig), 0x60);
    /* It is ahead when it is saved, and comes after the load. */
    compare(rig, 0, (uint32_t)(read64(rig, COUNTER) + MS));
    hv_hpet_save(hpet, &record);
    rig = start();
    TAP_OK(hv_hpet_check(&record) == NULL);
    hv_hpet_load(hpet, &record);
    rig_advance(rig, HV_NS_PER_MS - 1);
    TAP_EQ(take(rig), -1);
    rig_advance(rig, 1);
    TAP_EQ(take(rig), 0x60);
}

static void test_periodic(void)
{
    struct rig *rig = start();
    uint64_t begin;

    configure(rig, 0, INTERRUPT | PERIODIC | SET_VALUE | ROUTE(21));
    TAP_EQ(read64(rig, timer_register(0, 0)) & SET_VALUE, 0); /* write-only */
    begin = read64(rig, COUNTER);
    compare(rig, 0, begin + 3 * MS);
    compare(rig, 0, MS); /* VAL_SET was for the first write: this is the period */
    TAP_EQ(read64(rig, timer_register(0, 8)), begin + 3 * MS);
    rig_advance(rig, 3 * HV_NS_PER_MS - 1);
    TAP_EQ(take(rig), -1);
    rig_advance(rig, 1);
    TAP_EQ(take(rig), 0x61);
    TAP_EQ(read64(rig, timer_register(0, 8)), begin + 4 * MS);
    for (unsigned i = 0; i < 50; i++) {
        rig_advance(rig, HV_NS_PER_MS);
        TAP_EQ(take(rig), 0x61);
    }
    rig_sleep(rig, 10 * HV_NS_PER_MS + 30);
    TAP_EQ(take(rig), 0x61);
    TAP_EQ(take(rig), -1);
    TAP_EQ(read64(rig, timer_register(0, 8)), begin + 64 * MS);
    /* A new period from the next match on. */
    compare(rig, 0, 2 * MS);
    rig_advance(rig, HV_NS_PER_MS - 30);
    TAP_EQ(take(rig), 0x61);
    rig_advance(rig, 2 * HV_NS_PER_MS - 1);
    TAP_EQ(take(rig), -1);
    rig_advance(rig, 1);
    TAP_EQ(take(rig), 0x61);
}

static void test_narrow_periodic(void)
{
    struct rig *rig = start();

    rig_advance(rig, 42 * HV_NS_PER_S);
    configure(rig, 0, INTERRUPT | PERIODIC | SET_VALUE | NARROW | ROUTE(21));
    compare(rig, 0, (uint32_t)(read64(rig, COUNTER) + 100 * MS));
    compare(rig, 0, 100 * MS);
    for (unsigned i = 0; i < 30; i++) { /* over the wrap at 42.9 s */
        rig_advance(rig, 100 * HV_NS_PER_MS - 1);
        TAP_EQ(take(rig), -1);
        rig_advance(rig, 1);
        TAP_EQ(take(rig), 0x61);
        TAP_EQ(read64(rig, timer_register(0, 8)), (uint32_t)(read64(rig, COUNTER) + 100 * MS));
    }
}

static void test_extreme_periods(void)
{
    struct rig *rig = start();

    configure(rig, 0, INTERRUPT | PERIODIC | SET_VALUE | ROUTE(21));
    compare(rig, 0, 0); /* comparator and period zero: once, and no more */
    rig_advance(rig, HV_NS_PER_S);
    TAP_EQ(take(rig), 0x61);
    rig_advance(rig, HV_NS_PER_S);
    TAP_EQ(take(rig), -1);
    configure(rig, 0, INTERRUPT | PERIODIC | SET_VALUE | ROUTE(21));
    compare(rig, 0, read64(rig, COUNTER) + 1);
    compare(rig, 0, 1); /* 10 ns: served every 100 µs */
    rig_advance(rig, HV_NS_PER_MS);
    TAP_OK(hv_load_relaxed(&rig->platform.hpet.timer[0].vpt.counters.issued) <= 12);
    TAP_OK(read64(rig, timer_register(0, 8)) > read64(rig, COUNTER));
    compare(rig, 0, UINT64_MAX);
    rig_advance(rig, HV_NS_PER_S);
}

static void test_level(void)
{
    struct rig *rig = start();

    rig_ioapic_write(rig, 22, 0x62 | 0x8000);
    configure(rig, 1, INTERRUPT | LEVEL | ROUTE(22));
    compare(rig, 1, read64(rig, COUNTER) + 10);
    rig_advance(rig, 100);
    TAP_EQ(read64(rig, STATUS), 2);
    TAP_EQ(rig_take(rig, 0), 0x62);
    rig_eoi(rig, 0);
    TAP_EQ(rig_take(rig, 0), 0x62); /* still asserted */
    write64(rig, STATUS, 1);        /* another timer's */
    TAP_EQ(read64(rig, STATUS), 2);
    write64(rig, STATUS, 2);
    TAP_EQ(read64(rig, STATUS), 0);
    rig_eoi(rig, 0);
    TAP_EQ(rig_take(rig, 0), -1);
    /* Without its enable the status is set, and the interrupt follows when it is enabled. */
    configure(rig, 1, LEVEL | ROUTE(22));
    compare(rig, 1, read64(rig, COUNTER) + 10);
    rig_advance(rig, 100);
    TAP_EQ(read64(rig, STATUS), 2);
    TAP_EQ(rig_take(rig, 0), -1);
    configure(rig, 1, INTERRUPT | LEVEL | ROUTE(22));
    TAP_EQ(rig_take(rig, 0), 0x62);
    /* Moved to another pin while asserted: the old wire falls. */
    configure(rig, 1, INTERRUPT | LEVEL | ROUTE(23));
    TAP_EQ(rig->platform.ioapic.lines >> 20, 8);
    configure(rig, 1, INTERRUPT | ROUTE(23)); /* to edges: the status goes */
    TAP_EQ(rig->platform.ioapic.lines >> 20, 0);
    TAP_EQ(read64(rig, STATUS), 0);
}

/* Report 39, Xen's fb0e37df71 and 472a13988a: route bits are kept under legacy replacement. */
static void test_legacy(void)
{
    struct rig *rig = start();

    /* The RTC's own interrupt, for comparison. */
    rig_cmos_write(rig, 0x0b, 0x12);
    rig_advance(rig, HV_NS_PER_S);
    TAP_EQ(take(rig), 0x58);
    (void)rig_cmos_read(rig, 0x0c);
    write64(rig, CONFIG, 3);
    configure(rig, 0, INTERRUPT | ROUTE(20));
    configure(rig, 1, INTERRUPT | ROUTE(23));
    TAP_EQ(read64(rig, timer_register(0, 0)) & ROUTE(31), ROUTE(20));
    TAP_EQ(read64(rig, timer_register(1, 0)) & ROUTE(31), ROUTE(23));
    configure(rig, 1, INTERRUPT | ROUTE(5)); /* not supported: reads back as it was */
    TAP_EQ(read64(rig, timer_register(1, 0)) & ROUTE(31), ROUTE(23));
    compare(rig, 0, read64(rig, COUNTER) + 100);
    rig_advance(rig, 1000);
    TAP_EQ(take(rig), 0x50);
    compare(rig, 1, read64(rig, COUNTER) + 100);
    rig_advance(rig, 1000);
    TAP_EQ(take(rig), 0x58);
    /* IRQ 8 comes from timer 1 only, IRQ 0 from timer 0 only. */
    rig_outb(rig, 0x43, 0x34);
    rig_outb(rig, 0x40, 0xa9);
    rig_outb(rig, 0x40, 0x04);
    rig_advance(rig, 2 * HV_NS_PER_S);
    TAP_EQ(take(rig), -1);
    /* Timer 2 keeps its route. */
    configure(rig, 2, INTERRUPT | ROUTE(21));
    compare(rig, 2, read64(rig, COUNTER) + 100);
    rig_advance(rig, 1000);
    TAP_EQ(take(rig), 0x61);
    write64(rig, CONFIG, 1);
    rig_advance(rig, 2 * HV_NS_PER_MS);
    TAP_EQ(take(rig), 0x50); /* the PIT is back */
}

static void test_record(void)
{
    struct hv_hpet_record record, again;

    for (unsigned round = 0; round < 500; round++) {
        struct rig *rig = start();
        struct hv_hpet *hpet = &rig->platform.hpet;
        uint64_t first[8];
        unsigned kicks;

        for (unsigned i = 0; i < 8; i++) {
            unsigned timer = (unsigned)(tap_rng() % 3);

            switch (tap_rng() % 4) {
            case 0:
                configure(rig, timer, (uint32_t)(tap_rng() & 0x14e) | ROUTE(20 + tap_rng() % 4));
                break;
            case 1:
                compare(rig, timer,
                        tap_rng() % 2 ? tap_rng() % MS : read64(rig, COUNTER) + tap_rng() % MS);
                break;
            case 2:
                write64(rig, CONFIG, tap_rng() % 4);
                break;
            default:
                write64(rig, STATUS, tap_rng() % 8);
                break;
            }
            rig_advance(rig, tap_rng() % HV_NS_PER_MS);
        }
        hv_hpet_save(hpet, &record);
        if (hv_hpet_check(&record)) {
            tap_fail(__FILE__, __LINE__, "own record refused: %s", hv_hpet_check(&record));
        }
        kicks = 0;
        drain(rig);
        for (unsigned i = 0; i < 20; i++) {
            rig_advance(rig, 77777);
            kicks += drain(rig);
        }
        for (unsigned i = 0; i < 3; i++) {
            first[i] = read64(rig, timer_register(i, 8));
            first[3 + i] = read64(rig, timer_register(i, 0));
        }
        first[6] = read64(rig, COUNTER);
        first[7] = read64(rig, STATUS);
        {
            struct hv_ioapic_record pins; /* wires carry over as well */

            rig = start();
            rig_advance(rig, tap_rng() % HV_NS_PER_S);
            hv_ioapic_save(&rig->platform.ioapic, &pins);
            for (unsigned i = 0; i < 3; i++) {
                if (record.timer[i].asserted) {
                    pins.lines |=
                        1u << (record.config & 2 && i == 0   ? 2
                               : record.config & 2 && i == 1 ? 8
                                                             : record.timer[i].config >> 9 & 31);
                }
            }
            hv_ioapic_load(&rig->platform.ioapic, &pins);
        }
        hv_hpet_load(hpet, &record);
        hv_hpet_save(hpet, &again);
        TAP_OK(memcmp(&record, &again, sizeof(record)) == 0);
        drain(rig);
        for (unsigned i = 0; i < 20; i++) {
            rig_advance(rig, 77777);
            kicks -= drain(rig);
        }
        TAP_EQ(kicks, 0);
        for (unsigned i = 0; i < 3; i++) {
            TAP_EQ(read64(rig, timer_register(i, 8)), first[i]);
            TAP_EQ(read64(rig, timer_register(i, 0)), first[3 + i]);
        }
        TAP_EQ(read64(rig, COUNTER), first[6]);
        TAP_EQ(read64(rig, STATUS), first[7]);
    }
    record.timer[0].config = ROUTE(5);
    TAP_STR(hv_hpet_check(&record), "hpet.timer.config");
    record.phase_ns = 10;
    TAP_STR(hv_hpet_check(&record), "hpet.phase_ns");
    record.config = 4;
    TAP_STR(hv_hpet_check(&record), "hpet.config");
}

/* 2.3.8, bits 15 and 14: no interrupts as messages; the bit stays clear, its route register is none. */
static void test_no_fsb(void)
{
    struct rig *rig = start();

    for (unsigned i = 0; i < HV_HPET_TIMERS; i++) {
        configure(rig, i, 0xc000 | INTERRUPT | ROUTE(20 + i));
        write64(rig, timer_register(i, 0x10), UINT64_C(0xfee0000000000044));
        TAP_EQ(read64(rig, timer_register(i, 0)) & 0xc000, 0);
        TAP_EQ(read64(rig, timer_register(i, 0x10)), 0);
        compare(rig, i, read64(rig, COUNTER) + 10);
        rig_advance(rig, 1000);
        TAP_EQ(take(rig), 0x60 + (int)i); /* by its pin, and no other way */
        TAP_EQ(take(rig), -1);
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"platform.hpet.registers", test_registers},
        {"platform.hpet.counter", test_counter},
        {"platform.hpet.one-shot", test_one_shot},
        {"reports.37.hpet-comparator-in-the-past", test_narrow_one_shot},
        {"reports.37.hpet-saved-late", test_saved_late},
        {"platform.hpet.periodic", test_periodic},
        {"platform.hpet.narrow-periodic", test_narrow_periodic},
        {"platform.hpet.extreme-periods", test_extreme_periods},
        {"platform.hpet.level", test_level},
        {"platform.hpet.no-fsb", test_no_fsb},
        {"reports.39.hpet-legacy-routes", test_legacy},
        {"platform.hpet.record", test_record},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
