/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The paravirtual interface: which MSRs are there, what hostile values come to, save and load. */
#include "platform/pv.h"

#include <errno.h>
#include <sys/mman.h>

#include "mem/arena-private.h"
#include "unit/platform/pv-rig.h"

#define AREA UINT64_C(0x3000)

/* What is not shown is not there. */
static void test_shown(void)
{
    static const struct {
        uint32_t feature, msr;
    } rows[] = {
        {HV_PV_CLOCKSOURCE, 0x11},      {HV_PV_CLOCKSOURCE, 0x12},    {HV_PV_CLOCKSOURCE2, PV_WALL},
        {HV_PV_CLOCKSOURCE2, PV_CLOCK}, {HV_PV_STEAL_TIME, PV_STEAL}, {HV_PV_EOI, PV_EOI},
        {HV_PV_POLL_CONTROL, PV_POLL},
    };
    static const uint32_t never[] = {0x4b564d02, 0x4b564d06, 0x4b564d07, 0x4b564d08,
                                     0x4b564dff, 0x4b564cff, 0x13};
    uint64_t value;

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        struct rig *rig = pv_rig_new(PV_ALL);

        TAP_EQ(pv_rdmsr(rig, 0, rows[i].msr), rows[i].msr == PV_POLL);
        TAP_EQ(pv_wrmsr(rig, 0, rows[i].msr, 0), 0);
        rig = pv_rig_new(PV_ALL & ~(1u << rows[i].feature));
        TAP_EQ(hv_platform_msr_read(&rig->platform, 0, rows[i].msr, &value), (uint64_t)-ENOENT);
        TAP_EQ(pv_wrmsr(rig, 0, rows[i].msr, 0), (uint64_t)-ENOENT);
    }
    for (size_t i = 0; i < HV_ARRAY_LEN(never); i++) {
        struct rig *rig = pv_rig_new(PV_ALL);

        TAP_EQ(hv_platform_msr_read(&rig->platform, 0, never[i], &value), (uint64_t)-ENOENT);
        TAP_EQ(pv_wrmsr(rig, 0, never[i], 0), (uint64_t)-ENOENT);
    }
}

/* Addresses where no area can be: refused at once, or ignored and counted; nothing stays pinned. */
static void test_hostile(void)
{
    static const struct {
        uint32_t msr;
        uint64_t value;
        int want;
        bool counted;
    } rows[] = {
        {PV_CLOCK, (AREA + 2) | PV_ON, 0, true},           /* not aligned */
        {PV_CLOCK, (AREA - 28) | PV_ON, 0, true},          /* over a page's end */
        {PV_CLOCK, (AREA - 32) | PV_ON, 0, false},         /* up to it */
        {PV_CLOCK, PV_DEVICE | PV_ON, 0, true},            /* no RAM */
        {PV_CLOCK, PV_RAM_END | PV_ON, 0, true},           /* behind it */
        {PV_CLOCK, UINT64_C(0xfffffffffffffffd), 0, true}, /* no physical address */
        {PV_CLOCK, UINT64_C(0x7ffffffffffff001), 0, true},
        {PV_CLOCK, PV_DEVICE, 0, false},                    /* not switched on */
        {PV_STEAL, AREA | 0x20 | PV_ON, HV_FAULTED, false}, /* reserved bits */
        {PV_STEAL, 2, HV_FAULTED, false},
        {PV_STEAL, PV_DEVICE | PV_ON, 0, true},
        {PV_STEAL, PV_RAM_END | PV_ON, 0, true},
        {PV_STEAL, UINT64_C(0xffffffffffffffc1), 0, true},
        {PV_EOI, AREA | 2 | PV_ON, HV_FAULTED, false},
        {PV_EOI, PV_DEVICE | PV_ON, HV_FAULTED, false},
        {PV_EOI, PV_RAM_END | PV_ON, HV_FAULTED, false},
        {PV_EOI, UINT64_C(0xfffffffffffffffd), HV_FAULTED, false},
        {PV_EOI, PV_DEVICE, 0, false},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        struct rig *rig = pv_rig_new(PV_ALL);

        TAP_EQ(pv_wrmsr(rig, 0, rows[i].msr, rows[i].value), rows[i].want);
        TAP_EQ(pv_rdmsr(rig, 0, rows[i].msr), rows[i].want == 0 ? rows[i].value : 0);
        TAP_EQ(rig->looks[0], rows[i].want == 0);
        TAP_EQ(pv_settle(rig, 0), 0);
        TAP_EQ(pv_refused(rig, 0), rows[i].counted);
        if (tap_failed()) {
            tap_note("row %zu", i);
        }
    }
}

