/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The platform as a whole: making it without memory, layout, statistics, reset, save and load. */
#include "platform/platform.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "lib/tap.h"
#include "unit/platform/rig-cmos.h"
#include "unit/platform/rig-irq.h"

static void test_failed_init(void)
{
    static struct rig rig;
    int64_t before = hv_alloc_live();
    bool made = false;

    for (uint64_t nth = 1; !made; nth++) {
        int error;

        TAP_OK(nth < 50);
        hv_alloc_fail_at(nth);
        error = rig_make(&rig, 2, (hv_ns){0});
        hv_alloc_fail_at(0);
        made = error == 0;
        if (made) {
            rig_finish(&rig);
        } else {
            TAP_EQ(error, -ENOMEM);
        }
        TAP_EQ(hv_alloc_live(), before);
    }
}

static void test_layout(void)
{
    struct hv_platform_layout layout;
    struct rig *rig = rig_new();

    hv_platform_fill_layout(&layout, 3, 0);
    TAP_EQ(layout.vcpus, 3);
    /* Each address answers. */
    TAP_OK(rig_mmio_read(rig, layout.ioapic_base, 4) != UINT32_MAX);
    TAP_OK(rig_mmio_read(rig, layout.lapic_base + 0x30, 4) != UINT32_MAX);
    TAP_OK(rig_mmio_read(rig, layout.hpet_base, 4) != UINT32_MAX);
    TAP_OK(rig_inl(rig, layout.pm_event_port) != UINT32_MAX);
    TAP_OK(rig_inl(rig, layout.pm_timer_port) != UINT32_MAX);
    rig_outw(rig, layout.pm_control_port, (uint16_t)(layout.s5_sleep_type << 10 | 1 << 13));
    TAP_EQ(rig->poweroffs, 1);
    rig_outb(rig, layout.reset_port, layout.reset_value);
    TAP_EQ(rig->resets, 1);
    hv_platform_press_power(&rig->platform);
    rig_outw(rig, (uint16_t)(layout.pm_event_port + 2), 0x100);
    TAP_EQ(rig->platform.ioapic.lines, 1u << layout.sci_irq);
}

static void test_statistics(void)
{
    static const char *const names[] = {"pit0",  "rtc",    "pm",     "hpet0",  "hpet1",
                                        "hpet2", "lapic0", "lapic1", "lapic2", "lapic3"};
    static const char *const policies[] = {"delay", "catchup", "merge",   "merge",   "merge",
                                           "merge", "catchup", "catchup", "catchup", "catchup"};
    struct hv_platform_timer timer;
    struct rig *rig = rig_new();

    TAP_EQ(hv_platform_timers(&rig->platform), HV_ARRAY_LEN(names));
    rig_outb(rig, 0x43, 0x34);
    rig_outb(rig, 0x40, 0xa9);
    rig_outb(rig, 0x40, 0x04);
    rig_advance(rig, 10 * HV_NS_PER_MS);
    for (unsigned i = 0; i < HV_ARRAY_LEN(names); i++) {
        hv_platform_get_timer(&rig->platform, i, &timer);
        TAP_STR(timer.name, names[i]);
        TAP_EQ(timer.armed, i == 0);
        TAP_EQ(timer.fired, i == 0 ? 10 : 0);
        TAP_EQ(timer.period_ns, i == 0 ? 999848 : 0);
        TAP_EQ(timer.vcpu, i < 6 ? 0 : i - 6);
        TAP_STR(timer.policy, policies[i]);
    }
}

