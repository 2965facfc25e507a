/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Dirty epochs: what was written before a copy is in it, or the page is reported again. The last
 * case copies a guest that writes all the time and compares at the end.
 */
#include "mem/dirty.h"

#include "base/alloc.h"
#include "lib/threads.h"
#include "sync/race.h"
#include "unit/mem/mem-fixture.h"

#define PAGES 96u

static struct fixture fixture;

static uint64_t harvest_all(uint64_t *seen)
{
    hv_gfn gfns[7];
    uint64_t cursor = 0;
    uint64_t total = 0;
    size_t count;

    while ((count = hv_dirty_harvest(&fixture.memory, &cursor, gfns, HV_ARRAY_LEN(gfns))) > 0) {
        for (size_t i = 0; i < count; i++) {
            seen[gfns[i].v / 64] |= UINT64_C(1) << gfns[i].v % 64;
        }
        total += count;
    }
    return total;
}

static void test_rounds(void)
{
    uint64_t seen[HV_EXTENT_FRAMES / 64] = {0};

    TAP_OK(fixture_open(&fixture, 2, HV_EXTENT_FRAMES, NULL, NULL));
    TAP_EQ(hv_dirty_round(&fixture.memory), (uint64_t)-EINVAL);
    hv_memory_note_write(&fixture.memory, (hv_gfn){1}); /* no log: nothing */
    TAP_OK(fixture_fill(&fixture, (hv_gfn){0}).v != HV_MFN_NONE.v);
    TAP_EQ(hv_dirty_start(&fixture.memory), 0);
    TAP_EQ(hv_dirty_start(&fixture.memory), (uint64_t)-EEXIST);
    TAP_EQ(hv_dirty_round(&fixture.memory), 0);
    TAP_EQ(harvest_all(seen), HV_EXTENT_FRAMES);
    TAP_EQ(harvest_all(seen), 0);
    /* Of this epoch: not before the round ends it. */
    memset(seen, 0, sizeof(seen));
    hv_memory_note_write(&fixture.memory, (hv_gfn){70});
    hv_memory_note_write(&fixture.memory, (hv_gfn){5});
    hv_memory_note_write(&fixture.memory, (hv_gfn){5});
    hv_memory_note_write(&fixture.memory, (hv_gfn){UINT64_MAX}); /* beyond: ignored */
    TAP_EQ(harvest_all(seen), 0);
    TAP_EQ(hv_dirty_round(&fixture.memory), 0);
    TAP_EQ(harvest_all(seen), 2);
    TAP_EQ(seen[0], UINT64_C(1) << 5);
    TAP_EQ(seen[1], UINT64_C(1) << 6);
    TAP_EQ(hv_dirty_round(&fixture.memory), 0);
    TAP_EQ(harvest_all(seen), 0);
    TAP_EQ(hv_memory_copy(&fixture.memory, (hv_gpa){9 * HV_PAGE_SIZE}, seen, 8, HV_COPY_TO_GUEST),
           0);
    TAP_EQ(hv_dirty_round(&fixture.memory), 0);
    memset(seen, 0, sizeof(seen));
    TAP_EQ(harvest_all(seen), 1);
    TAP_EQ(seen[0], UINT64_C(1) << 9);
    hv_dirty_stop(&fixture.memory);
    hv_dirty_stop(&fixture.memory);
    TAP_EQ(harvest_all(seen), 0);
    fixture_close(&fixture);
}

static _Atomic uint32_t round_done;

static void note_or_round_body(unsigned index, void *context)
{
    (void)context;
    hv_race_name_thread(index + 1);
    if (index == 0) {
        hv_memory_note_write(&fixture.memory, (hv_gfn){5});
        return;
    }
    if (hv_race_await(1, "dirty.note.entered") && hv_dirty_round(&fixture.memory) == 0) {
        hv_store_seq(&round_done, 1);
    }
}

/* A device that is half way through its note is waited for: else its bit comes too late. */
static void test_waits_for_notes(void)
{
    uint64_t seen[HV_EXTENT_FRAMES / 64] = {0};
    struct threads both;

    if (skip_script()) {
        return;
    }
    TAP_OK(fixture_open(&fixture, 2, HV_EXTENT_FRAMES, NULL, NULL));
    TAP_EQ(hv_dirty_start(&fixture.memory), 0);
    hv_store_seq(&round_done, 0);
    hv_race_begin();
    hv_race_stop(1, "dirty.note.entered", 0);
    threads_start(&both, 2, note_or_round_body, NULL);
    TAP_AWAIT(hv_load_seq(&fixture.memory.changed.waiters) == 1);
    TAP_EQ(hv_load_seq(&round_done), 0);
    hv_race_end();
    threads_join(&both);
    TAP_EQ(hv_load_seq(&round_done), 1);
    TAP_EQ(harvest_all(seen), 1);
    TAP_EQ(seen[0], UINT64_C(1) << 5);
    hv_dirty_stop(&fixture.memory);
    fixture_close(&fixture);
}

