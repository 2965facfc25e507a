/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The flush protocol: who is filtered, who is asked, who is waited for. */
#include "lib/threads.h"
#include "sync/race.h"
#include "unit/mem/mem-fixture.h"

#include <signal.h>

static struct fixture fixture;
static struct hv_flush_counters counters;

static void flush(uint64_t mask, uint64_t mappers, uint64_t stamp)
{
    hv_holders_flush(&fixture.arena->holders, fixture.memory.holder, mask, mappers, stamp,
                     &counters);
}

static bool counted(uint64_t issued, uint64_t filtered, uint64_t lazy, uint64_t waited)
{
    bool right = hv_load_relaxed(&counters.issued) == issued &&
                 hv_load_relaxed(&counters.filtered) == filtered &&
                 hv_load_relaxed(&counters.lazy) == lazy &&
                 hv_load_relaxed(&counters.waited) == waited;

    counters = (struct hv_flush_counters){0};
    return right;
}

static bool open_fixture(void)
{
    counters = (struct hv_flush_counters){0};
    return fixture_open(&fixture, 1, 1, NULL, NULL);
}

/* A holder needs a flush for a stamp if and only if flushed <= stamp. */
static void test_filter(void)
{
    struct hv_holders *holders;
    uint64_t stamp;

    TAP_OK(open_fixture());
    holders = &fixture.arena->holders;
    stamp = hv_flush_clock(holders);
    flush(1, HV_MAPPERS_NONE, stamp);
    TAP_OK(counted(1, 0, 1, 0));
    fake_vcpu_flush(&fixture.vcpu[0]);
    TAP_EQ(hv_load_seq(&fixture.vcpu[0].holder.flushed), stamp + 1);
    flush(1, HV_MAPPERS_NONE, stamp);
    TAP_OK(counted(0, 1, 0, 0));
    flush(1, HV_MAPPERS_NONE, stamp + 1);
    TAP_OK(counted(1, 0, 1, 0));
    /* Both in the mask: one is asked, one is not. */
    flush(3, HV_MAPPERS_NONE, stamp);
    TAP_OK(counted(1, 1, 1, 0));
    flush(0, HV_MAPPERS_ALL, stamp);
    TAP_OK(counted(0, 0, 0, 0));
    fixture_close(&fixture);
}

/* OUTSIDE is asked and not waited for, and flushes before it looks up again. */
static void test_lazy(void)
{
    struct fake_vcpu *vcpu = &fixture.vcpu[0];

    TAP_OK(open_fixture());
    fake_vcpu_enter(vcpu);
    vcpu->writable[5] = (hv_mfn){5};
    hv_doorbell_leave(&vcpu->bell);
    flush(1, HV_MAPPERS_NONE, hv_flush_clock(&fixture.arena->holders));
    TAP_OK(counted(1, 0, 1, 0));
    /* Its time has not moved: nothing was flushed yet. */
    TAP_EQ(hv_load_seq(&vcpu->holder.flushed), 0);
    TAP_EQ(vcpu->writable[5].v, 5);
    TAP_OK(!fake_vcpu_can_write(vcpu, (hv_gfn){5}));
    fixture_close(&fixture);
}

static _Atomic uint32_t phase;

static void guest_body(unsigned index, void *context)
{
    struct fake_vcpu *vcpu = &fixture.vcpu[index];

    (void)context;
    fake_vcpu_enter(vcpu);
    hv_add_seq(&phase, 1);
    while (!hv_load_seq(&vcpu->bell.exit_request)) {
        threads_patient(0);
    }
    /* Something else is served and acknowledged first: that is not what the asker waits for. */
    hv_doorbell_acknowledge(&vcpu->bell);
    fake_vcpu_serve(vcpu);
    hv_doorbell_leave(&vcpu->bell);
}

/* IN_GUEST is waited for until it has flushed; an acknowledgement of something else is not it. */
static void test_wait(void)
{
    struct threads guests;
    uint64_t stamp;

    TAP_OK(open_fixture());
    hv_store_seq(&phase, 0);
    threads_start(&guests, 2, guest_body, NULL);
    TAP_AWAIT(hv_load_seq(&phase) == 2);
    stamp = hv_flush_clock(&fixture.arena->holders);
    flush(3, HV_MAPPERS_NONE, stamp);
    TAP_OK(hv_load_seq(&fixture.vcpu[0].holder.flushed) > stamp);
    TAP_OK(hv_load_seq(&fixture.vcpu[1].holder.flushed) > stamp);
    TAP_OK(counted(2, 0, 0, 2));
    threads_join(&guests);
    fixture_close(&fixture);
}