/* Any values in any order, on all vCPUs: at the end nothing is pinned. */
static void test_random(void)
{
    static const uint32_t msrs[] = {PV_WALL, PV_CLOCK, PV_STEAL, PV_EOI, 0x11, 0x12};
    struct rig *rig = pv_rig_new(PV_ALL);
    struct hv_pv *pv = &rig->platform.pv;
    unsigned pinned = 0;

    for (unsigned i = 0; i < 3000; i++) {
        unsigned vcpu = (unsigned)(tap_rng() % RIG_VCPUS);
        uint64_t value = tap_rng() % 3 ? tap_rng() % (PV_RAM_END + 0x10000) : tap_rng();

        value &= tap_rng() % 2 ? ~UINT64_C(0x3e) : UINT64_MAX;
        (void)pv_wrmsr(rig, vcpu, msrs[tap_rng() % HV_ARRAY_LEN(msrs)], value);
        if (tap_rng() % 4) {
            TAP_EQ(hv_pv_settle(pv, vcpu, i), 0);
        }
        if (tap_rng() % 16 == 0) {
            hv_platform_init_cpu(&rig->platform, vcpu);
        }
        hv_pv_leave(pv, vcpu);
        (void)hv_pv_enter(pv, vcpu, i);
    }
    hv_platform_reset(&rig->platform);
    for (uint64_t i = 0; i < hv_arena_frames(pv_memory.arena); i++) {
        pinned += hv_frame_pinned(hv_arena_frame(pv_memory.arena, (hv_mfn){i}));
    }
    TAP_EQ(pinned, 0);
    check_all_frames(pv_memory.arena);
    for (size_t i = 0; i < HV_ARRAY_LEN(msrs); i++) {
        TAP_EQ(pv_rdmsr(rig, 0, msrs[i]), 0);
    }
}

/* The host has no memory for the page: it is tried again, as often as it takes. */
static void test_no_memory(void)
{
    struct rig *rig = pv_rig_new(PV_ALL);
    struct hv_arena *arena = pv_memory.arena;

    TAP_EQ(pv_wrmsr(rig, 0, PV_CLOCK, AREA | PV_ON), 0);
    TAP_EQ(pv_wrmsr(rig, 0, PV_STEAL, (AREA + 64) | PV_ON), 0);
    TAP_EQ(pv_wrmsr(rig, 0, PV_EOI, (AREA + 128) | PV_ON), 0);
    TAP_EQ(munmap(arena->base, HV_EXTENT_SIZE), 0);
    TAP_EQ(pv_settle(rig, 0), (uint64_t)-ENOMEM);
    TAP_EQ(pv_settle(rig, 0), (uint64_t)-ENOMEM);
    TAP_EQ(hv_backing_map(&arena->backing, arena->base, 0, HV_EXTENT_SIZE), 0);
    TAP_EQ(pv_settle(rig, 0), 0);
    TAP_EQ(pv_refused(rig, 0), 0);
    TAP_OK(pv_peek(AREA, 4) != 0 && pv_peek(AREA + 64 + 8, 4) != 0);
    TAP_OK(hv_area_pinned(&rig->platform.lapics.lapic[0].eoi_area));
}

/* A kick stands until it is taken, and is taken once. */
static void test_kick(void)
{
    struct rig *rig = pv_rig_new(PV_ALL);
    struct hv_pv *pv = &rig->platform.pv;

    TAP_OK(!hv_pv_kicked(pv, 2) && !hv_pv_take_kick(pv, 2));
    hv_pv_kick(pv, 2);
    hv_pv_kick(pv, 2);
    TAP_OK(hv_pv_kicked(pv, 2) && !hv_pv_kicked(pv, 1));
    TAP_OK(hv_pv_take_kick(pv, 2));
    TAP_OK(!hv_pv_take_kick(pv, 2));
    TAP_EQ(hv_load_relaxed(&pv->vcpu[2].counters.kicks), 1);
    hv_pv_kick(pv, 2);
    hv_platform_init_cpu(&rig->platform, 2);
    TAP_OK(!hv_pv_kicked(pv, 2));
}

/* Until the guest says so, and after a reset, but not for an INIT: as KVM does. */
static void test_poll(void)
{
    struct rig *rig = pv_rig_new(PV_ALL);
    struct hv_pv *pv = &rig->platform.pv;

    TAP_OK(hv_pv_halt_polled(pv, 1));
    TAP_EQ(pv_wrmsr(rig, 1, PV_POLL, 2), HV_FAULTED);
    TAP_EQ(pv_wrmsr(rig, 1, PV_POLL, 0), 0);
    TAP_OK(!hv_pv_halt_polled(pv, 1) && hv_pv_halt_polled(pv, 0));
    hv_platform_init_cpu(&rig->platform, 1);
    TAP_OK(!hv_pv_halt_polled(pv, 1));
    hv_platform_reset(&rig->platform);
    TAP_OK(hv_pv_halt_polled(pv, 1));
    rig = pv_rig_new(0);
    TAP_OK(hv_pv_halt_polled(&rig->platform.pv, 1));
}

/* ---- save and load ---- */

static struct hv_platform_record record, again;