static void test_fail_at(void)
{
    int64_t live;
    unsigned failures = 0;
    int err = -ENOMEM;

    TAP_OK(fixture_open(&fixture, 2, HV_EXTENT_FRAMES, NULL, NULL));
    live = hv_alloc_live();
    for (uint64_t n = 1; err == -ENOMEM; n++) {
        hv_alloc_fail_at(n);
        err = hv_dirty_start(&fixture.memory);
        hv_alloc_fail_at(0);
        failures += err == -ENOMEM;
        TAP_OK(!err || hv_alloc_live() == live);
    }
    TAP_EQ(failures, 3);
    hv_dirty_stop(&fixture.memory);
    TAP_EQ(hv_alloc_live(), live);
    fixture_close(&fixture);
}

/* The stress: guest and device write counters into pages, the migrator copies what is reported. */
static struct {
    _Atomic uint64_t page[PAGES]; /* a guest's page: one word */
    _Atomic uint32_t stop;
    bool entry[2][PAGES]; /* write translations, by vCPU; its own thread's */
    uint64_t copy[PAGES];
} world;

static void guest_serve(unsigned index)
{
    struct hv_doorbell *bell = &fixture.vcpu[index].bell;

    if (hv_doorbell_take(bell) & HV_REQUEST_EPOCH) {
        memset(world.entry[index], 0, sizeof(world.entry[index]));
    }
    hv_doorbell_acknowledge(bell);
}

static void guest_write(unsigned index, uint64_t page, uint64_t value)
{
    if (!world.entry[index][page]) {
        hv_memory_note_write(&fixture.memory, (hv_gfn){page});
        world.entry[index][page] = true;
    }
    hv_store_relaxed(&world.page[page], value);
}

static void guest_run(unsigned index)
{
    struct hv_doorbell *bell = &fixture.vcpu[index].bell;
    uint64_t value = 1;

    hv_memory_mark_dirty(&fixture.memory, index);
    while (!hv_load_seq(&world.stop)) {
        while (hv_doorbell_enter(bell) != 0) {
            guest_serve(index);
        }
        for (unsigned i = 0; i < 200; i++, value++) {
            /* Each vCPU has pages of its own, so that a last value is well defined. */
            guest_write(index, index * 32 + value * 7 % 32, value);
            if (hv_load_seq(&bell->exit_request)) {
                guest_serve(index);
            }
        }
        hv_doorbell_leave(bell);
    }
}

/* A device: stores, then notes. */
static void device_run(void)
{
    uint64_t value = 1;

    for (; !hv_load_seq(&world.stop); value++) {
        uint64_t page = 64 + value * 5 % 32;

        hv_store_relaxed(&world.page[page], value);
        hv_memory_note_write(&fixture.memory, (hv_gfn){page});
    }
}

static void writer_body(unsigned index, void *context)
{
    (void)context;
    if (index < 2) {
        guest_run(index);
    } else {
        device_run();
    }
}

static void copy_reported(void)
{
    uint64_t cursor = 0;
    hv_gfn gfns[16];
    size_t count;

    while ((count = hv_dirty_harvest(&fixture.memory, &cursor, gfns, HV_ARRAY_LEN(gfns))) > 0) {
        for (size_t i = 0; i < count; i++) {
            if (gfns[i].v < PAGES) {
                world.copy[gfns[i].v] = hv_load_relaxed(&world.page[gfns[i].v]);
            }
        }
    }
}

static void test_no_lost_write(void)
{
    for (unsigned run = 0; run < 10 && !tap_failed(); run++) {
        struct threads writers;
        unsigned rounds = threads_rounds(60);

        memset(&world, 0, sizeof(world));
        TAP_OK(fixture_open(&fixture, 2, HV_EXTENT_FRAMES, NULL, NULL));
        TAP_OK(fixture_fill(&fixture, (hv_gfn){0}).v != HV_MFN_NONE.v);
        threads_start(&writers, 3, writer_body, NULL);
        TAP_EQ(hv_dirty_start(&fixture.memory), 0);
        for (unsigned i = 0; i < rounds; i++) {
            TAP_EQ(hv_dirty_round(&fixture.memory), 0);
            copy_reported();
        }
        hv_store_seq(&world.stop, 1);
        threads_join(&writers);
        /* Paused: what the last epoch collected. */
        TAP_EQ(hv_dirty_round(&fixture.memory), 0);
        copy_reported();
        for (unsigned i = 0; i < PAGES; i++) {
            TAP_EQ(world.copy[i], hv_load_relaxed(&world.page[i]));
        }
        TAP_EQ(hv_load_relaxed(&fixture.memory.flushes.issued), 0);
        hv_dirty_stop(&fixture.memory);
        fixture_close(&fixture);
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"mem.dirty.rounds", test_rounds},
        {"mem.dirty.waits-for-notes", test_waits_for_notes},
        {"mem.dirty.fail-at-n", test_fail_at},
        {"tlb.logdirty-epoch", test_no_lost_write},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
