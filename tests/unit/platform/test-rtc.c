/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The MC146818: calendar, update cycle, interrupts, and two vCPUs at its ports. */
#include "platform/rtc.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "lib/tap.h"
#include "platform/rtc-calendar.h"
#include "unit/platform/rig-cmos.h"
#include "unit/platform/rig-irq.h"

/* IRQ 8 comes as vector 38h. */
static struct rig *start(void)
{
    struct rig *rig = rig_new();

    rig_pic_start(rig, 0, true);
    rig_pic_start(rig, 1, true);
    return rig;
}

static bool interrupted(struct rig *rig)
{
    return rig_take(rig, 0) == 0x38;
}

static void set_time(struct rig *rig, const uint8_t fields[7], uint8_t register_b)
{
    static const uint8_t indices[] = {RTC_HOURS, RTC_MINUTES, RTC_SECONDS, RTC_WEEKDAY,
                                      RTC_DAY,   RTC_MONTH,   RTC_YEAR};

    rig_cmos_write(rig, RTC_B, register_b | RTC_B_SET);
    for (unsigned i = 0; i < 7; i++) {
        rig_cmos_write(rig, indices[i], fields[i]);
    }
    rig_cmos_write(rig, RTC_B, register_b);
}

static void check_time(struct rig *rig, const uint8_t fields[7], uint8_t century)
{
    static const uint8_t indices[] = {RTC_HOURS, RTC_MINUTES, RTC_SECONDS, RTC_WEEKDAY,
                                      RTC_DAY,   RTC_MONTH,   RTC_YEAR};

    for (unsigned i = 0; i < 7; i++) {
        TAP_EQ(rig_cmos_read(rig, indices[i]), fields[i]);
    }
    TAP_EQ(rig_cmos_read(rig, HV_RTC_CENTURY), century);
}

static void test_calendar(void)
{
    uint8_t memory[HV_RTC_BYTES] = {0};

    memory[RTC_B] = RTC_B_24H | RTC_B_BINARY;
    for (unsigned i = 0; i < 20000; i++) {
        uint64_t seconds = tap_rng() % (UINT64_C(8000) * 366 * 86400); /* to beyond year 9900 */
        time_t moment = (time_t)seconds;
        struct tm tm;

        gmtime_r(&moment, &tm);
        if (tm.tm_year + 1900 > 9999) {
            continue;
        }
        rtc_calendar_set(memory, seconds);
        TAP_EQ(memory[RTC_SECONDS], tm.tm_sec);
        TAP_EQ(memory[RTC_MINUTES], tm.tm_min);
        TAP_EQ(memory[RTC_HOURS], tm.tm_hour);
        TAP_EQ(memory[RTC_WEEKDAY], tm.tm_wday + 1);
        TAP_EQ(memory[RTC_DAY], tm.tm_mday);
        TAP_EQ(memory[RTC_MONTH], tm.tm_mon + 1);
        TAP_EQ(memory[RTC_YEAR], (tm.tm_year + 1900) % 100);
        TAP_EQ(memory[HV_RTC_CENTURY], (tm.tm_year + 1900) / 100);
    }
}

static void test_advance(void)
{
    uint8_t memory[HV_RTC_BYTES] = {0}, want[HV_RTC_BYTES] = {0};

    for (unsigned format = 0; format < 4; format++) {
        memory[RTC_B] = (uint8_t)(format << 1);
        memcpy(want, memory, sizeof(want));
        for (unsigned i = 0; i < 300; i++) {
            uint64_t seconds = tap_rng() % (UINT64_C(2000) * 366 * 86400);
            uint64_t span = 1 + tap_rng() % (tap_rng() % 2 ? 100 : 4000 * UINT64_C(86400));

            rtc_calendar_set(memory, seconds);
            rtc_calendar_advance(memory, span);
            rtc_calendar_set(want, seconds + span);
            TAP_OK(memcmp(memory, want, sizeof(want)) == 0);
        }
    }
    /* What is no date counts on from the nearest one, and no byte crashes it. */
    for (unsigned i = 0; i < 300; i++) {
        for (unsigned j = 0; j < HV_RTC_BYTES; j++) {
            memory[j] = (uint8_t)tap_rng();
        }
        rtc_calendar_advance(memory, 1 + tap_rng() % (UINT64_C(1) << 34));
    }
}