/* A tick is accepted by the vCPU that takes its vector, however it is routed. */
static void test_acceptance(void)
{
    static const struct {
        const char *name;
        uint16_t pic_mask; /* slave, master */
        unsigned pin;
        unsigned timer; /* number in the statistics */
    } rows[] = {
        {"PIT by the 8259A", 0xfffe, 0, 0},        {"PIT by the I/O APIC", 0xffff, 2, 0},
        {"RTC by the 8259A", 0xfefb, 0, 1},        {"RTC by the I/O APIC", 0xffff, 8, 1},
        {"HPET 2 by the I/O APIC", 0xffff, 21, 5},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        struct rig *rig = rig_new();
        struct hv_platform_timer timer;
        uint64_t period_ns;

        rig_apic_enable(rig, 0);
        for (unsigned chip = 0; chip < 2; chip++) {
            uint16_t port = chip ? 0xa0 : 0x20;

            rig_outb(rig, port, 0x11);
            rig_outb(rig, port + 1, chip ? 0x38 : 0x30);
            rig_outb(rig, port + 1, chip ? 0x02 : 0x04);
            rig_outb(rig, port + 1, 0x03);
            rig_outb(rig, port + 1, (uint8_t)(rows[i].pic_mask >> (chip ? 8 : 0)));
        }
        if (rows[i].pin) {
            rig_ioapic_write(rig, rows[i].pin, 0x55);
        }
        rig_outb(rig, 0x43, 0x34);
        rig_outb(rig, 0x40, 0xa9);
        rig_outb(rig, 0x40, 0x04);
        rig_cmos_write(rig, 0x0b, 0x42);
        rig_mmio_write(rig, HV_HPET_BASE + 0x10, 8, 1);
        rig_mmio_write(rig, HV_HPET_BASE + 0x140, 8, 0x4c | 21 << 9);
        rig_mmio_write(rig, HV_HPET_BASE + 0x148, 8, 100000);
        hv_platform_get_timer(&rig->platform, rows[i].timer, &timer);
        period_ns = timer.period_ns;
        /* Three ticks, taken a tenth, two tenths and three tenths of a period late. */
        rig_advance(rig,
                    hv_vpt_remaining_ns(rows[i].timer == 0   ? &rig->platform.pit.timer
                                        : rows[i].timer == 1 ? &rig->platform.rtc.periodic
                                                             : &rig->platform.hpet.timer[2].vpt,
                                        hv_clock_now(&rig->clock)));
        for (unsigned tick = 1; tick <= 3; tick++) {
            rig_advance(rig, period_ns / 10 * tick);
            TAP_EQ(rig_take(rig, 0), rows[i].pin ? 0x55 : rows[i].timer ? 0x38 : 0x30);
            rig_eoi(rig, 0);
            (void)rig_cmos_read(rig, 0x0c);
            if (tick < 3) {
                rig_advance(rig, period_ns - period_ns / 10 * tick);
            }
        }
        hv_platform_get_timer(&rig->platform, rows[i].timer, &timer);
        TAP_EQ(timer.accepted, 3);
        TAP_EQ(timer.issued, 3);
        TAP_OK(timer.late_max >= period_ns / 10 * 3 - 3 &&
               timer.late_max <= period_ns / 10 * 3 + 3);
        TAP_OK(timer.late_p50 >= period_ns / 10 * 2 - 3 &&
               timer.late_p50 < period_ns / 10 * 2 * 33 / 32 + 3);
        TAP_OK(timer.jitter_p99 >= period_ns / 10 - 3 &&
               timer.jitter_p99 <= period_ns / 10 * 33 / 32 + 3);
        hv_platform_get_timer(&rig->platform, rows[i].timer == 0, &timer);
        TAP_EQ(timer.accepted, 0);
    }
}

/* ISA interrupts reach both controllers, interrupt 0 at pin 2; the guest masks one of them. */
static void test_wiring(void)
{
    struct rig *rig = rig_new();

    rig_apic_enable(rig, 0);
    rig_pic_start(rig, 0, true);
    rig_outb(rig, 0x21, 0xfe);
    rig_ioapic_write(rig, 2, 0x52);
    rig_outb(rig, 0x43, 0x30); /* PIT, once, in 1 ms */
    rig_outb(rig, 0x40, 0xa9);
    rig_outb(rig, 0x40, 0x04);
    rig_advance(rig, HV_NS_PER_MS);
    TAP_EQ(rig_take(rig, 0), 0x52); /* the local APIC's own first */
    TAP_EQ(rig_take(rig, 0), 0x30);
    TAP_EQ(rig_take(rig, 0), -1);
    rig_outb(rig, 0x21, 0xff);
    rig_outb(rig, 0x3fc, 0x08);
    rig_ioapic_write(rig, 4, 0x64 | UINT64_C(1) << 56);
    rig_apic_enable(rig, 1);
    rig_outb(rig, 0x3f9, 0x02);
    TAP_EQ(rig_take(rig, 1), 0x64);
}

