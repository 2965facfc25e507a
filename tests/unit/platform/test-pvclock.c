/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The guest clock: what a guest works out from its area, at every rate, on every vCPU, over all that
 * may happen to a clock. */
#include "platform/pvclock.h"

#include "unit/platform/pv-rig.h"

#define AREA   UINT64_C(0x1000)
#define STABLE 1u
#define PAUSED 2u

__extension__ typedef unsigned __int128 wide;

struct view {
    uint32_t version, mul;
    uint64_t tsc, time;
    int8_t shift;
    uint8_t flags;
};

static struct view look(uint64_t gpa)
{
    return (struct view){
        .version = (uint32_t)pv_peek(gpa, 4),
        .tsc = pv_peek(gpa + 8, 8),
        .time = pv_peek(gpa + 16, 8),
        .mul = (uint32_t)pv_peek(gpa + 24, 4),
        .shift = (int8_t)pv_peek(gpa + 28, 1),
        .flags = (uint8_t)pv_peek(gpa + 29, 1),
    };
}

/* As Linux's pvclock_clocksource_read() does. */
static uint64_t time_at(const struct view *view, uint64_t tsc)
{
    uint64_t delta = tsc - view->tsc;

    delta = view->shift < 0 ? delta >> -view->shift : delta << view->shift;
    return view->time + (uint64_t)((wide)delta * view->mul >> 32);
}

static uint64_t guest_time(struct rig *rig, unsigned vcpu, uint64_t gpa)
{
    struct view view = look(gpa);

    return time_at(&view, hv_platform_tsc(&rig->platform) + rig_tsc_offset(rig, vcpu));
}

static void test_rates(void)
{
    static const uint64_t khz[] = {1000000, 999999, 1000001, 2000000, 2893404,  3999999,
                                   25000,   500000, 4294967, 4294968, 10000000, 1};
    struct hv_clock clock;

    hv_clock_init_simulated(&clock, (hv_ns){0});
    for (size_t i = 0; i < HV_ARRAY_LEN(khz); i++) {
        struct hv_pvclock pvclock;
        struct view view = {0};
        uint64_t got, want = 100 * HV_NS_PER_S;

        hv_pvclock_init(&pvclock, &clock, khz[i]);
        view.mul = pvclock.mul;
        view.shift = pvclock.shift;
        TAP_OK(view.mul >> 31 == 1); /* all 32 bits are used */
        got = time_at(&view, khz[i] * 1000 * 100);
        /* Of 32 bits the last one is worth 2^-31: 47 ns in 100 s. */
        TAP_OK(got <= want && want - got <= 47);
        /* A year fits. */
        got = time_at(&view, khz[i] * 1000 * 31557600);
        TAP_OK(got > UINT64_C(31557599) * HV_NS_PER_S && got <= UINT64_C(31557600) * HV_NS_PER_S);
    }
}

static void test_follows(void)
{
    struct rig *rig = pv_rig_new(PV_ALL);
    struct view view;

    rig->tsc_offset = 0 - hv_platform_tsc(&rig->platform) + 12345;
    for (unsigned i = 0; i < RIG_VCPUS; i++) {
        hv_platform_tsc_changed(&rig->platform, i);
        TAP_EQ(pv_settle(rig, i), 0);
    }
    TAP_OK(pv_register(rig, 0, PV_CLOCK, AREA | PV_ON));
    TAP_EQ(pv_rdmsr(rig, 0, PV_CLOCK), AREA | PV_ON);
    TAP_EQ(pv_rdmsr(rig, 0, 0x12), AREA | PV_ON); /* the same by its old number */
    view = look(AREA);
    TAP_EQ(view.version % 2, 0);
    TAP_EQ(view.flags, STABLE);
    for (unsigned i = 0; i < 100; i++) {
        TAP_EQ(guest_time(rig, 0, AREA), hv_platform_tsc(&rig->platform));
        rig_advance(rig, tap_rng() % (1000 * HV_NS_PER_S));
    }
    TAP_EQ(look(AREA).version, view.version); /* the formula stands for itself */
    TAP_OK(pv_register(rig, 0, 0x12, 0));
    TAP_OK(!pv_page_pinned(AREA));
    TAP_EQ(pv_rdmsr(rig, 0, PV_CLOCK), 0);
}

/* What stood in the area before does not matter; its version goes on, so that a reader of then sees
 * that it was another. */
static void test_version(void)
{
    static const uint32_t before[] = {0, 1, 2, 0xfffffffe, 0xffffffff};

    for (size_t i = 0; i < HV_ARRAY_LEN(before); i++) {
        struct rig *rig = pv_rig_new(PV_ALL);
        struct view view;

        pv_poke(AREA, 8, before[i]);
        pv_poke(AREA + 8, 8, UINT64_MAX);
        pv_poke(AREA + 28, 4, 0xfffdffff); /* all flags but GUEST_STOPPED */
        TAP_OK(pv_register(rig, 0, PV_CLOCK, AREA | PV_ON));
        view = look(AREA);
        TAP_EQ(view.version, (before[i] & ~1u) + 2);
        TAP_EQ(guest_time(rig, 0, AREA), hv_platform_tsc(&rig->platform));
        TAP_EQ(pv_peek(AREA + 28, 4) >> 16, 0);
    }
}