static void test_first_time(void)
{
    struct rig *rig = start();
    /* The simulated wall clock's beginning plus the rig's 1000 s: 2026-01-01, a Thursday. */
    static const uint8_t bcd[] = {0x00, 0x16, 0x40, 5, 0x01, 0x01, 0x26};

    check_time(rig, bcd, 0x20);
    TAP_EQ(rig_cmos_read(rig, RTC_A) & 0x7f, 0x26);
    TAP_EQ(rig_cmos_read(rig, RTC_B), 0x02);
    TAP_EQ(rig_cmos_read(rig, RTC_D), 0x80);
    TAP_EQ(rig_inb(rig, 0x70), 0xff);
}

static void test_formats(void)
{
    static const struct {
        uint8_t b, before[7], after[7], century;
    } rows[] = {
        /* BCD, 24 hours; over the end of a year that is none of the leap ones. */
        {0x02,
         {0x23, 0x59, 0x59, 7, 0x28, 0x02, 0x99},
         {0x00, 0x00, 0x00, 1, 0x01, 0x03, 0x99},
         0x20},
        {0x02,
         {0x23, 0x59, 0x59, 3, 0x31, 0x12, 0x99},
         {0x00, 0x00, 0x00, 4, 0x01, 0x01, 0x00},
         0x21},
        /* Binary, 24 hours; a leap day. */
        {0x06, {23, 59, 59, 4, 28, 2, 28}, {0, 0, 0, 5, 29, 2, 28}, 20},
        /* BCD, 12 hours: 11:59:59 AM, 12:59:59 PM, 11:59:59 PM. */
        {0x00,
         {0x11, 0x59, 0x59, 2, 0x10, 0x05, 0x26},
         {0x92, 0x00, 0x00, 2, 0x10, 0x05, 0x26},
         0x20},
        {0x00,
         {0x92, 0x59, 0x59, 2, 0x10, 0x05, 0x26},
         {0x81, 0x00, 0x00, 2, 0x10, 0x05, 0x26},
         0x20},
        {0x00,
         {0x91, 0x59, 0x59, 2, 0x10, 0x05, 0x26},
         {0x12, 0x00, 0x00, 3, 0x11, 0x05, 0x26},
         0x20},
        /* Binary, 12 hours. */
        {0x04, {0x8b, 59, 59, 2, 10, 5, 26}, {12, 0, 0, 3, 11, 5, 26}, 20},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        struct rig *rig = start();

        if (rows[i].b & RTC_B_BINARY) {
            rig_cmos_write(rig, HV_RTC_CENTURY, 20);
        }
        set_time(rig, rows[i].before, rows[i].b);
        rig_advance(rig, HV_NS_PER_S);
        check_time(rig, rows[i].after, rows[i].century);
    }
}

static void test_set_stops(void)
{
    struct rig *rig = start();

    rig_cmos_write(rig, RTC_B, 0x92);
    TAP_EQ(rig_cmos_read(rig, RTC_B), 0x82); /* SET clears UIE */
    rig_cmos_write(rig, RTC_SECONDS, 0x30);
    rig_advance(rig, 5 * HV_NS_PER_S + HV_NS_PER_S / 2);
    TAP_EQ(rig_cmos_read(rig, RTC_SECONDS), 0x30);
    TAP_EQ(rig_cmos_read(rig, RTC_A) & 0x80, 0);
    rig_cmos_write(rig, RTC_B, 0x02);
    rig_advance(rig, HV_NS_PER_S / 2); /* the divider went on: the next second ends here */
    TAP_EQ(rig_cmos_read(rig, RTC_SECONDS), 0x31);
}

static void test_divider(void)
{
    struct rig *rig = start();

    rig_cmos_write(rig, RTC_A, 0x66); /* held in reset */
    rig_cmos_write(rig, RTC_SECONDS, 0x10);
    rig_advance(rig, 10 * HV_NS_PER_S);
    TAP_EQ(rig_cmos_read(rig, RTC_SECONDS), 0x10);
    rig_cmos_write(rig, RTC_A, 0x26);
    rig_advance(rig, HV_NS_PER_S / 2 - 1);
    TAP_EQ(rig_cmos_read(rig, RTC_SECONDS), 0x10);
    rig_advance(rig, 1);
    TAP_EQ(rig_cmos_read(rig, RTC_SECONDS), 0x11);
}

