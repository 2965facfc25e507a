/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The 8254: six modes, the ways to read, and the tick. */
#include "platform/pit.h"

#include <string.h>

#include "lib/tap.h"
#include "platform/tick.h"
#include "unit/platform/rig-irq.h"

#define CONTROL  0x43
#define CHANNEL0 0x40
#define CHANNEL2 0x42

static uint64_t clocks(uint64_t count)
{
    return hv_ticks_to_ns(count, HV_PIT_HZ);
}

/* A PIT whose interrupts are counted at the 8259A's pin 0, edges only. */
static struct rig *start(void)
{
    struct rig *rig = rig_new();

    rig_pic_start(rig, 0, true);
    return rig;
}

static bool ticked(struct rig *rig)
{
    return rig_take(rig, 0) == 0x30;
}

static void program(struct rig *rig, unsigned channel, unsigned mode, uint16_t count)
{
    rig_outb(rig, CONTROL, (uint8_t)(channel << 6 | 0x30 | mode << 1));
    rig_outb(rig, (uint16_t)(CHANNEL0 + channel), (uint8_t)count);
    rig_outb(rig, (uint16_t)(CHANNEL0 + channel), (uint8_t)(count >> 8));
}

static uint16_t read_count(struct rig *rig, unsigned channel)
{
    uint8_t low;

    rig_outb(rig, CONTROL, (uint8_t)(channel << 6));
    low = rig_inb(rig, (uint16_t)(CHANNEL0 + channel));
    return (uint16_t)(rig_inb(rig, (uint16_t)(CHANNEL0 + channel)) << 8 | low);
}

/* OUT of channel 2. */
static bool output(struct rig *rig)
{
    return rig_inb(rig, 0x61) & 0x20;
}

static void gate(struct rig *rig, bool high)
{
    rig_outb(rig, 0x61, high);
}

static void test_idle(void)
{
    struct rig *rig = start();

    rig_advance(rig, HV_NS_PER_S);
    TAP_OK(!ticked(rig));
    TAP_EQ(rig_inb(rig, CONTROL), 0xff);
}

static void test_mode0(void)
{
    struct rig *rig = start();

    program(rig, 0, 0, 1000);
    TAP_EQ(read_count(rig, 0), 1000);
    rig_advance(rig, clocks(400));
    TAP_EQ(read_count(rig, 0), 600);
    rig_advance(rig, clocks(1000) - clocks(400) - 1);
    TAP_OK(!ticked(rig));
    rig_advance(rig, 1);
    TAP_OK(ticked(rig));
    rig_advance(rig, clocks(2000) - clocks(1000));
    TAP_EQ(read_count(rig, 0), 0x10000 - 1000); /* goes on through zero */
    TAP_OK(!ticked(rig));
    /* A new count begins anew, and its first byte stops the old one. */
    program(rig, 0, 0, 1000);
    rig_advance(rig, clocks(500));
    rig_outb(rig, CHANNEL0, 0x10);
    rig_advance(rig, HV_NS_PER_S);
    TAP_OK(!ticked(rig));
    rig_outb(rig, CHANNEL0, 0x00);
    rig_advance(rig, clocks(16));
    TAP_OK(ticked(rig));
    /* Channel 2: the gate holds the count. */
    gate(rig, true);
    program(rig, 2, 0, 100);
    TAP_OK(!output(rig));
    rig_advance(rig, clocks(40));
    gate(rig, false);
    rig_advance(rig, HV_NS_PER_S);
    TAP_EQ(read_count(rig, 2), 60);
    gate(rig, true);
    rig_advance(rig, clocks(60) - 1000);
    TAP_OK(!output(rig));
    rig_advance(rig, 2000);
    TAP_OK(output(rig));
}

static void test_mode1(void)
{
    struct rig *rig = start();

    gate(rig, false);
    program(rig, 2, 1, 100);
    rig_advance(rig, clocks(200));
    TAP_OK(output(rig));
    gate(rig, true);
    TAP_OK(!output(rig));
    rig_advance(rig, clocks(50));
    gate(rig, false); /* the level means nothing */
    TAP_OK(!output(rig));
    gate(rig, true); /* and the edge triggers again */
    rig_advance(rig, clocks(99));
    TAP_OK(!output(rig));
    rig_advance(rig, clocks(2));
    TAP_OK(output(rig));
    /* A new count waits for the next trigger. */
    gate(rig, false);
    gate(rig, true);
    rig_outb(rig, CHANNEL2, 10);
    rig_outb(rig, CHANNEL2, 0);
    rig_advance(rig, clocks(50));
    TAP_OK(!output(rig));
    gate(rig, false);
    gate(rig, true);
    rig_advance(rig, clocks(11));
    TAP_OK(output(rig));
}