/* Mappers are asked only while they use pointers, and only when asked for. */
static void test_mappers(void)
{
    struct hv_holder *mapper = &fixture.vcpu[0].holder;

    TAP_OK(open_fixture());
    hv_holders_register_mapper(&fixture.arena->holders, mapper);
    flush(0, HV_MAPPERS_ALL, 1000);
    TAP_OK(counted(0, 1, 0, 0));
    hv_holder_mark_dirty(mapper);
    flush(0, HV_MAPPERS_NONE, 1000);
    TAP_OK(counted(0, 0, 0, 0));
    flush(0, HV_MAPPERS_ALL, 1000);
    TAP_OK(counted(1, 0, 1, 0));
    hv_holders_retire_mapper(&fixture.arena->holders, mapper);
    flush(0, HV_MAPPERS_ALL, 1000);
    TAP_OK(counted(0, 0, 0, 0));
    fixture_close(&fixture);
}

static void mapper_body(unsigned index, void *context)
{
    const struct hv_mapper_config config = {.name = "short-lived"};
    struct hv_mapper *mapper;

    (void)index;
    (void)context;
    if (hv_mapper_create(fixture.arena, &config, &mapper)) {
        return;
    }
    for (unsigned i = 0; i < 50; i++) {
        hv_mapper_enter(mapper);
        hv_add_seq(&phase, 1);
        hv_mapper_leave(mapper);
    }
    hv_mapper_destroy(mapper);
}

static void flush_body(unsigned index, void *context)
{
    (void)context;
    if (index == 0) {
        for (unsigned i = 0; i < 200; i++) {
            hv_holders_flush(&fixture.arena->holders, NULL, 0, HV_MAPPERS_ALL,
                             hv_flush_clock(&fixture.arena->holders), &counters);
        }
    } else {
        mapper_body(index, NULL);
    }
}

/* Mappers come and go while they are flushed: none is freed under a flush that waits for it. */
static void test_mapper_churn(void)
{
    TAP_OK(open_fixture());
    for (unsigned i = 0; i < 10; i++) {
        threads_run(4, flush_body, NULL);
    }
    TAP_OK(!hv_list_linked(&fixture.arena->holders.mappers));
    fixture_close(&fixture);
}

static void post_body(unsigned index, void *context)
{
    struct fake_vcpu *vcpu = &fixture.vcpu[index];
    _Atomic uint32_t *served = context;

    fake_vcpu_enter(vcpu);
    hv_add_seq(&phase, 1);
    while (hv_load_seq(&phase) < 10) {
        if (hv_load_seq(&vcpu->bell.exit_request)) {
            uint32_t requests = hv_doorbell_take(&vcpu->bell);

            if (requests & HV_REQUEST_EPOCH) {
                hv_store_seq(&served[index], 1);
            }
            hv_doorbell_acknowledge(&vcpu->bell);
        } else {
            /* Noise: acknowledgements that answer nothing. */
            hv_doorbell_acknowledge(&vcpu->bell);
            threads_patient(0);
        }
    }
    hv_doorbell_leave(&vcpu->bell);
}

static void test_post(void)
{
    for (unsigned i = 0; i < 50 && !tap_failed(); i++) {
        _Atomic uint32_t served[2] = {0, 0};
        struct threads guests;

        TAP_OK(open_fixture());
        hv_store_seq(&phase, 0);
        threads_start(&guests, 2, post_body, served);
        TAP_AWAIT(hv_load_seq(&phase) == 2);
        hv_holders_post(fixture.memory.holder, 3, HV_REQUEST_EPOCH);
        TAP_EQ(hv_load_seq(&served[0]), 1);
        TAP_EQ(hv_load_seq(&served[1]), 1);
        hv_store_seq(&phase, 10);
        threads_join(&guests);
        /* OUTSIDE needs no wait. */
        hv_holders_post(fixture.memory.holder, 3, HV_REQUEST_EPOCH);
        TAP_EQ(hv_load_seq(&fixture.vcpu[0].bell.requests), HV_REQUEST_EPOCH);
        fixture_close(&fixture);
    }
}

static void ask_body(unsigned index, void *context)
{
    bool *post = context;

    (void)index;
    hv_race_name_thread(1);
    if (*post) {
        hv_holders_post(fixture.memory.holder, 1, HV_REQUEST_EPOCH);
    } else {
        flush(1, HV_MAPPERS_NONE, hv_flush_clock(&fixture.arena->holders));
    }
    hv_store_seq(&phase, 1);
}

/*
 * Acknowledgements that are not of this ring end no wait: one of what was taken before it, and those
 * of a vCPU that parks for others in the middle of a block.
 */
static void stale_acknowledgement(bool post)
{
    struct fake_vcpu *vcpu = &fixture.vcpu[0];
    struct threads asker;

    TAP_OK(open_fixture());
    hv_store_seq(&phase, 0);
    fake_vcpu_enter(vcpu);
    TAP_EQ(hv_doorbell_take(&vcpu->bell), 0);
    hv_race_begin();
    hv_race_stop(1, "doorbell.wait.sleeps", 0);
    threads_start(&asker, 1, ask_body, &post);
    TAP_OK(hv_race_await(1, "doorbell.wait.sleeps"));
    for (unsigned i = 0; i < 3; i++) {
        hv_doorbell_acknowledge(&vcpu->bell);
        /* Before the release, which frees the older of the two: it must park there again. */
        hv_race_stop(1, "doorbell.wait.sleeps", 0);
        hv_race_release(1, "doorbell.wait.sleeps");
        TAP_OK(hv_race_await(1, "doorbell.wait.sleeps"));
        TAP_EQ(hv_load_seq(&phase), 0);
        TAP_EQ(hv_load_seq(&vcpu->bell.requests), post ? HV_REQUEST_EPOCH : HV_REQUEST_FLUSH);
    }
    fake_vcpu_serve(vcpu);
    hv_race_end();
    while (hv_load_seq(&phase) == 0) {
        if (hv_load_seq(&vcpu->bell.exit_request)) {
            fake_vcpu_serve(vcpu);
        }
    }
    threads_join(&asker);
    hv_doorbell_leave(&vcpu->bell);
    fixture_close(&fixture);
}