/* UIP is set 244 µs before an update and clear after 2.228 ms, however late the timer is. */
static void test_update_in_progress(void)
{
    struct rig *rig = start();
    uint64_t into;

    rig_cmos_write(rig, RTC_B, 0x12); /* with its interrupt, so that a timer is armed */
    for (unsigned late = 0; late < 2; late++) {
        uint64_t first = 0, last = 0;

        into = (hv_clock_now(&rig->clock).v - rig->platform.rtc.second_ns) % HV_NS_PER_S;
        rig_advance(rig, HV_NS_PER_S - 3 * HV_NS_PER_MS - into);
        for (unsigned us = 0; us < 4000; us++) {
            /* Late: no worker runs the timer that falls due meanwhile. */
            if (late) {
                hv_clock_advance(&rig->clock, HV_NS_PER_US);
            } else {
                rig_advance(rig, HV_NS_PER_US);
            }
            if (rig_cmos_read(rig, RTC_A) & 0x80) {
                first = first ? first : us;
                last = us;
            }
        }
        TAP_OK(first > 0);
        TAP_OK(last - first < 2300 && last - first > 2200);
        rig_advance(rig, 0);
    }
}

static void test_update_interrupt(void)
{
    struct rig *rig = start();

    rig_advance(rig, 100 * HV_NS_PER_MS);
    rig_cmos_read(rig, RTC_C);
    rig_cmos_write(rig, RTC_B, 0x12);
    rig_advance(rig, 900 * HV_NS_PER_MS - 1);
    TAP_OK(!interrupted(rig));
    rig_advance(rig, 1);
    TAP_OK(interrupted(rig));
    rig_advance(rig, 3 * HV_NS_PER_S);
    TAP_OK(!interrupted(rig));                             /* the wire is high until C is read */
    TAP_EQ(rig_cmos_read(rig, RTC_C), 0x80 | 0x10 | 0x40); /* PF sets without its enable, too */
    TAP_EQ(rig_cmos_read(rig, RTC_C), 0x00);
    rig_advance(rig, HV_NS_PER_S);
    TAP_OK(interrupted(rig));
    TAP_EQ(rig_cmos_read(rig, RTC_C) & 0x90, 0x90);
    rig_cmos_write(rig, RTC_B, 0x02);
    rig_advance(rig, HV_NS_PER_S);
    TAP_OK(!interrupted(rig));
    TAP_EQ(rig_cmos_read(rig, RTC_C) & 0x90, 0x10);
    TAP_EQ(hv_load_relaxed(&rig->queue.next_ns), UINT64_MAX); /* nothing wakes the host */
}

static void test_alarm(void)
{
    static const struct {
        uint8_t hours, minutes, seconds;
        unsigned wait_s; /* from 23:59:50 */
    } rows[] = {
        {0x23, 0x59, 0x55, 5},  {0xff, 0xff, 0xc0, 1},     {0xc0, 0xff, 0x00, 10},
        {0x00, 0x01, 0x00, 70}, {0x23, 0x59, 0x50, 86400},
    };
    static const uint8_t begin[] = {0x23, 0x59, 0x50, 1, 0x01, 0x01, 0x26};

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        struct rig *rig = start();

        set_time(rig, begin, 0x02);
        rig_cmos_read(rig, RTC_C);
        rig_cmos_write(rig, RTC_HOURS_ALARM, rows[i].hours);
        rig_cmos_write(rig, RTC_MINUTES_ALARM, rows[i].minutes);
        rig_cmos_write(rig, RTC_SECONDS_ALARM, rows[i].seconds);
        rig_cmos_write(rig, RTC_B, 0x22);
        rig_advance(rig, (uint64_t)rows[i].wait_s * HV_NS_PER_S - 1);
        TAP_OK(!interrupted(rig));
        rig_advance(rig, 1);
        TAP_OK(interrupted(rig));
        TAP_EQ(rig_cmos_read(rig, RTC_C) & 0xa0, 0xa0);
    }
}