static void test_mode2(void)
{
    struct rig *rig = start();

    program(rig, 0, 2, 1193);
    for (unsigned i = 1; i <= 1000; i++) {
        rig_advance(rig, clocks((uint64_t)i * 1193) - clocks((uint64_t)(i - 1) * 1193));
        TAP_OK(ticked(rig));
        TAP_EQ(read_count(rig, 0), 1193);
    }
    TAP_EQ(hv_load_relaxed(&rig->platform.pit.timer.counters.issued), 1000);
    gate(rig, true);
    program(rig, 2, 2, 10);
    for (unsigned i = 0; i < 20; i++) {
        TAP_EQ(read_count(rig, 2), 10 - i % 10);
        TAP_EQ(output(rig), i % 10 != 9);
        rig_advance(rig, clocks(i + 1) - clocks(i));
    }
    rig_advance(rig, clocks(9));
    gate(rig, false);
    TAP_OK(output(rig)); /* high at once */
    gate(rig, true);
    TAP_EQ(read_count(rig, 2), 10); /* loaded anew */
}

static void test_mode3(void)
{
    struct rig *rig = start();
    static const uint16_t even[] = {6, 4, 2, 6, 4, 2}, odd[] = {6, 4, 2, 0, 6, 4, 2};

    gate(rig, true);
    program(rig, 2, 3, 6);
    for (unsigned i = 0; i < 24; i++) {
        TAP_EQ(read_count(rig, 2), even[i % 6]);
        TAP_EQ(output(rig), i % 6 < 3);
        rig_advance(rig, clocks(i + 1) - clocks(i));
    }
    program(rig, 2, 3, 7); /* high for four clocks, low for three */
    for (unsigned i = 0; i < 28; i++) {
        TAP_EQ(read_count(rig, 2), odd[i % 7]);
        TAP_EQ(output(rig), i % 7 < 4);
        rig_advance(rig, clocks(i + 1) - clocks(i));
    }
    program(rig, 0, 7, 11932); /* M2 is a don't care: 100 Hz */
    for (unsigned i = 0; i < 10; i++) {
        rig_advance(rig, 10 * HV_NS_PER_MS + 1000);
        TAP_OK(ticked(rig));
    }
}

static void test_modes_4_and_5(void)
{
    struct rig *rig = start();

    program(rig, 0, 4, 100);
    rig_advance(rig, clocks(100) - 1);
    TAP_OK(!ticked(rig));
    rig_advance(rig, 1);
    TAP_OK(ticked(rig));
    rig_advance(rig, HV_NS_PER_S);
    TAP_OK(!ticked(rig));
    gate(rig, true);
    program(rig, 2, 4, 5);
    for (unsigned i = 0; i < 10; i++) {
        TAP_EQ(output(rig), i != 5);
        rig_advance(rig, clocks(i + 1) - clocks(i));
    }
    gate(rig, false);
    program(rig, 2, 5, 5);
    rig_advance(rig, clocks(10));
    TAP_OK(output(rig));
    gate(rig, true);
    for (unsigned i = 0; i < 10; i++) {
        TAP_EQ(output(rig), i != 5);
        rig_advance(rig, clocks(i + 1) - clocks(i));
    }
}

/* In modes 2 and 3 a new count takes over between two cycles. */
static void test_new_count(void)
{
    struct rig *rig = start();
    uint64_t now = 0;

    program(rig, 0, 2, 1000);
    rig_advance(rig, clocks(2500));
    now = clocks(2500);
    TAP_OK(ticked(rig));
    rig_outb(rig, CHANNEL0, 0xd0); /* 2000 */
    rig_outb(rig, CHANNEL0, 0x07);
    TAP_EQ(read_count(rig, 0), 500);
    rig_advance(rig, clocks(3000) - now);
    TAP_OK(ticked(rig));
    TAP_EQ(read_count(rig, 0), 2000);
    rig_advance(rig, clocks(2000) - 1);
    TAP_OK(!ticked(rig));
    rig_advance(rig, 2);
    TAP_OK(ticked(rig));
}

