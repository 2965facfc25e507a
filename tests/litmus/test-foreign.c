/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Two threads of an owner that make page tables of its pages and RAM again, and a mapper with a map
 * cache that maps, writes and unmaps the same pages. Forbidden: a pointer in the cache to a page that
 * is a page table, seen by the mapper while it uses its cache. No right strategy ever shows it; each
 * wrong one does, soon.
 */
#include "lib/foreign-wrong.h"
#include "lib/threads.h"
#include "sync/race.h"
#include "unit/mem/map-cache.h"

#define CHANGERS 2u
#define PAGES    6u /* a third is nobody's but the mapper's */

static struct fixture fixture;
static struct map_cache cache;

static _Atomic uint32_t changers_left, looks, changes, busy, uses, broken;

/* IN_GUEST: a store could go to a page table. */
static bool can_break(void)
{
    const uint64_t table = HV_FRAME_INUSE | HV_FRAME_VALIDATED;

    for (uint64_t i = 0; i < PAGES; i++) {
        uint64_t word = hv_load_seq(&fixture_frame(&fixture, (hv_gfn){i})->type);

        if (cache.pointer[i] && (word & table) == table &&
            word >> 60 == (uint64_t)HV_FRAME_TYPE_SEALED) {
            return true;
        }
    }
    return false;
}

static void map_pages(void)
{
    for (uint64_t i = 0; hv_load_seq(&changers_left) > 0; i++) {
        hv_gfn gfn = {i * 7 / 3 % PAGES};

        if (map_cache_use(&cache, &fixture, gfn)) {
            hv_add_relaxed(&uses, 1);
        }
        hv_mapper_enter(cache.mapper);
        if (can_break()) {
            hv_add_relaxed(&broken, 1);
        }
        hv_mapper_leave(cache.mapper);
        hv_add_seq(&looks, 1);
    }
}

static void change_page(hv_gfn gfn)
{
    uint32_t seen;

    drop_leaf_type(&fixture, gfn);
    if (take_table(&fixture, gfn) == 0) {
        hv_add_relaxed(&changes, 1);
        /* Until the mapper has looked. */
        seen = hv_load_seq(&looks);
        while (hv_load_seq(&looks) - seen < 2 && threads_patient(UINT64_MAX)) {
        }
        drop_leaf_type(&fixture, gfn);
    } else {
        hv_add_relaxed(&busy, 1);
    }
    if (take_leaf_type(&fixture, gfn, HV_FRAME_TYPE_WRITABLE, 0)) {
        hv_add_relaxed(&broken, 1);
    }
}

static void body(unsigned index, void *context)
{
    unsigned rounds = *(unsigned *)context;

    hv_race_name_thread(index + 1);
    if (index == CHANGERS) {
        map_pages();
        return;
    }
    for (unsigned i = 0; i < rounds; i++) {
        change_page((hv_gfn){CHANGERS * (i % 2) + index});
    }
    hv_sub_seq(&changers_left, 1);
}

static void run(const struct hv_foreign_strategy *strategy, unsigned rounds)
{
    fixture_strategy = strategy;
    TAP_OK(fixture_open(&fixture, 1, PAGES, NULL, NULL) && map_cache_open(&cache, &fixture));
    for (uint64_t i = 0; i < PAGES; i++) {
        TAP_OK(fixture_fill(&fixture, (hv_gfn){i}).v != HV_MFN_NONE.v);
    }
    hv_store_seq(&changers_left, CHANGERS);
    hv_race_begin();
    hv_race_shuffle(tap_rng());
    threads_run(CHANGERS + 1, body, &rounds);
    hv_race_end();
    hv_mapper_destroy(cache.mapper);
    check_all_frames(fixture.arena);
    fixture_close(&fixture);
    fixture_strategy = &hv_foreign_taint;
}

static void forget_counts(void)
{
    changes = busy = uses = broken = 0;
}

static void test_right(void)
{
    for (unsigned i = 0; i < HV_FOREIGN_STRATEGIES; i++) {
        const struct hv_foreign_strategy *strategy = hv_foreign_strategies[i];

        forget_counts();
        run(strategy, threads_rounds(4000));
        tap_note("%s: %u changes, %u refused, %u uses", strategy->name, changes, busy, uses);
        TAP_EQ(broken, 0);
        TAP_OK(changes > 0 && uses > 0);
    }
}

static void test_wrong(void)
{
    if (!HV_CONFIG_RACE_POINTS) {
        tap_skip("this build has no race points: the windows are too narrow");
        return;
    }
    for (unsigned i = 0; i < FOREIGN_WRONG; i++) {
        uint64_t end = threads_patience();
        unsigned turns = 0;

        forget_counts();
        do {
            run(foreign_wrong[i], 100);
            turns++;
        } while (broken == 0 && threads_patient(end));
        tap_note("%s: caught in turn %u", foreign_wrong[i]->name, turns);
        TAP_OK(broken > 0);
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"tlb.taint", test_right},
        {"tlb.wrong-strategies", test_wrong},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
