/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The machine's clock as its devices show it: over sleeps of the host, pauses, saves; and machines that
 * lack some of their timers. */
#include "unit/platform/pv-rig.h"
#include "unit/platform/rig-cmos.h"

#include <errno.h>

#include "base/bits.h"
#include "platform/rtc-calendar.h"

#define AREA       UINT64_C(0x1000)
#define PAUSED     2u
#define HOUR       (3600 * HV_NS_PER_S)
#define LAPIC_TICK (UINT64_C(40) * 128) /* a local APIC's tick of 25 MHz, divided by 128 */
#define VECTOR     0x60

static uint64_t begun_ns; /* when the guest's time was 0, as its wall clock's area says */

static struct rig *start(enum hv_clock_policy policy, enum hv_rtc_track track)
{
    struct rig *rig;

    rig_clock_policy = policy;
    rig_rtc_track = track;
    rig = pv_rig_new(PV_ALL);
    if (!rig || !pv_register(rig, 0, PV_CLOCK, AREA | PV_ON) ||
        !pv_register(rig, 0, PV_WALL, AREA + 64)) {
        tap_fail(__FILE__, __LINE__, "no rig");
    }
    begun_ns = pv_peek(AREA + 64 + 4, 4) * HV_NS_PER_S + pv_peek(AREA + 64 + 8, 4);
    return rig;
}

/* Vector VECTOR of vCPU 0's local APIC after @span_ns, once. */
static void arm(struct rig *rig, uint64_t span_ns)
{
    rig_mmio_write(rig, HV_LAPIC_DEFAULT_BASE + 0xf0, 4, 0x1ff);
    rig_mmio_write(rig, HV_LAPIC_DEFAULT_BASE + 0x320, 4, VECTOR);
    rig_mmio_write(rig, HV_LAPIC_DEFAULT_BASE + 0x3e0, 4, 0xa);
    rig_mmio_write(rig, HV_LAPIC_DEFAULT_BASE + 0x380, 4, span_ns / LAPIC_TICK);
}

static int take(struct rig *rig)
{
    int vector = hv_platform_interrupt_acknowledge(&rig->platform, 0);

    rig_mmio_write(rig, HV_LAPIC_DEFAULT_BASE + 0xb0, 4, 0);
    return vector;
}

/* As the domain does. */
static void follow_host(struct rig *rig)
{
    if (hv_guest_clock_unaware(&rig->platform.clock)) {
        hv_platform_pause(&rig->platform);
        hv_platform_resume(&rig->platform);
    } else {
        hv_platform_follow_wall(&rig->platform);
    }
}

/* What the guest takes for the time of day: by its clock, and by the RTC. */
static uint64_t guest_wall(struct rig *rig)
{
    return begun_ns + hv_platform_tsc(&rig->platform);
}

/* The RTC says what a calendar set to @seconds does. */
static bool rtc_shows(struct rig *rig, uint64_t seconds)
{
    uint8_t memory[HV_RTC_BYTES] = {[RTC_B] = rig_cmos_read(rig, RTC_B)};

    rtc_calendar_set(memory, seconds);
    return rig_cmos_read(rig, RTC_SECONDS) == memory[RTC_SECONDS] &&
           rig_cmos_read(rig, RTC_MINUTES) == memory[RTC_MINUTES] &&
           rig_cmos_read(rig, RTC_HOURS) == memory[RTC_HOURS] &&
           rig_cmos_read(rig, RTC_DAY) == memory[RTC_DAY] &&
           rig_cmos_read(rig, RTC_WEEKDAY) == memory[RTC_WEEKDAY] &&
           rig_cmos_read(rig, RTC_MONTH) == memory[RTC_MONTH] &&
           rig_cmos_read(rig, RTC_YEAR) == memory[RTC_YEAR];
}

static bool told(struct rig *rig)
{
    bool paused;

    if (pv_settle(rig, 0) < 0) {
        tap_fail(__FILE__, __LINE__, "cannot settle");
    }
    paused = pv_peek(AREA + 29, 1) & PAUSED;
    pv_poke(AREA + 29, 1, pv_peek(AREA + 29, 1) & ~PAUSED);
    return paused;
}