static void test_periodic(void)
{
    static const struct {
        uint8_t rate;
        unsigned hz;
    } rows[] = {{1, 256}, {2, 128}, {3, 8192}, {4, 4096}, {6, 1024}, {9, 128}, {15, 2}};

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        struct rig *rig = start();
        unsigned count = 0;

        rig_cmos_write(rig, RTC_A, 0x20 | rows[i].rate);
        rig_cmos_write(rig, RTC_B, 0x42);
        for (unsigned j = 0; j < 2 * rows[i].hz; j++) {
            rig_advance(rig, HV_NS_PER_S / rows[i].hz + 1);
            count += interrupted(rig);
            TAP_EQ(rig_cmos_read(rig, RTC_C) & 0xc0, 0xc0);
        }
        TAP_EQ(count, 2 * rows[i].hz);
        TAP_EQ(hv_load_relaxed(&rig->platform.rtc.periodic.counters.period_clamped), 0);
    }
    {
        struct rig *rig = start();

        rig_cmos_write(rig, RTC_A, 0x20); /* rate 0: none */
        rig_cmos_write(rig, RTC_B, 0x42);
        rig_advance(rig, HV_NS_PER_S);
        TAP_OK(!interrupted(rig));
        TAP_EQ(rig_cmos_read(rig, RTC_C) & 0x40, 0);
    }
}

static void test_reset(void)
{
    struct rig *rig = start();

    rig_cmos_write(rig, 0x40, 0x5a);
    rig_cmos_write(rig, RTC_B, 0x7a);
    rig_advance(rig, HV_NS_PER_S);
    hv_rtc_reset(&rig->platform.rtc);
    TAP_EQ(rig_cmos_read(rig, RTC_B), 0x02);
    TAP_EQ(rig_cmos_read(rig, RTC_C), 0x00);
    TAP_EQ(rig_cmos_read(rig, 0x40), 0x5a);
    TAP_EQ(rig_cmos_read(rig, RTC_SECONDS), 0x41);
}

/* Report 42, Xen's XSA-503 (52350da926): two vCPUs race with index and data; each access stays inside the memory. */
struct racer {
    struct rig *rig;
    uint8_t index;
    unsigned wrong;
};

static void *race(void *argument)
{
    struct racer *racer = argument;

    for (unsigned i = 0; i < 1000; i++) {
        uint64_t value;

        if (hv_bus_write(&racer->rig->bus, HV_BUS_PORT, 0, 0x70, 1, 0x80 | racer->index) ||
            hv_bus_read(&racer->rig->bus, HV_BUS_PORT, 0, 0x71, 1, &value)) {
            racer->wrong++;
        }
        /* Either its own byte or the other's. */
        racer->wrong += value != 0xa5 && value != 0x5a;
        if (hv_bus_write(&racer->rig->bus, HV_BUS_PORT, 0, 0x70, 1, 0xff)) {
            racer->wrong++;
        }
        if (hv_bus_write(&racer->rig->bus, HV_BUS_PORT, 0, 0x70, 1, racer->index)) {
            racer->wrong++;
        }
    }
    return NULL;
}

static void test_race(void)
{
    struct rig *rig = start();
    struct racer racers[2] = {{rig, 0x50, 0}, {rig, 0x51, 0}};
    pthread_t thread;

    rig_cmos_write(rig, 0x50, 0xa5);
    rig_cmos_write(rig, 0x51, 0x5a);
    rig_cmos_write(rig, 0x7f, 0x5a);
    TAP_EQ(pthread_create(&thread, NULL, race, &racers[0]), 0);
    race(&racers[1]);
    pthread_join(thread, NULL);
    TAP_EQ(racers[0].wrong, 0);
    TAP_EQ(racers[1].wrong, 0);
}