static void test_access(void)
{
    struct rig *rig = start();

    gate(rig, false);             /* the count stands */
    rig_outb(rig, CONTROL, 0x90); /* channel 2, low byte, mode 0 */
    rig_outb(rig, CHANNEL2, 0x55);
    TAP_EQ(rig_inb(rig, CHANNEL2), 0x55);
    TAP_EQ(rig_inb(rig, CHANNEL2), 0x55);
    rig_outb(rig, CONTROL, 0xa0); /* high byte */
    rig_outb(rig, CHANNEL2, 0x12);
    TAP_EQ(rig_inb(rig, CHANNEL2), 0x12);
    program(rig, 2, 0, 0x1234);
    TAP_EQ(rig_inb(rig, CHANNEL2), 0x34);
    TAP_EQ(rig_inb(rig, CHANNEL2), 0x12);
    program(rig, 2, 0, 0); /* 65536 */
    TAP_EQ(read_count(rig, 2), 0);
    gate(rig, true);
    rig_advance(rig, clocks(1));
    TAP_EQ(read_count(rig, 2), 0xffff);
}

static void test_latches(void)
{
    struct rig *rig = start();

    gate(rig, true);
    program(rig, 2, 2, 1000);
    rig_advance(rig, clocks(100));
    rig_outb(rig, CONTROL, 0x80);
    rig_advance(rig, clocks(100));
    rig_outb(rig, CONTROL, 0x80); /* the first one stays */
    TAP_EQ(rig_inb(rig, CHANNEL2), 900 & 0xff);
    TAP_EQ(rig_inb(rig, CHANNEL2), 900 >> 8);
    TAP_EQ(rig_inb(rig, CHANNEL2), 800 & 0xff); /* unlatched: as it counts */
    TAP_EQ(rig_inb(rig, CHANNEL2), 800 >> 8);
    /* Read-back: status is read before the count, whichever was asked for first. */
    rig_outb(rig, CONTROL, 0xd8); /* count of channel 2 */
    rig_outb(rig, CONTROL, 0xe8); /* status of channel 2 */
    TAP_EQ(rig_inb(rig, CHANNEL2), 0x80 | 0x30 | 0x04);
    TAP_EQ(rig_inb(rig, CHANNEL2), 800 & 0xff);
    TAP_EQ(rig_inb(rig, CHANNEL2), 800 >> 8);
    /* Null count: a count that is written and not loaded. */
    rig_outb(rig, CONTROL, 0xb4);
    rig_outb(rig, CONTROL, 0xe8);
    TAP_EQ(rig_inb(rig, CHANNEL2) & 0x40, 0x40);
    rig_outb(rig, CHANNEL2, 0x10);
    rig_outb(rig, CHANNEL2, 0x00);
    rig_outb(rig, CONTROL, 0xe8);
    TAP_EQ(rig_inb(rig, CHANNEL2) & 0x40, 0x00);
    rig_outb(rig, CHANNEL2, 0x20);
    rig_outb(rig, CHANNEL2, 0x00);
    rig_outb(rig, CONTROL, 0xe8);
    TAP_EQ(rig_inb(rig, CHANNEL2) & 0x40, 0x40);
    rig_advance(rig, clocks(17) + 1);
    rig_outb(rig, CONTROL, 0xe8);
    TAP_EQ(rig_inb(rig, CHANNEL2) & 0x40, 0x00);
    TAP_EQ(read_count(rig, 2), 0x20 - 1);
}

static void test_bcd(void)
{
    struct rig *rig = start();

    gate(rig, true);
    rig_outb(rig, CONTROL, 0xb1); /* mode 0, BCD */
    rig_outb(rig, CHANNEL2, 0x00);
    rig_outb(rig, CHANNEL2, 0x10); /* 1000 */
    rig_advance(rig, clocks(1));
    TAP_EQ(read_count(rig, 2), 0x0999);
    rig_advance(rig, clocks(1000));
    TAP_EQ(read_count(rig, 2), 0x9999);
    rig_outb(rig, CONTROL, 0xb5); /* mode 2; 0 is 10000; digits above 9 are clamped */
    rig_outb(rig, CHANNEL2, 0xff);
    rig_outb(rig, CHANNEL2, 0xff);
    rig_advance(rig, clocks(1));
    TAP_EQ(read_count(rig, 2), 0x9999);
}