static void test_stale_acknowledgement(void)
{
    if (skip_script()) {
        return;
    }
    stale_acknowledgement(false);
    stale_acknowledgement(true);
}

static void flush_other_body(unsigned index, void *context)
{
    struct fake_vcpu *vcpu = &fixture.vcpu[index];
    struct hv_flush_counters own = {0};

    (void)context;
    for (unsigned i = 0; i < 2000; i++) {
        fake_vcpu_enter(vcpu);
        hv_doorbell_leave(&vcpu->bell);
        hv_holders_flush(&fixture.arena->holders, fixture.memory.holder, UINT64_C(2) >> index,
                         HV_MAPPERS_NONE, hv_flush_clock(&fixture.arena->holders), &own);
    }
    hv_add_seq(&phase, 1);
}

/* Two who flush each other, OUTSIDE as they wait: neither waits for the other's wait. */
static void test_flush_each_other(void)
{
    struct threads pair;

    TAP_OK(open_fixture());
    hv_store_seq(&phase, 0);
    threads_start(&pair, 2, flush_other_body, NULL);
    TAP_AWAIT(hv_load_seq(&phase) == 2);
    threads_join(&pair);
    fixture_close(&fixture);
}

static void flush_under_lock(void)
{
    if (open_fixture()) {
        hv_lock_take(&fixture.memory.p2m.lock);
        flush(1, HV_MAPPERS_NONE, 1);
    }
}

static void test_wait_deadlock(void)
{
    if (!HV_CONFIG_RANKS) {
        tap_skip("this build does not check lock ranks");
        return;
    }
    TAP_DIES(flush_under_lock, SIGABRT, "flush");
}

static void flush_at_the_end(void)
{
    if (open_fixture()) {
        hv_store_seq(&fixture.arena->holders.clock, HV_FRAME_VALUE_MASK);
        (void)hv_holder_flush_begin(&fixture.arena->holders);
    }
}

/*
 * There is no wrap to be handled: 48 bits last for years, and the clock ends the process before it
 * would give a time a second time. Up to there a stamp fits its word and the filter is right.
 */
static void test_clock_wrap(void)
{
    const struct hv_frame_access access = {.memory = &fixture.memory};
    struct hv_frame *frame;
    hv_mfn mfn;

    TAP_OK(open_fixture());
    mfn = fixture_fill(&fixture, (hv_gfn){0});
    frame = hv_arena_frame(fixture.arena, mfn);
    hv_memory_mark_dirty(&fixture.memory, 0);
    hv_store_seq(&fixture.arena->holders.clock, HV_FRAME_VALUE_MASK - 1);
    hv_frame_type_put(fixture.arena, mfn);
    TAP_EQ(hv_load_seq(&frame->type) & HV_FRAME_VALUE_MASK, HV_FRAME_VALUE_MASK - 1);
    TAP_EQ(hv_load_seq(&frame->type) & (HV_FRAME_INUSE | HV_FRAME_STAMPING | HV_FRAME_FTAINT), 0);
    TAP_EQ(hv_frame_type(frame), HV_FRAME_TYPE_WRITABLE);
    fake_vcpu_flush(&fixture.vcpu[0]);
    TAP_EQ(hv_load_seq(&fixture.vcpu[0].holder.flushed), HV_FRAME_VALUE_MASK);
    TAP_EQ(hv_frame_type_get(fixture.arena, mfn, HV_FRAME_TYPE_SEALED, HV_SEAL_PGTABLE, &access),
           0);
    TAP_EQ(hv_load_relaxed(&fixture.memory.flushes.filtered), 1);
    TAP_EQ(hv_load_relaxed(&fixture.memory.flushes.issued), 0);
    fixture_close(&fixture);
    TAP_DIES(flush_at_the_end, SIGABRT, "time");
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"tlb.filter", test_filter},
        {"tlb.lazy", test_lazy},
        {"tlb.wait", test_wait},
        {"tlb.mappers", test_mappers},
        {"tlb.mapper-churn", test_mapper_churn},
        {"tlb.post", test_post},
        {"tlb.stale-acknowledgement", test_stale_acknowledgement},
        {"tlb.wait-deadlock", test_wait_deadlock},
        {"tlb.flush-each-other", test_flush_each_other},
        {"tlb.clock-wrap", test_clock_wrap},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