/* wishes.md, row 33 of the small tests: the host sleeps for an hour. */
static void test_suspend(void)
{
    for (unsigned policy = HV_CLOCK_ADVANCE; policy <= HV_CLOCK_FREEZE; policy++) {
        bool advances = policy == HV_CLOCK_ADVANCE;
        struct rig *rig = start((enum hv_clock_policy)policy, HV_RTC_TRACK_WALL);
        uint64_t before, wall;

        arm(rig, HOUR / 2);
        (void)told(rig);
        before = hv_platform_tsc(&rig->platform);
        hv_clock_sleep(&rig->clock, HOUR);
        TAP_EQ(hv_platform_tsc(&rig->platform), before); /* nobody has noticed */
        follow_host(rig);
        wall = hv_clock_wall_ns(&rig->clock);
        TAP_EQ(hv_platform_tsc(&rig->platform), before + (advances ? HOUR : 0));
        TAP_EQ(guest_wall(rig), wall - (advances ? 0 : HOUR));
        TAP_OK(rtc_shows(rig, wall / HV_NS_PER_S));
        TAP_OK(told(rig));
        TAP_OK(!told(rig));
        /* What fell due meanwhile comes at once; what did not, in as long as it would have. */
        rig_advance(rig, 0);
        TAP_EQ(take(rig), advances ? VECTOR : -1);
        rig_advance(rig, HOUR / 2 - 2 * LAPIC_TICK);
        TAP_EQ(take(rig), -1);
        rig_advance(rig, 2 * LAPIC_TICK);
        TAP_EQ(take(rig), advances ? -1 : VECTOR);
        TAP_OK(rtc_shows(rig, hv_clock_wall_s(&rig->clock)));
    }
}

static void test_pause(void)
{
    for (unsigned policy = HV_CLOCK_ADVANCE; policy <= HV_CLOCK_FREEZE; policy++) {
        bool advances = policy == HV_CLOCK_ADVANCE;
        struct rig *rig = start((enum hv_clock_policy)policy, HV_RTC_TRACK_WALL);
        uint64_t before;

        arm(rig, HV_NS_PER_S);
        (void)told(rig);
        hv_platform_pause(&rig->platform);
        before = hv_platform_tsc(&rig->platform);
        rig_advance(rig, 10 * HV_NS_PER_S);
        TAP_EQ(hv_platform_tsc(&rig->platform), before);
        hv_platform_resume(&rig->platform);
        TAP_OK(told(rig));
        TAP_EQ(guest_wall(rig), hv_clock_wall_ns(&rig->clock) - (advances ? 0 : 10 * HV_NS_PER_S));
        TAP_OK(rtc_shows(rig, hv_clock_wall_s(&rig->clock)));
        rig_advance(rig, 0);
        TAP_EQ(take(rig), advances ? VECTOR : -1);
        rig_advance(rig, HV_NS_PER_S);
        TAP_EQ(take(rig), advances ? -1 : VECTOR);
    }
}

/* A machine that has ended stands still until it is reset and goes on. */
static void test_halt(void)
{
    struct rig *rig = start(HV_CLOCK_FREEZE, HV_RTC_TRACK_WALL);
    uint64_t before = hv_platform_tsc(&rig->platform);

    hv_platform_halt(&rig->platform);
    rig_advance(rig, HOUR);
    TAP_EQ(hv_platform_tsc(&rig->platform), before);
    hv_platform_pause(&rig->platform);
    hv_platform_reset(&rig->platform);
    hv_platform_resume(&rig->platform);
    TAP_EQ(hv_platform_tsc(&rig->platform), before);
    TAP_OK(rtc_shows(rig, hv_clock_wall_s(&rig->clock)));
}