/* One vCPU's TSC is set apart: no vCPU's clock says any more that they agree; and again, it does. */
static void test_stable(void)
{
    struct rig *rig = pv_rig_new(PV_ALL);

    for (unsigned i = 0; i < 3; i++) {
        TAP_OK(pv_register(rig, i, PV_CLOCK, (AREA + 64 * i) | PV_ON));
        TAP_EQ(look(AREA + 64 * i).flags, STABLE);
    }
    for (unsigned round = 0; round < 2; round++) {
        unsigned looks = rig->looks[2];

        rig->tsc_apart[1] = round == 0 ? 5000 : 0;
        hv_platform_tsc_changed(&rig->platform, 1);
        TAP_EQ(pv_settle(rig, 1), 0);
        TAP_OK(rig->looks[2] > looks); /* the others are told */
        for (unsigned i = 0; i < 3; i++) {
            TAP_EQ(pv_settle(rig, i), 0);
            TAP_EQ(look(AREA + 64 * i).flags, round == 0 ? 0 : STABLE);
            TAP_EQ(guest_time(rig, i, AREA + 64 * i), hv_platform_tsc(&rig->platform));
        }
    }
    /* Set together, they agree when the last has been set. */
    for (unsigned i = 0; i < RIG_VCPUS; i++) {
        rig->tsc_apart[i] = 777;
        hv_platform_tsc_changed(&rig->platform, i);
        TAP_EQ(pv_settle(rig, i), 0);
    }
    for (unsigned i = 0; i < 3; i++) {
        TAP_EQ(pv_settle(rig, i), 0);
        TAP_EQ(look(AREA + 64 * i).flags, STABLE);
        TAP_EQ(guest_time(rig, i, AREA + 64 * i), hv_platform_tsc(&rig->platform));
    }
}

/* A machine that stood still is told so, until it has taken notice. */
static void test_stopped(void)
{
    struct rig *rig = pv_rig_new(PV_ALL);

    TAP_OK(pv_register(rig, 0, PV_CLOCK, AREA | PV_ON));
    hv_platform_pause(&rig->platform);
    hv_clock_advance(&rig->clock, 100 * HV_NS_PER_S);
    hv_platform_resume(&rig->platform);
    TAP_EQ(pv_settle(rig, 0), 0);
    TAP_EQ(look(AREA).flags, STABLE | PAUSED);
    TAP_EQ(guest_time(rig, 0, AREA), hv_platform_tsc(&rig->platform));
    hv_platform_tsc_changed(&rig->platform, 0);
    TAP_EQ(pv_settle(rig, 0), 0);
    TAP_EQ(look(AREA).flags, STABLE | PAUSED);
    pv_poke(AREA + 29, 1, STABLE);
    hv_platform_tsc_changed(&rig->platform, 0);
    TAP_EQ(pv_settle(rig, 0), 0);
    TAP_EQ(look(AREA).flags, STABLE);
}

static void test_wall(void)
{
    static const uint32_t before[] = {0, 7, 0xffffffff};
    struct rig *rig = pv_rig_new(PV_ALL);

    for (size_t i = 0; i < HV_ARRAY_LEN(before); i++) {
        uint64_t now_ns, begun_ns;

        rig_advance(rig, 1234567890);
        pv_poke(AREA, 4, before[i]);
        TAP_OK(pv_register(rig, 1, i % 2 ? 0x11 : PV_WALL, AREA));
        TAP_EQ(pv_peek(AREA, 4), ((before[i] & ~1u) + 2) & UINT32_MAX);
        begun_ns = pv_peek(AREA + 4, 4) * HV_NS_PER_S + pv_peek(AREA + 8, 4);
        now_ns = begun_ns + hv_platform_tsc(&rig->platform);
        TAP_EQ(now_ns, hv_clock_wall_ns(&rig->clock));
        TAP_EQ(pv_rdmsr(rig, 2, PV_WALL), AREA); /* one for all */
    }
    TAP_OK(!pv_page_pinned(AREA));
    TAP_EQ(pv_refused(rig, 1), 0);
    TAP_OK(pv_register(rig, 1, PV_WALL, 0)); /* nothing is asked for */
    TAP_EQ(pv_refused(rig, 1), 0);
    TAP_OK(pv_register(rig, 1, PV_WALL, AREA + 1));
    TAP_OK(pv_register(rig, 1, PV_WALL, PV_DEVICE));
    TAP_OK(pv_register(rig, 1, PV_WALL, PV_RAM_END - 8));
    TAP_OK(pv_register(rig, 1, PV_WALL, UINT64_MAX - 7));
    TAP_EQ(pv_refused(rig, 1), 4);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"platform.pvclock.rates", test_rates},     {"platform.pvclock.follows", test_follows},
        {"platform.pvclock.version", test_version}, {"platform.pvclock.stable", test_stable},
        {"platform.pvclock.stopped", test_stopped}, {"platform.pvclock.wall", test_wall},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