static void test_record(void)
{
    struct hv_rtc_record record, again;

    for (unsigned round = 0; round < 300; round++) {
        struct rig *rig = start();
        struct hv_rtc *rtc = &rig->platform.rtc;
        uint8_t registers[14];
        unsigned interrupts = 0;

        for (unsigned i = 0; i < 10; i++) {
            uint8_t index = (uint8_t)(tap_rng() % 2 ? RTC_A + tap_rng() % 2 : tap_rng() % 14);

            rig_cmos_write(rig, index,
                           (uint8_t)(index == RTC_A ? 0x20 | tap_rng() % 16 : tap_rng()));
            rig_advance(rig, tap_rng() % (2 * HV_NS_PER_S));
        }
        hv_rtc_save(rtc, &record);
        if (hv_rtc_check(&record)) {
            tap_fail(__FILE__, __LINE__, "own record refused: %s", hv_rtc_check(&record));
        }
        rig_cmos_read(rig, RTC_C);
        rig_take(rig, 0);
        for (unsigned i = 0; i < 5; i++) {
            rig_advance(rig, 333333333);
            interrupts += interrupted(rig);
            rig_cmos_read(rig, RTC_C);
        }
        for (unsigned i = 0; i < 14; i++) {
            registers[i] = rig_cmos_read(rig, (uint8_t)i);
        }
        rig = start();
        rig_advance(rig, tap_rng() % (3 * HV_NS_PER_S));
        hv_rtc_load(rtc, &record);
        hv_rtc_save(rtc, &again);
        TAP_OK(memcmp(&record, &again, sizeof(record)) == 0);
        rig_cmos_read(rig, RTC_C);
        rig_take(rig, 0);
        for (unsigned i = 0; i < 5; i++) {
            rig_advance(rig, 333333333);
            interrupts -= interrupted(rig);
            rig_cmos_read(rig, RTC_C);
        }
        TAP_EQ(interrupts, 0);
        for (unsigned i = 0; i < 14; i++) {
            TAP_EQ(rig_cmos_read(rig, (uint8_t)i), registers[i]);
        }
    }
    record.memory[RTC_C] = 0x80;
    TAP_STR(hv_rtc_check(&record), "rtc.register_c");
    record.memory[RTC_B] = 0x90;
    TAP_STR(hv_rtc_check(&record), "rtc.register_b");
    record.index = 0x80;
    TAP_STR(hv_rtc_check(&record), "rtc.index");
}

/* A vCPU that was away for 50 ticks of 1024 Hz gets all of them, twice as fast as they came. */
static void test_catches_up(void)
{
    struct rig *rig = start();
    const struct hv_vpt *timer = &rig->platform.rtc.periodic;
    unsigned taken = 0;

    rig_cmos_write(rig, RTC_A, RTC_A_DIVIDER_32K | 6);
    rig_cmos_write(rig, RTC_B, RTC_B_24H | RTC_B_PIE);
    rig_cmos_read(rig, RTC_C);
    rig_sleep(rig, 50 * HV_NS_PER_S / 1024 + 1000);
    for (unsigned i = 0; i < 60 * 100; i++) {
        if (interrupted(rig)) {
            taken++;
            TAP_OK(rig_cmos_read(rig, RTC_C) & RTC_C_PF);
            rig_eoi(rig, 0);
            rig_outb(rig, 0xa0, 0x20);
            rig_outb(rig, 0x20, 0x20);
        }
        rig_advance(rig, HV_NS_PER_S / 1024 / 100);
    }
    TAP_EQ(hv_load_relaxed(&timer->pending), 0);
    TAP_OK(taken == 109 || taken == 110);
    TAP_EQ(hv_load_relaxed(&timer->counters.accepted), taken);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"platform.rtc.calendar", test_calendar},
        {"platform.rtc.advance", test_advance},
        {"platform.rtc.first-time", test_first_time},
        {"platform.rtc.formats", test_formats},
        {"platform.rtc.set-stops", test_set_stops},
        {"platform.rtc.divider", test_divider},
        {"reports.41.rtc-update-in-progress", test_update_in_progress},
        {"platform.rtc.update-interrupt", test_update_interrupt},
        {"platform.rtc.alarm", test_alarm},
        {"platform.rtc.periodic", test_periodic},
        {"platform.rtc.catches-up", test_catches_up},
        {"platform.rtc.reset", test_reset},
        {"reports.42.rtc-index-and-data", test_race},
        {"platform.rtc.record", test_record},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