static void test_reset(void)
{
    static struct hv_platform_record fresh, after;
    struct rig *rig = rig_new();

    hv_platform_save(&rig->platform, &fresh);
    for (unsigned i = 0; i < 2000; i++) {
        uint16_t port = (uint16_t)(tap_rng() % 0x700);

        /* Time and battery-backed memory outlive a reset, and wires are their drivers'. */
        if (port != 0x70 && port != 0x71 && (port & ~3) != 0xcf8) {
            rig_outb(rig, port, (uint8_t)tap_rng());
        }
        rig_mmio_write(rig, HV_HPET_BASE + tap_rng() % 0x400 / 8 * 8, 8, tap_rng());
        rig_apic_write(rig, (unsigned)(tap_rng() % RIG_VCPUS), (uint32_t)(tap_rng() % 0x40) * 16,
                       (uint32_t)tap_rng());
        rig_ioapic_write(rig, (unsigned)(tap_rng() % 24), tap_rng());
        rig_advance(rig, tap_rng() % HV_NS_PER_MS);
    }
    hv_platform_reset(&rig->platform);
    hv_platform_save(&rig->platform, &after);
    after.rtc = fresh.rtc;
    TAP_OK(memcmp(&after.pic, &fresh.pic, sizeof(fresh.pic)) == 0);
    TAP_OK(memcmp(&after.ioapic, &fresh.ioapic, sizeof(fresh.ioapic)) == 0);
    TAP_OK(memcmp(&after.hpet, &fresh.hpet, sizeof(fresh.hpet)) == 0);
    TAP_OK(memcmp(&after.acpi, &fresh.acpi, sizeof(fresh.acpi)) == 0);
    TAP_OK(memcmp(after.lapic, fresh.lapic, sizeof(fresh.lapic)) == 0);
    TAP_OK(memcmp(&after.i8042, &fresh.i8042, sizeof(fresh.i8042)) == 0);
    TAP_OK(memcmp(&after.testdev, &fresh.testdev, sizeof(fresh.testdev)) == 0);
    rig_advance(rig, 10 * HV_NS_PER_S);
    TAP_EQ(rig_take(rig, 0), -1);
}

/* Every timer runs; then the machine ends, and none is armed any more behind what it waited for. */
static void test_halt(void)
{
    struct hv_platform_timer timer;
    struct rig *rig = rig_new();
    uint64_t fired[64];
    unsigned timers = hv_platform_timers(&rig->platform), waits = 0;

    rig_outb(rig, 0x43, 0x34);
    rig_outb(rig, 0x40, 0xa9);
    rig_outb(rig, 0x40, 0x04);
    rig_cmos_write(rig, 0x0b, 0x52); /* RTC: periodic and update-ended interrupts */
    rig_outw(rig, HV_ACPI_EVENT_PORT + 2, 1);
    rig_mmio_write(rig, HV_HPET_BASE + 0x10, 8, 1);
    for (unsigned i = 0; i < HV_HPET_TIMERS; i++) {
        rig_mmio_write(rig, HV_HPET_BASE + 0x100 + 0x20 * i, 8, 0x44 | (i < 2 ? 8 : 0));
        rig_mmio_write(rig, HV_HPET_BASE + 0x108 + 0x20 * i, 8, 100000);
    }
    for (unsigned i = 0; i < RIG_VCPUS; i++) {
        rig_apic_enable(rig, i);
        rig_apic_write(rig, i, 0x320, 0x200ee);
        rig_apic_write(rig, i, 0x380, 100000);
    }
    rig_advance(rig, HV_NS_PER_S);
    hv_platform_halt(&rig->platform);
    for (unsigned i = 0; i < timers; i++) {
        hv_platform_get_timer(&rig->platform, i, &timer);
        TAP_OK(timer.armed || timer.fired > 0);
        fired[i] = timer.fired;
    }
    while (hv_timer_queue_next(&rig->queue).v != UINT64_MAX) {
        TAP_OK(waits++ <= timers);
        rig_advance(rig, hv_timer_queue_next(&rig->queue).v - hv_clock_now(&rig->clock).v);
    }
    for (unsigned i = 0; i < timers; i++) {
        hv_platform_get_timer(&rig->platform, i, &timer);
        TAP_EQ(timer.fired, fired[i]);
    }
    hv_platform_pause(&rig->platform);
    hv_platform_resume(&rig->platform);
    rig_advance(rig, HV_NS_PER_S);
    for (unsigned i = 0; i < timers; i++) {
        hv_platform_get_timer(&rig->platform, i, &timer);
        TAP_EQ(timer.fired > fired[i], timer.armed);
    }
}

#define ALL_VCPUS ((1u << RIG_VCPUS) - 1)

static void start_pit(struct rig *rig)
{
    rig_outb(rig, 0x43, 0x34);
    rig_outb(rig, 0x40, 0xa9);
    rig_outb(rig, 0x40, 0x04);
}

