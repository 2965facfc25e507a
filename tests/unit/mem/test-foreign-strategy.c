/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Stale translations of mappers: each interleaving that broke a strategy, played against all right
 * ones and against the wrong one that it is known for. A mapper keeps a pointer of a page that it has
 * unmapped; the owner makes a page table of the page; then the mapper must not be able to write it.
 */
#include "base/alloc.h"
#include "lib/foreign-wrong.h"
#include "lib/threads.h"
#include "sync/race.h"
#include "unit/mem/map-cache.h"

static struct fixture fixture;
static struct map_cache cache;

/* Pages: two that the mapper has, and others. */
#define X   ((hv_gfn){0})
#define Y   ((hv_gfn){1})
#define Z   ((hv_gfn){2})
#define OWN ((hv_gfn){3})

static bool open_rig(void)
{
    return fixture_open(&fixture, 1, 4, NULL, NULL) && map_cache_open(&cache, &fixture) &&
           fixture_fill(&fixture, X).v != HV_MFN_NONE.v &&
           fixture_fill(&fixture, Y).v != HV_MFN_NONE.v &&
           fixture_fill(&fixture, Z).v != HV_MFN_NONE.v &&
           fixture_fill(&fixture, OWN).v != HV_MFN_NONE.v;
}

static void close_rig(void)
{
    hv_mapper_destroy(cache.mapper);
    check_all_frames(fixture.arena);
    fixture_close(&fixture);
}

static bool use(hv_gfn gfn)
{
    return map_cache_use(&cache, &fixture, gfn);
}

/* A page table that the mapper could write. */
static bool stale(hv_gfn gfn)
{
    return hv_frame_type(fixture_frame(&fixture, gfn)) == HV_FRAME_TYPE_SEALED &&
           map_cache_can_write(&cache, gfn);
}

/* The script with each right strategy, and then with the wrong ones that it is to catch. */
static void play(void (*script)(bool wrong), const struct hv_foreign_strategy *known_for)
{
    for (unsigned i = 0; i < HV_FOREIGN_STRATEGIES && !tap_failed(); i++) {
        fixture_strategy = hv_foreign_strategies[i];
        script(false);
    }
    if (!tap_failed()) {
        fixture_strategy = known_for;
        script(true);
    }
    if (tap_failed()) {
        tap_note("strategy %s", fixture_strategy->name);
    }
    fixture_strategy = &hv_foreign_taint;
}

/* --- A thread that stands half way through a change --- */

static struct threads changer;
static hv_gfn changed;
static _Atomic uint32_t change_done;

static void change_body(unsigned index, void *context)
{
    (void)index;
    (void)context;
    hv_race_name_thread(1);
    hv_store_seq(&change_done, 1 + (make_table(&fixture, changed) != 0));
    hv_race_name_thread(0);
}

/* Make a table of the page up to @point; to the end when this strategy does not come by there. */
static bool park_change(hv_gfn gfn, const char *point)
{
    bool comes_by = fixture_strategy->change != NULL;

    changed = gfn;
    hv_store_seq(&change_done, 0);
    hv_race_begin();
    if (comes_by) {
        hv_race_stop(1, point, 0);
    }
    threads_start(&changer, 1, change_body, NULL);
    return !comes_by || hv_race_await(1, point);
}

static bool unpark_change(const char *point)
{
    hv_race_release(1, point);
    threads_join(&changer);
    hv_race_end();
    return hv_load_seq(&change_done) == 1;
}

/* --- The scripts --- */

/* The seed discussion: nobody but the owner's own TLBs is flushed. */
static void seed_attack(bool wrong)
{
    TAP_OK(open_rig());
    TAP_OK(use(X));
    TAP_EQ(make_table(&fixture, X), 0);
    TAP_EQ(stale(X), wrong);
    TAP_EQ(make_ram(&fixture, X), 0);
    close_rig();
}

/* Y's stamp is from before the mapper's last flush: its change needs nobody, but X's will. */
static void clear_all(bool wrong)
{
    TAP_OK(open_rig());
    TAP_OK(use(Y) && use(Z));
    drop_leaf_type(&fixture, Y);
    TAP_EQ(make_table(&fixture, Z), 0);
    TAP_OK(!stale(Z));
    TAP_OK(use(X));
    TAP_EQ(take_table(&fixture, Y), 0);
    TAP_EQ(make_table(&fixture, X), 0);
    TAP_EQ(stale(X), wrong);
    close_rig();
}