static void test_port61(void)
{
    struct rig *rig = start();
    unsigned toggles = 0;
    bool last = rig_inb(rig, 0x61) & 0x10;

    rig_outb(rig, 0x61, 0xff);
    TAP_EQ(rig_inb(rig, 0x61) & 0x0f, 0x0f);
    for (unsigned i = 0; i < 1000; i++) {
        bool now;

        rig_advance(rig, HV_NS_PER_US);
        now = rig_inb(rig, 0x61) & 0x10;
        toggles += now != last;
        last = now;
    }
    TAP_OK(toggles >= 65 && toggles <= 67); /* each 15.1 µs */
}

static void test_shortest(void)
{
    struct rig *rig = start();

    program(rig, 0, 2, 1);
    rig_advance(rig, 10 * HV_NS_PER_MS);
    TAP_OK(hv_load_relaxed(&rig->platform.pit.timer.counters.fired) <= 100);
    TAP_EQ(hv_load_relaxed(&rig->platform.pit.timer.counters.period_clamped), 1);
    TAP_OK(ticked(rig));
}

/* Random programs, saved at random instants: the same reads and ticks follow. */
static void test_record(void)
{
    struct hv_pit_record record, again;

    for (unsigned round = 0; round < 300; round++) {
        struct rig *rig = start();
        struct hv_pit *pit = &rig->platform.pit;
        uint64_t first[8], ticks;

        for (unsigned i = 0; i < 8; i++) {
            static const uint16_t ports[] = {0x40, 0x40, 0x42, 0x42, 0x43, 0x43, 0x61};

            rig_outb(rig, ports[tap_rng() % 7], (uint8_t)tap_rng());
            rig_advance(rig, tap_rng() % (2 * HV_NS_PER_MS));
        }
        hv_platform_pause(&rig->platform);
        hv_pit_save(pit, &record);
        if (hv_pit_check(&record)) {
            tap_fail(__FILE__, __LINE__, "own record refused: %s", hv_pit_check(&record));
        }
        hv_platform_resume(&rig->platform);
        ticks = hv_load_relaxed(&pit->timer.counters.issued);
        rig_advance(rig, 777777);
        for (unsigned i = 0; i < 8; i++) {
            first[i] = rig_inb(rig, (uint16_t)(i & 1 ? CHANNEL2 : CHANNEL0));
        }
        ticks = hv_load_relaxed(&pit->timer.counters.issued) - ticks;
        /* At another time, in another machine. */
        rig = start();
        rig_advance(rig, tap_rng() % HV_NS_PER_S);
        hv_pit_load(pit, &record);
        hv_pit_save(pit, &again);
        TAP_OK(memcmp(&record, &again, sizeof(record)) == 0);
        rig_advance(rig, 777777);
        for (unsigned i = 0; i < 8; i++) {
            TAP_EQ(rig_inb(rig, (uint16_t)(i & 1 ? CHANNEL2 : CHANNEL0)), first[i]);
        }
        TAP_EQ(hv_load_relaxed(&pit->timer.counters.issued), ticks);
    }
    record.counter[0].gate = 0;
    TAP_STR(hv_pit_check(&record), "pit.gate");
    record.counter[0].mode = 6;
    TAP_STR(hv_pit_check(&record), "pit.mode");
    record.port61 = 0x10;
    TAP_STR(hv_pit_check(&record), "pit.port61");
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"platform.pit.idle", test_idle},
        {"platform.pit.mode0", test_mode0},
        {"platform.pit.mode1", test_mode1},
        {"platform.pit.mode2", test_mode2},
        {"platform.pit.mode3", test_mode3},
        {"platform.pit.modes-4-and-5", test_modes_4_and_5},
        {"platform.pit.new-count", test_new_count},
        {"platform.pit.access", test_access},
        {"platform.pit.latches", test_latches},
        {"platform.pit.bcd", test_bcd},
        {"platform.pit.port61", test_port61},
        {"platform.pit.shortest", test_shortest},
        {"platform.pit.record", test_record},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