static void randomise(struct rig *rig)
{
    for (unsigned i = 0; i < RIG_VCPUS; i++) {
        uint64_t page = (tap_rng() % 16) * HV_PAGE_SIZE + 0x10000;

        (void)pv_register(rig, i, PV_CLOCK, (page + i * 256) | tap_rng() % 2);
        (void)pv_register(rig, i, PV_STEAL, (page + i * 256 + 64) | tap_rng() % 2);
        (void)pv_register(rig, i, PV_EOI, (page + i * 256 + 128) | tap_rng() % 2);
        TAP_EQ(pv_wrmsr(rig, i, PV_POLL, tap_rng() % 2), 0);
        (void)hv_pv_enter(&rig->platform.pv, i, tap_rng() % HV_NS_PER_S);
        if (tap_rng() % 2) {
            hv_pv_kick(&rig->platform.pv, i);
        }
    }
    (void)pv_register(rig, 0, PV_WALL, tap_rng() % 2 ? AREA : 0);
}

/* At random instants: the same state comes back, its areas are pinned again, and time goes on. */
static void test_round_trip(void)
{
    for (unsigned round = 0; round < 50; round++) {
        struct rig *rig = pv_rig_new(PV_ALL);
        const char *field;
        uint64_t clock, steal;

        randomise(rig);
        hv_platform_save(&rig->platform, &record);
        clock = record.pv.vcpu[1].clock_msr;
        steal = record.pv.vcpu[2].steal_msr;
        randomise(rig);
        TAP_EQ(hv_platform_load(&rig->platform, &record, &field), 0);
        hv_platform_save(&rig->platform, &again);
        TAP_OK(memcmp(&record.pv, &again.pv, sizeof(record.pv)) == 0);
        hv_platform_resume(&rig->platform);
        for (unsigned i = 0; i < RIG_VCPUS; i++) {
            TAP_EQ(hv_pv_settle(&rig->platform.pv, i, 999), 0);
        }
        TAP_EQ(hv_area_pinned(&rig->platform.pv.vcpu[1].clock.area), clock & 1);
        /* What another scheduler had counted before does not count. */
        TAP_OK(!(steal & 1) || pv_peek(steal & ~PV_ON, 8) == record.pv.vcpu[2].steal_ns);
        TAP_OK(!hv_pv_enter(&rig->platform.pv, 2, 1000));
        TAP_OK(!(steal & 1) || pv_peek(steal & ~PV_ON, 8) == record.pv.vcpu[2].steal_ns + 1);
    }
}

static void test_impossible(void)
{
    static const struct {
        const char *field;
        size_t offset;
        uint32_t value, hidden;
    } rows[] = {
        {"pv.version", offsetof(struct hv_pv_record, version), 99, 0},
        {"pv.features", offsetof(struct hv_pv_record, features), 1, 0},
        {"pv.wall_msr", offsetof(struct hv_pv_record, wall_msr), 0x1000, 0x01000009},
        {"pv.clock_msr", offsetof(struct hv_pv_record, vcpu[1].clock_msr), 0x1000, 0x01000009},
        {"pv.steal_msr", offsetof(struct hv_pv_record, vcpu[1].steal_msr), 0x1002, 0},
        {"pv.steal_msr", offsetof(struct hv_pv_record, vcpu[1].steal_msr), 0x1001, 0x20},
        {"pv.eoi_msr", offsetof(struct hv_pv_record, vcpu[3].eoi_msr), 0x1003, 0},
        {"pv.eoi_msr", offsetof(struct hv_pv_record, vcpu[3].eoi_msr), 0x1001, 0x40},
        {"pv.kicked", offsetof(struct hv_pv_record, vcpu[0].kicked), 2, 0},
        {"pv.kicked", offsetof(struct hv_pv_record, vcpu[0].kicked), 1, 0x80},
        {"pv.poll_msr", offsetof(struct hv_pv_record, vcpu[0].poll_msr), 2, 0},
        {"pv.poll_msr", offsetof(struct hv_pv_record, vcpu[0].poll_msr), 0, 0x1000},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        struct rig *rig = pv_rig_new(PV_ALL & ~rows[i].hidden);
        const char *field = NULL;

        hv_platform_save(&rig->platform, &record);
        memcpy((char *)&record.pv + rows[i].offset, &rows[i].value, sizeof(rows[i].value));
        TAP_EQ(hv_platform_load(&rig->platform, &record, &field), (uint64_t)-EPROTO);
        TAP_STR(field, rows[i].field);
        hv_platform_save(&rig->platform, &again);
        TAP_EQ(again.pv.vcpu[1].clock_msr | again.pv.vcpu[3].eoi_msr | again.pv.wall_msr, 0);
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"platform.pv.shown", test_shown},
        {"platform.pv.hostile", test_hostile},
        {"platform.pv.random", test_random},
        {"platform.pv.no-memory", test_no_memory},
        {"platform.pv.kick", test_kick},
        {"platform.pv.poll", test_poll},
        {"platform.pv.round-trip", test_round_trip},
        {"platform.pv.impossible", test_impossible},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