/* Through the I/O APIC: mode, destination and mask decide, then whether anything raises the pin. */
static void test_rouse_pins(void)
{
    static const struct {
        unsigned pin;
        uint64_t entry;
        uint64_t nmi_vcpus;
        bool timer; /* without it the PIT stands still */
        bool rouses;
    } rows[] = {
        {2, 0x400, ALL_VCPUS, true, true},
        {2, 0x400, ALL_VCPUS, false, false},
        {2, 0x10400, ALL_VCPUS, true, false}, /* masked */
        {2, 0x055, ALL_VCPUS, true, false},   /* fixed */
        {2, 0x155, ALL_VCPUS, true, false},   /* lowest priority */
        {2, 0x200, ALL_VCPUS, true, false},   /* SMI: there is no SMM */
        {2, 0x700, ALL_VCPUS, true, false},   /* ExtINT */
        {2, 0x400 | UINT64_C(1) << 56, ALL_VCPUS, true, true},
        {2, 0x400 | UINT64_C(1) << 56, 1, true, false}, /* it takes none */
        {2, 0x400 | UINT64_C(9) << 56, ALL_VCPUS, true, false},
        {2, 0x400 | UINT64_C(0xff) << 56, 8, true, true},
        {2, 0x500, 0, true, true}, /* INIT to the bootstrap processor */
        {2, 0x500 | UINT64_C(1) << 56, ALL_VCPUS, true, false},
        {0, 0x400, ALL_VCPUS, true, false},  /* the PIT is at pin 2 */
        {8, 0x400, ALL_VCPUS, true, false},  /* the RTC's */
        {4, 0x400, ALL_VCPUS, false, true},  /* serial input */
        {9, 0x400, ALL_VCPUS, false, true},  /* the power button */
        {12, 0x400, ALL_VCPUS, true, false}, /* nobody's */
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        struct rig *rig = rig_new();

        if (rows[i].timer) {
            start_pit(rig);
        }
        rig_ioapic_write(rig, rows[i].pin, rows[i].entry);
        if (hv_platform_may_rouse(&rig->platform, rows[i].nmi_vcpus) != rows[i].rouses) {
            tap_fail(__FILE__, __LINE__, "row %zu", i);
        }
    }
}

/* The button: LINT1 in NMI or INIT mode, or the pin that it is while its APIC is off. */
static void test_rouse_nmi_button(void)
{
    struct rig *rig = rig_new();

    TAP_OK(!hv_platform_may_rouse(&rig->platform, ALL_VCPUS)); /* masked */
    rig_apic_enable(rig, 0);
    rig_apic_enable(rig, 1);
    rig_apic_write(rig, 1, 0x360, 0x400);
    TAP_OK(hv_platform_may_rouse(&rig->platform, ALL_VCPUS));
    TAP_OK(!hv_platform_may_rouse(&rig->platform, ALL_VCPUS & ~2u)); /* it takes none */
    rig_apic_write(rig, 1, 0x360, 0x500);
    TAP_OK(!hv_platform_may_rouse(&rig->platform, ALL_VCPUS)); /* INIT starts the first alone */
    rig_apic_write(rig, 0, 0x360, 0x500);
    TAP_OK(hv_platform_may_rouse(&rig->platform, 0));
    rig_apic_write(rig, 0, 0x360, 0x10500);
    TAP_OK(!hv_platform_may_rouse(&rig->platform, ALL_VCPUS));
    TAP_EQ(hv_platform_msr_write(&rig->platform, 2, 0x1b, 0xfee00000), 0);
    TAP_OK(hv_platform_may_rouse(&rig->platform, ALL_VCPUS));
    TAP_OK(!hv_platform_may_rouse(&rig->platform, ALL_VCPUS & ~4u));
}