/* The mapper uses X after the flush for Y and before the change of Y clears the mask. */
static void clear_after(bool wrong)
{
    const char *point = wrong ? "foreign.wrong.flushed" : "holders.flush.mappers";

    TAP_OK(open_rig());
    TAP_OK(use(Y));
    TAP_OK(park_change(Y, point));
    TAP_OK(use(X));
    TAP_OK(unpark_change(point));
    TAP_OK(!stale(Y) || wrong);
    TAP_EQ(make_table(&fixture, X), 0);
    TAP_EQ(stale(X), wrong);
    close_rig();
}

static _Atomic uint32_t second_done;

static void second_body(unsigned index, void *context)
{
    (void)index;
    (void)context;
    hv_store_seq(&second_done, 1 + (make_table(&fixture, X) != 0));
}

static bool waits_for_mask(void)
{
    return fixture.arena->masks &&
           hv_load_seq(&hv_foreign_mask(fixture.arena, 7)->lock.waiters) > 0;
}

/* A second change while the first one has cleared the mask and not flushed yet. */
static void clear_before(bool wrong)
{
    struct threads second;
    bool at_once;
    bool found = false;

    TAP_OK(open_rig());
    TAP_OK(use(X) && use(Y));
    TAP_OK(park_change(Y, "holders.flush.mappers"));
    hv_store_seq(&second_done, 0);
    threads_start(&second, 1, second_body, NULL);
    TAP_AWAIT(hv_load_seq(&second_done) != 0 || waits_for_mask());
    at_once = hv_load_seq(&second_done) != 0;
    if (at_once) {
        found = stale(X);
    }
    TAP_OK(unpark_change("holders.flush.mappers"));
    threads_join(&second);
    TAP_EQ(hv_load_seq(&second_done), 1);
    TAP_EQ(found || stale(X), wrong);
    close_rig();
}

/* A mapper that is using its cache is waited for, as a vCPU in the guest is. */
static void map_cache_waits(bool wrong)
{
    bool asked;

    TAP_OK(open_rig());
    TAP_OK(use(X));
    hv_mapper_enter(cache.mapper);
    changed = X;
    hv_store_seq(&change_done, 0);
    threads_start(&changer, 1, change_body, NULL);
    TAP_AWAIT(hv_load_seq(&change_done) != 0 || hv_mapper_is_asked(cache.mapper));
    asked = hv_mapper_is_asked(cache.mapper);
    TAP_EQ(hv_load_seq(&change_done) != 0 && cache.pointer[X.v], wrong);
    hv_mapper_leave(cache.mapper);
    threads_join(&changer);
    TAP_EQ(hv_load_seq(&change_done), 1);
    TAP_EQ(stale(X), wrong);
    TAP_EQ(asked, fixture_strategy->change != NULL);
    close_rig();
}

static void test_seed_attack(void)
{
    play(seed_attack, &foreign_none);
}

static void test_clear_all(void)
{
    play(clear_all, &foreign_clear_all);
}

static void test_clear_after(void)
{
    if (!skip_script()) {
        play(clear_after, &foreign_clear_after);
    }
}

static void test_clear_before(void)
{
    if (!skip_script()) {
        play(clear_before, &foreign_clear_before);
    }
}

static void test_map_cache(void)
{
    play(map_cache_waits, &foreign_none);
}

/* --- Particulars --- */

static void use_body(unsigned index, void *context)
{
    (void)index;
    (void)context;
    hv_race_name_thread(1);
    hv_store_seq(&change_done, use(X));
    hv_race_name_thread(0);
}

static const struct hv_foreign_strategy *strategy_named(const char *name)
{
    for (unsigned i = 0; i < HV_FOREIGN_STRATEGIES; i++) {
        if (strcmp(hv_foreign_strategies[i]->name, name) == 0) {
            return hv_foreign_strategies[i];
        }
    }
    return NULL;
}

