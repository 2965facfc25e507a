/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Steal time: the guest's protocol against the writer, who is preempted when, flushes at resume. */
#include "platform/pvsteal.h"

#include "lib/threads.h"
#include "sync/race.h"
#include "unit/platform/pv-rig.h"

#define AREA      UINT64_C(0x2000)
#define VERSION   (AREA + 8)
#define PREEMPTED (AREA + 16)

static void test_counts(void)
{
    struct rig *rig = pv_rig_new(PV_ALL);
    struct hv_pv *pv = &rig->platform.pv;
    uint64_t ready = 1000;

    pv_poke(VERSION, 4, 0xfffffffd);
    pv_poke(PREEMPTED, 1, 0xff);
    TAP_EQ(pv_wrmsr(rig, 1, PV_STEAL, AREA | PV_ON), 0);
    TAP_EQ(hv_pv_settle(pv, 1, ready), 0);
    TAP_EQ(pv_peek(AREA, 8), 1000);
    TAP_EQ(pv_peek(VERSION, 4), 0xfffffffe);
    TAP_EQ(pv_peek(PREEMPTED, 1), 0);
    for (unsigned i = 0; i < 50; i++) {
        hv_pv_leave(pv, 1);
        TAP_EQ(pv_peek(PREEMPTED, 1), 1);
        ready += tap_rng() % HV_NS_PER_S;
        TAP_OK(!hv_pv_enter(pv, 1, ready));
        TAP_EQ(pv_peek(PREEMPTED, 1), 0);
        TAP_EQ(pv_peek(AREA, 8), ready);
        TAP_EQ(pv_peek(VERSION, 4), (0xfffffffe + 2 * (i + 1)) & UINT32_MAX);
    }
    /* What was stolen meanwhile counts; it never falls, not even when the area is another. */
    TAP_OK(pv_register(rig, 1, PV_STEAL, 0));
    TAP_OK(!pv_page_pinned(AREA));
    ready += 77;
    TAP_EQ(pv_wrmsr(rig, 1, PV_STEAL, (AREA + 64) | PV_ON), 0);
    TAP_EQ(hv_pv_settle(pv, 1, ready), 0);
    TAP_EQ(pv_peek(AREA + 64, 8), ready);
}

/* Given up while it is scheduled: from that instruction on nothing is written there. */
static void test_unregistered(void)
{
    struct rig *rig = pv_rig_new(PV_ALL);
    struct hv_pv *pv = &rig->platform.pv;

    TAP_OK(pv_register(rig, 0, PV_STEAL, AREA | PV_ON));
    TAP_EQ(pv_wrmsr(rig, 0, PV_STEAL, 0), 0);
    pv_poke(AREA, 8, 0x1111);
    /* It loses its pCPU before it settles, and settles when it has one again. */
    hv_pv_leave(pv, 0);
    TAP_OK(!hv_pv_enter(pv, 0, 5000));
    TAP_EQ(pv_settle(rig, 0), 0);
    TAP_EQ(pv_peek(AREA, 8), 0x1111);
    TAP_EQ(pv_peek(PREEMPTED, 1), 0);
    TAP_OK(!pv_page_pinned(AREA));
    hv_pv_leave(pv, 0);
    TAP_OK(!hv_pv_enter(pv, 0, 6000));
    TAP_EQ(pv_peek(AREA, 8), 0x1111);
    /* The same by INIT. */
    TAP_OK(pv_register(rig, 0, PV_STEAL, AREA | PV_ON));
    TAP_OK(pv_page_pinned(AREA));
    hv_platform_init_cpu(&rig->platform, 0);
    TAP_OK(!pv_page_pinned(AREA));
    hv_pv_leave(pv, 0);
    TAP_EQ(pv_peek(PREEMPTED, 1), 0);
    TAP_EQ(pv_rdmsr(rig, 0, PV_STEAL), 0);
}