/* Somebody sets the host's wall clock. */
static void test_track(void)
{
    static const int64_t steps[] = {1,
                                    -1,
                                    300000000,
                                    -300000000,
                                    3600000000000,
                                    -3600000000000,
                                    86400000000000 * 365,
                                    -86400000000000 * 365};

    for (unsigned track = HV_RTC_TRACK_WALL; track <= HV_RTC_TRACK_GUEST; track++) {
        struct rig *rig = start(HV_CLOCK_ADVANCE, (enum hv_rtc_track)track);
        int64_t off = 0;

        for (size_t i = 0; i < HV_ARRAY_LEN(steps); i++) {
            uint64_t before = hv_platform_tsc(&rig->platform);

            hv_clock_set_wall(&rig->clock, steps[i]);
            off += track == HV_RTC_TRACK_GUEST ? steps[i] : 0;
            follow_host(rig);
            TAP_EQ(hv_platform_tsc(&rig->platform), before);
            for (unsigned n = 0; n < 8; n++) {
                uint64_t shown = hv_clock_wall_ns(&rig->clock) - (uint64_t)off;

                TAP_OK(rtc_shows(rig, shown / HV_NS_PER_S));
                rig_advance(rig, tap_rng() % (2 * HV_NS_PER_S));
            }
        }
    }
}

/* What the guest has set it to stays: it is off by as much as before. While it is being set, nothing is
 * done to it. */
static void test_track_offset(void)
{
    struct rig *rig = start(HV_CLOCK_ADVANCE, HV_RTC_TRACK_WALL);

    rig_cmos_write(rig, RTC_B, RTC_B_24H | RTC_B_SET);
    hv_clock_set_wall(&rig->clock, -(int64_t)HOUR);
    follow_host(rig);
    TAP_OK(rtc_shows(rig, hv_clock_wall_s(&rig->clock) + 3600));
    rig_cmos_write(rig, RTC_B, RTC_B_24H);
    hv_clock_set_wall(&rig->clock, -(int64_t)HOUR);
    follow_host(rig);
    TAP_OK(rtc_shows(rig, hv_clock_wall_s(&rig->clock) + 3600));
}

/* wishes.md, row 35 of the small tests: timers do not wait until the host's clock has caught up. */
static void test_step_back(void)
{
    struct rig *rig = start(HV_CLOCK_ADVANCE, HV_RTC_TRACK_GUEST);
    unsigned kicks;
    uint64_t before;

    arm(rig, HV_NS_PER_S);
    before = hv_platform_tsc(&rig->platform);
    kicks = rig->kicks[0];
    hv_clock_step_back(&rig->clock, 10 * HV_NS_PER_S);
    TAP_EQ(hv_platform_tsc(&rig->platform), before);
    TAP_EQ(rig->kicks[0], kicks + 1);
    hv_platform_settle_clock(&rig->platform);
    TAP_OK(!rig->platform.clock_moved);
    rig_advance(rig, HV_NS_PER_S - 2 * LAPIC_TICK);
    TAP_EQ(take(rig), -1);
    rig_advance(rig, 2 * LAPIC_TICK);
    TAP_EQ(take(rig), VECTOR);
}

/* wishes.md, row 32 of the small tests: saved at any instant, restored 10 s later on another host. */
static void test_save_restore(void)
{
    static struct hv_platform_record record;

    for (unsigned i = 0; i < 60; i++) {
        bool advances = i % 2 == 0;
        uint64_t left_ns = HV_NS_PER_S + tap_rng() % (20 * HV_NS_PER_S);
        struct rig *rig = start(advances ? HV_CLOCK_ADVANCE : HV_CLOCK_FREEZE, HV_RTC_TRACK_WALL);
        const char *field = NULL;
        uint64_t saved, wall, since;

        rig_advance(rig, tap_rng() % HOUR);
        arm(rig, left_ns + HV_NS_PER_S);
        rig_advance(rig, HV_NS_PER_S);
        hv_platform_pause(&rig->platform);
        rig_advance(rig, tap_rng() % HV_NS_PER_S);
        saved = hv_platform_tsc(&rig->platform);
        since = begun_ns;
        hv_platform_save(&rig->platform, &record);
        TAP_EQ(record.clock.guest_ns, saved);
        wall = record.clock.wall_ns + 10 * HV_NS_PER_S;
        rig = start(rig_clock_policy, HV_RTC_TRACK_WALL);
        begun_ns = since;
        hv_clock_set_wall(&rig->clock, (int64_t)(wall - hv_clock_wall_ns(&rig->clock)));
        hv_platform_pause(&rig->platform);
        TAP_EQ(hv_platform_load(&rig->platform, &record, &field), 0);
        TAP_EQ(hv_platform_tsc(&rig->platform), saved);
        hv_platform_resume(&rig->platform);
        TAP_OK(told(rig));
        TAP_EQ(hv_platform_tsc(&rig->platform), saved + (advances ? 10 * HV_NS_PER_S : 0));
        TAP_EQ(guest_wall(rig), wall - (advances ? 0 : 10 * HV_NS_PER_S));
        TAP_OK(rtc_shows(rig, wall / HV_NS_PER_S));
        if (advances) {
            left_ns -= left_ns < 10 * HV_NS_PER_S ? left_ns : 10 * HV_NS_PER_S;
        }
        if (left_ns > 2 * LAPIC_TICK) {
            rig_advance(rig, left_ns - 2 * LAPIC_TICK);
            TAP_EQ(take(rig), -1);
            left_ns = 2 * LAPIC_TICK;
        }
        rig_advance(rig, left_ns);
        TAP_EQ(take(rig), VECTOR);
    }
}