/* An unmap that looked for the active mask before a swap comes late to the idle one. */
static void test_double_late(void)
{
    struct hv_foreign_mask *mask;

    if (skip_script()) {
        return;
    }
    fixture_strategy = strategy_named("double-buffer");
    TAP_OK(open_rig());
    mask = hv_foreign_mask(fixture.arena, 7);
    hv_race_begin();
    hv_race_stop(1, "foreign.double.active", 0);
    threads_start(&changer, 1, use_body, NULL);
    TAP_OK(hv_race_await(1, "foreign.double.active"));
    TAP_EQ(hv_load_seq(&mask->active), 0);
    TAP_EQ(make_table(&fixture, OWN), 0);
    TAP_EQ(hv_load_seq(&mask->active), 1);
    hv_race_release(1, "foreign.double.active");
    threads_join(&changer);
    hv_race_end();
    TAP_EQ(hv_load_seq(&change_done), 1);
    TAP_EQ(hv_load_seq(&mask->bits[0]), 1);
    TAP_EQ(make_table(&fixture, X), 0);
    TAP_EQ(hv_load_seq(&mask->bits[0]), 1); /* asked, but it has not flushed yet */
    TAP_OK(!stale(X));
    TAP_EQ(make_table(&fixture, Y), 0);
    TAP_EQ(hv_load_seq(&mask->bits[0]), 0);
    close_rig();
    fixture_strategy = &hv_foreign_taint;
}

static uint64_t issued(void)
{
    return hv_load_relaxed(&fixture.memory.flushes.issued);
}

/* What each strategy asks of a mapper: for a page that it never had, and for one that it had. */
static void test_counts(void)
{
    static const struct {
        const char *name;
        unsigned unmap, own, foreign;
    } wanted[] = {
        {"taint", 0, 0, 1},       {"all-filtered", 0, 1, 0},  {"put-flush", 1, 0, 0},
        {"mask-locked", 0, 1, 0}, {"double-buffer", 0, 1, 0},
    };

    for (unsigned i = 0; i < HV_ARRAY_LEN(wanted); i++) {
        fixture_strategy = strategy_named(wanted[i].name);
        TAP_OK(fixture_strategy);
        TAP_OK(open_rig());
        TAP_OK(use(X));
        drop_leaf_type(&fixture, X);
        TAP_EQ(hv_load_relaxed(&fixture.arena->unmap_flushes.issued), wanted[i].unmap);
        TAP_EQ(make_table(&fixture, OWN), 0);
        TAP_EQ(issued(), wanted[i].own);
        TAP_OK(!stale(OWN)); /* and what was asked for is served */
        TAP_EQ(take_table(&fixture, X), 0);
        TAP_EQ(issued(), wanted[i].own + wanted[i].foreign);
        TAP_OK(!stale(X));
        close_rig();
    }
    fixture_strategy = &hv_foreign_taint;
}

/* Mappers beyond 64 share bits: a flush for one of them must not spend what another one needs. */
static void shared_bits(void)
{
    static struct map_cache many[65];
    struct map_cache *last = &many[64];

    TAP_OK(open_rig());
    hv_mapper_destroy(cache.mapper);
    for (unsigned i = 0; i < HV_ARRAY_LEN(many); i++) {
        TAP_OK(map_cache_open(&many[i], &fixture));
    }
    /* The first one's Y is older than its last flush, the last one's X is not. */
    TAP_OK(map_cache_use(&many[0], &fixture, Y));
    drop_leaf_type(&fixture, Y);
    TAP_OK(map_cache_use(last, &fixture, Z));
    TAP_EQ(make_table(&fixture, Z), 0);
    TAP_OK(!map_cache_can_write(last, Z));
    TAP_OK(map_cache_use(last, &fixture, X));
    TAP_EQ(take_table(&fixture, Y), 0);
    TAP_OK(!map_cache_can_write(&many[0], Y));
    TAP_EQ(make_table(&fixture, X), 0);
    TAP_OK(!map_cache_can_write(last, X));
    for (unsigned i = 0; i < HV_ARRAY_LEN(many); i++) {
        hv_mapper_destroy(many[i].mapper);
    }
    fixture_close(&fixture);
}

static void test_shared_bits(void)
{
    each_strategy(shared_bits);
}

static void test_no_memory(void)
{
    TAP_OK(open_rig());
    hv_mapper_destroy(cache.mapper);
    hv_alloc_fail_at(1);
    TAP_EQ(hv_arena_set_strategy(fixture.arena, strategy_named("mask-locked")), (uint64_t)-ENOMEM);
    hv_alloc_fail_at(0);
    TAP_OK(fixture.arena->strategy == &hv_foreign_taint);
    fixture_close(&fixture);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"tlb.seed-attack", test_seed_attack},      {"tlb.mask-clear-all", test_clear_all},
        {"tlb.mask-clear-after", test_clear_after}, {"tlb.mask-clear-before2", test_clear_before},
        {"tlb.mapcache", test_map_cache},           {"tlb.double-late", test_double_late},
        {"tlb.strategy-counts", test_counts},       {"tlb.mask-shared-bits", test_shared_bits},
        {"tlb.strategy-no-memory", test_no_memory},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