/* Through the 8259A and LINT0, and by the other timers. */
static void test_rouse_others(void)
{
    struct rig *rig = rig_new();

    start_pit(rig);
    rig_apic_enable(rig, 0);
    rig_outb(rig, 0x21, 0xfe);
    TAP_OK(!hv_platform_may_rouse(&rig->platform, ALL_VCPUS)); /* LINT0 is ExtINT */
    rig_apic_write(rig, 0, 0x350, 0x400);
    TAP_OK(hv_platform_may_rouse(&rig->platform, ALL_VCPUS));
    TAP_OK(!hv_platform_may_rouse(&rig->platform, ALL_VCPUS & ~1u));
    rig_outb(rig, 0x21, 0xff);
    TAP_OK(!hv_platform_may_rouse(&rig->platform, ALL_VCPUS));
    rig_cmos_write(rig, 0x0b, 0x42);
    rig_outb(rig, 0xa1, 0xfe);
    TAP_OK(!hv_platform_may_rouse(&rig->platform, ALL_VCPUS)); /* the slave itself is masked */
    rig_outb(rig, 0x21, 0xfb);
    TAP_OK(hv_platform_may_rouse(&rig->platform, ALL_VCPUS));
    rig_cmos_write(rig, 0x0b, 0x02);
    TAP_OK(!hv_platform_may_rouse(&rig->platform, ALL_VCPUS));

    rig = rig_new();
    rig_ioapic_write(rig, 21, 0x400);
    rig_mmio_write(rig, HV_HPET_BASE + 0x140, 8, 0x4 | 21 << 9);
    rig_mmio_write(rig, HV_HPET_BASE + 0x148, 8, 100000);
    TAP_OK(!hv_platform_may_rouse(&rig->platform, ALL_VCPUS));
    rig_mmio_write(rig, HV_HPET_BASE + 0x10, 8, 1);
    TAP_OK(hv_platform_may_rouse(&rig->platform, ALL_VCPUS));

    /* A local APIC's timer is a maskable interrupt whatever its entry says. */
    rig = rig_new();
    rig_apic_enable(rig, 0);
    rig_apic_write(rig, 0, 0x320, 0x20400);
    rig_apic_write(rig, 0, 0x380, 100000);
    TAP_OK(!hv_platform_may_rouse(&rig->platform, ALL_VCPUS));
}

/* A guest that does anything at all, at ports and addresses where devices are. */
static void act(struct rig *rig, unsigned vcpu)
{
    static const uint16_t ports[] = {0x20,  0x21,  0x40,  0x42,  0x43,  0x60,  0x61,  0x64,
                                     0x70,  0x71,  0xa0,  0xa1,  0x3f8, 0x3f9, 0x3fa, 0x3fb,
                                     0x3fc, 0x4d0, 0x4d1, 0x510, 0x600, 0x602, 0x620, 0x200e};
    uint64_t dice = tap_rng();

    switch (dice % 8) {
    case 0:
    case 1:
        rig_outb(rig, ports[tap_rng() % HV_ARRAY_LEN(ports)], (uint8_t)tap_rng());
        break;
    case 2:
        rig_mmio_write(rig, HV_HPET_BASE + tap_rng() % 22 * 8, 8, tap_rng() >> tap_rng() % 64);
        break;
    case 3:
        rig_apic_write(rig, vcpu, (uint32_t)(tap_rng() % 0x40) * 16,
                       (uint32_t)(tap_rng() >> tap_rng() % 64));
        break;
    case 4:
        rig_ioapic_write(rig, (unsigned)(tap_rng() % 24), tap_rng() & ~UINT64_C(0x10700));
        break;
    case 5:
        rig_apic_enable(rig, vcpu);
        rig_apic_write(rig, vcpu, 0x320, 0x200ee);
        rig_apic_write(rig, vcpu, 0x380, 10000);
        break;
    case 6:
        (void)!hv_platform_msr_write(&rig->platform, vcpu,
                                     tap_rng() % 4 ? 0x800 + (uint32_t)(tap_rng() % 0x40) : 0x1b,
                                     tap_rng() % 2 ? 0xfee00c00 : tap_rng() % 0x100);
        break;
    default:
        hv_platform_cr8_write(&rig->platform, vcpu, tap_rng() % 16);
        break;
    }
}

/* What a machine does when it is left alone for a while: the vectors its vCPUs take, and when. */
struct future {
    int vector[64];
    uint64_t clock_ns[64]; /* since it began */
    unsigned count;
};

static void watch(struct rig *rig, struct future *future)
{
    uint64_t begin = hv_clock_now(&rig->clock).v;

    memset(future, 0, sizeof(*future));
    for (unsigned i = 0; i < 400 && future->count < 64; i++) {
        for (unsigned vcpu = 0; vcpu < RIG_VCPUS; vcpu++) {
            int vector = rig_take(rig, vcpu);

            if (vector >= 0 && future->count < 64) {
                future->vector[future->count] = vector;
                future->clock_ns[future->count++] = hv_clock_now(&rig->clock).v - begin;
            }
            rig_eoi(rig, vcpu);
        }
        rig_advance(rig, 7 * HV_NS_PER_US);
    }
}