/* Asked of a preempted vCPU, a flush is done when it resumes, once; but only where that is shown. */
static void test_flush(void)
{
    struct rig *rig = pv_rig_new(PV_ALL);
    struct hv_pv *pv = &rig->platform.pv;

    for (unsigned round = 0; round < 2; round++) {
        TAP_OK(pv_register(rig, 0, PV_STEAL, AREA | PV_ON));
        hv_pv_leave(pv, 0);
        pv_poke(PREEMPTED, 1, 3);
        TAP_EQ(hv_pv_enter(pv, 0, 0), round == 0);
        TAP_EQ(pv_peek(PREEMPTED, 1), 0);
        TAP_OK(!hv_pv_enter(pv, 0, 0));
        TAP_EQ(hv_load_relaxed(&pv->vcpu[0].counters.flushes), round == 0);
        rig = pv_rig_new(PV_ALL & ~(1u << HV_PV_TLB_FLUSH));
    }
}

/* ---- a reader on another CPU ---- */

static struct rig *shared;
static struct hv_area guest; /* the guest's view of the same bytes */

/* The guest's protocol, one attempt: false when it saw that it may be torn. */
static bool read_once(uint64_t *steal_out)
{
    uint32_t version = hv_load_acquire((_Atomic uint32_t *)(void *)(guest.host + 8));

    *steal_out = hv_load_acquire((_Atomic uint64_t *)(void *)guest.host);
    return version % 2 == 0 &&
           hv_load_acquire((_Atomic uint32_t *)(void *)(guest.host + 8)) == version;
}

static bool open_shared(void)
{
    shared = pv_rig_new(PV_ALL);
    return hv_area_pin(&guest, &pv_memory.memory, (hv_gpa){AREA}, 64) == 0 &&
           pv_register(shared, 0, PV_STEAL, AREA | PV_ON);
}

static void enter_body(unsigned index, void *context)
{
    (void)index;
    (void)context;
    hv_race_name_thread(1);
    (void)hv_pv_enter(&shared->platform.pv, 0, UINT64_C(0x500000005));
}

/* The writer stands in the middle: the reader knows. */
static void test_version_script(void)
{
    struct threads writer;
    uint64_t steal;

    if (skip_script()) {
        return;
    }
    TAP_OK(open_shared());
    hv_race_begin();
    hv_race_stop(1, "pvsteal.enter.odd", 0);
    threads_start(&writer, 1, enter_body, NULL);
    TAP_OK(hv_race_await(1, "pvsteal.enter.odd"));
    TAP_OK(!read_once(&steal));
    hv_race_end();
    threads_join(&writer);
    TAP_OK(read_once(&steal));
    TAP_EQ(steal, UINT64_C(0x500000005));
    hv_area_unpin(&guest);
}

#define STEPS 20000u

static _Atomic uint32_t written, torn, good;

/* Both halves of what is written are alike, so that a torn value shows. */
static void version_body(unsigned index, void *context)
{
    uint64_t steal;

    (void)context;
    if (index == 0) {
        unsigned steps = threads_rounds(STEPS);

        for (uint64_t i = 1; i <= steps; i++) {
            (void)hv_pv_enter(&shared->platform.pv, 0, i << 32 | i);
        }
        hv_store_seq(&written, 1);
        return;
    }
    while (!hv_load_seq(&written) || hv_load_seq(&good) == 0) {
        if (read_once(&steal)) {
            hv_add_seq(&good, 1);
            hv_add_seq(&torn, (uint32_t)steal != steal >> 32);
        }
    }
}

static void test_version(void)
{
    TAP_OK(open_shared());
    hv_store_seq(&written, 0);
    hv_store_seq(&torn, 0);
    hv_store_seq(&good, 0);
    threads_run(2, version_body, NULL);
    TAP_EQ(hv_load_seq(&torn), 0);
    TAP_OK(hv_load_seq(&good) > 0);
    hv_area_unpin(&guest);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"platform.pvsteal.counts", test_counts},
        {"pv.steal-version.unregistered", test_unregistered},
        {"platform.pvsteal.flush", test_flush},
        {"pv.steal-version.script", test_version_script},
        {"pv.steal-version", test_version},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