/* ---- machines that lack timers ---- */

struct absence {
    unsigned part;
    unsigned gone; /* virtual timers that there are no more */
    bool pit, rtc, hpet;
};

static const struct absence absences[] = {
    {0, 0, true, true, true},
    {HV_TIMER_PIT, 1, false, true, true},
    {HV_TIMER_RTC, 1, true, false, true},
    {HV_TIMER_HPET, HV_HPET_TIMERS, true, true, false},
    {HV_TIMER_PIT | HV_TIMER_RTC | HV_TIMER_HPET, 2 + HV_HPET_TIMERS, false, false, false},
};

static void check_absence(const struct absence *absence)
{
    struct hv_platform_timer timer;
    struct rig *rig = rig_new();
    bool seen[3] = {false};

    rig_outb(rig, 0x43, 0x34);
    rig_outb(rig, 0x40, 0x10);
    rig_outb(rig, 0x40, 0);
    rig_advance(rig, HV_NS_PER_S);
    TAP_EQ(rig_inb(rig, 0x40) == 0xff && rig_inb(rig, 0x61) == 0xff, !absence->pit);
    TAP_EQ(rig_cmos_read(rig, RTC_D) == 0xff, !absence->rtc);
    TAP_EQ(rig_mmio_read(rig, HV_HPET_BASE, 4) == UINT32_MAX, !absence->hpet);
    TAP_EQ(hv_platform_timers(&rig->platform), 3 + HV_HPET_TIMERS + RIG_VCPUS - absence->gone);
    for (unsigned i = 0; i < hv_platform_timers(&rig->platform); i++) {
        hv_platform_get_timer(&rig->platform, i, &timer);
        seen[0] |= strcmp(timer.name, "pit0") == 0;
        seen[1] |= strcmp(timer.name, "rtc") == 0;
        seen[2] |= strcmp(timer.name, "hpet2") == 0;
    }
    TAP_EQ(seen[0], absence->pit);
    TAP_EQ(seen[1], absence->rtc);
    TAP_EQ(seen[2], absence->hpet);
    hv_platform_get_timer(&rig->platform, hv_platform_timers(&rig->platform) - 1, &timer);
    TAP_STR(timer.name, "lapic3");
}

static void test_absent(void)
{
    static struct hv_platform_record record;
    const char *field = NULL;
    struct rig *rig;

    for (size_t i = 0; i < HV_ARRAY_LEN(absences) && !tap_failed(); i++) {
        rig_timers_absent = absences[i].part;
        check_absence(&absences[i]);
    }
    rig = rig_new();
    hv_platform_pause(&rig->platform);
    hv_platform_save(&rig->platform, &record);
    TAP_EQ(hv_platform_load(&rig->platform, &record, &field), 0);
    /* A guest that has found a PIT goes nowhere without. */
    record.timers_absent = 0;
    TAP_EQ(hv_platform_load(&rig->platform, &record, &field), -EPROTO);
    TAP_STR(field, "platform.timers_absent");
    rig_timers_absent = 0;
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"clock.host-suspend", test_suspend},
        {"platform.clock.pause", test_pause},
        {"platform.clock.halt", test_halt},
        {"platform.clock.track", test_track},
        {"platform.clock.track-offset", test_track_offset},
        {"platform.clock.step-back", test_step_back},
        {"clock.save-restore", test_save_restore},
        {"platform.clock.absent", test_absent},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