static void test_record(void)
{
    static struct hv_platform_record record, again;
    static struct rig second;
    unsigned events = 0;

    for (unsigned round = 0; round < 150; round++) {
        struct rig *rig = rig_new();
        struct future want, got;
        const char *field;

        for (unsigned i = 0; i < 200; i++) {
            act(rig, (unsigned)(tap_rng() % RIG_VCPUS));
            rig_advance(rig, tap_rng() % (200 * HV_NS_PER_US));
        }
        hv_platform_pause(&rig->platform);
        hv_platform_save(&rig->platform, &record);
        hv_platform_resume(&rig->platform);
        /* Loaded into a machine that has lived a life of its own. */
        TAP_EQ(rig_make(&second, RIG_VCPUS, hv_clock_now(&rig->clock)), 0);
        for (unsigned i = 0; i < 50; i++) {
            act(&second, (unsigned)(tap_rng() % RIG_VCPUS));
        }
        hv_platform_pause(&second.platform);
        if (hv_platform_load(&second.platform, &record, &field) != 0) {
            tap_fail(__FILE__, __LINE__, "own record refused: %s", field);
        }
        hv_platform_save(&second.platform, &again);
        TAP_OK(memcmp(&record, &again, sizeof(record)) == 0);
        hv_platform_resume(&second.platform);
        watch(rig, &want);
        watch(&second, &got);
        rig_finish(&second);
        TAP_EQ(got.count, want.count);
        TAP_OK(memcmp(&want, &got, sizeof(want)) == 0);
        events += want.count;
    }
    TAP_OK(events > 500);
}

static void test_refused(void)
{
    static struct hv_platform_record record, before, after;
    struct rig *rig = rig_new();
    const char *field;

    hv_platform_save(&rig->platform, &record);
    for (unsigned i = 0; i < 100; i++) {
        act(rig, 0);
    }
    hv_platform_save(&rig->platform, &before);
    record.lapic[RIG_VCPUS - 1].divide = 4; /* the last thing that is checked */
    TAP_EQ(hv_platform_load(&rig->platform, &record, &field), -EPROTO);
    TAP_STR(field, "lapic.divide");
    hv_platform_save(&rig->platform, &after);
    TAP_OK(memcmp(&before, &after, sizeof(before)) == 0); /* nothing has changed */
    record.vcpus++;
    TAP_EQ(hv_platform_load(&rig->platform, &record, &field), -EPROTO);
    TAP_STR(field, "platform.vcpus");
    record.version++;
    TAP_EQ(hv_platform_load(&rig->platform, &record, &field), -EPROTO);
    TAP_STR(field, "platform.version");
}

/* A record from anybody: refused, or a machine that lives on. */
static void test_hostile_record(void)
{
    static struct hv_platform_record record, broken;
    unsigned loaded = 0;

    for (unsigned round = 0; round < 2000; round++) {
        struct rig *rig = round % 50 == 0 ? rig_new() : NULL;
        static struct rig *current;
        const char *field = NULL;
        uint8_t *bytes = (uint8_t *)&broken;

        current = rig ? rig : current;
        if (rig) {
            for (unsigned i = 0; i < 50; i++) {
                act(current, 0);
            }
            hv_platform_save(&current->platform, &record);
        }
        broken = record;
        /* All but the test device's memory. */
        bytes[tap_rng() % offsetof(struct hv_platform_record, testdev)] = (uint8_t)tap_rng();
        if (hv_platform_load(&current->platform, &broken, &field) == 0) {
            loaded++;
            rig_advance(current, HV_NS_PER_MS);
            rig_take(current, 0);
            hv_platform_save(&current->platform, &broken);
            TAP_EQ(hv_platform_load(&current->platform, &broken, &field), 0);
        } else {
            TAP_OK(field != NULL);
        }
    }
    TAP_OK(loaded > 100 && loaded < 2000);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"platform.platform.failed-init", test_failed_init},
        {"platform.platform.layout", test_layout},
        {"platform.platform.statistics", test_statistics},
        {"platform.platform.acceptance", test_acceptance},
        {"platform.platform.wiring", test_wiring},
        {"platform.platform.reset", test_reset},
        {"platform.platform.halt", test_halt},
        {"platform.platform.rouse-pins", test_rouse_pins},
        {"platform.platform.rouse-nmi-button", test_rouse_nmi_button},
        {"platform.platform.rouse-others", test_rouse_others},
        {"platform.platform.record", test_record},
        {"platform.platform.refused", test_refused},
        {"platform.platform.hostile-record", test_hostile_record},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
