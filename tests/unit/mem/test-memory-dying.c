/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A killed memory takes no page, forgets none that was on its way, and knows who holds it. */
#include "lib/threads.h"
#include "sync/race.h"
#include "unit/mem/mem-fixture.h"

#include "base/alloc.h"

#include <signal.h>

static struct fixture fixture;

/* Whatever asks for a page is told, also what had begun and whatever the page is. */
static void test_kill(void)
{
    struct hv_leaf leaf;
    uint64_t word = 0;

    TAP_OK(fixture_open(&fixture, 4, 2 * HV_EXTENT_FRAMES, NULL, NULL));
    TAP_OK(fixture_fill(&fixture, (hv_gfn){0}).v != HV_MFN_NONE.v);
    hv_memory_kill(&fixture.memory);
    TAP_EQ(hv_memory_fill(&fixture.memory, (hv_gfn){600}, &leaf), (uint64_t)-ECANCELED);
    TAP_EQ(hv_memory_get_page(&fixture.memory, (hv_gfn){0}, false, &leaf), (uint64_t)-ECANCELED);
    TAP_EQ(hv_memory_copy(&fixture.memory, (hv_gpa){0}, &word, 8, HV_COPY_FROM_GUEST),
           (uint64_t)-ECANCELED);
    TAP_EQ(hv_memory_add_ram(&fixture.memory, (hv_gfn){5000}, 1), (uint64_t)-ECANCELED);
    TAP_EQ(hv_memory_set_kind(&fixture.memory, (hv_gfn){0}, 1, HV_LEAF_HOLE), (uint64_t)-ECANCELED);
    fixture_close(&fixture);
}

static int copy_error;

static void copy_two_pages(unsigned index, void *context)
{
    static uint8_t bytes[2 * HV_PAGE_SIZE];

    (void)index;
    (void)context;
    hv_race_name_thread(1);
    copy_error =
        hv_memory_copy(&fixture.memory, (hv_gpa){0}, bytes, sizeof(bytes), HV_COPY_TO_GUEST);
}

/* A long copy does not keep the dead waiting: it ends with the page it is at. */
static void test_kill_vs_copy(void)
{
    struct threads copier;

    if (skip_script()) {
        return;
    }
    TAP_OK(fixture_open(&fixture, 4, HV_EXTENT_FRAMES, NULL, NULL));
    hv_race_begin();
    hv_race_stop(1, "memory.copy.typed", 0);
    threads_start(&copier, 1, copy_two_pages, NULL);
    TAP_OK(hv_race_await(1, "memory.copy.typed"));
    hv_memory_kill(&fixture.memory);
    hv_race_end();
    threads_join(&copier);
    TAP_EQ(copy_error, (uint64_t)-ECANCELED);
    fixture_close(&fixture);
}

static int fill_error;

static void fill_as_1(unsigned index, void *context)
{
    struct hv_leaf leaf;

    (void)index;
    (void)context;
    hv_race_name_thread(1);
    fill_error = hv_memory_fill(&fixture.memory, (hv_gfn){600}, &leaf);
}

/* A fill that has looked and found the memory alive, but has not begun its change. */
static bool start_fill(struct threads *filler)
{
    if (!fixture_open(&fixture, 4, 2 * HV_EXTENT_FRAMES, NULL, NULL)) {
        return false;
    }
    hv_race_begin();
    hv_race_stop(1, "memory.change.looked", 0);
    threads_start(filler, 1, fill_as_1, NULL);
    return hv_race_await(1, "memory.change.looked");
}

static void relinquish_all(unsigned index, void *context)
{
    (void)index;
    (void)context;
    while (hv_memory_relinquish(&fixture.memory, 100) == -EAGAIN) {
    }
}

/* Wrong: without taking the page lock once after `dying` is set, nobody waits for the fill. */
static void relinquish_at_once(void)
{
    struct threads filler;

    if (start_fill(&filler)) {
        hv_memory_kill(&fixture.memory);
        fixture.memory.settled = true;
        hv_race_stop(1, "memory.fill.allocated", 0);
        hv_race_release(1, "memory.change.looked");
        if (hv_race_await(1, "memory.fill.allocated")) {
            relinquish_all(0, NULL);
            hv_race_end();
            threads_join(&filler);
        }
    }
}

static void test_assign_vs_kill(void)
{
    struct threads filler;
    struct threads reaper;

    if (skip_script()) {
        return;
    }
    TAP_OK(start_fill(&filler));
    hv_memory_kill(&fixture.memory);
    threads_start(&reaper, 1, relinquish_all, NULL);
    TAP_AWAIT(hv_load_seq(&fixture.memory.page_lock.waiters) == 1);
    hv_race_end();
    threads_join(&filler);
    threads_join(&reaper);
    TAP_EQ(fill_error, 0);
    TAP_EQ(fixture.memory.populated_frames, 0);
    TAP_EQ(fixture_info(&fixture).free_frames, 4 * HV_EXTENT_FRAMES);
    fixture_close(&fixture);
    if (HV_CONFIG_ASSERT) {
        TAP_DIES(relinquish_at_once, SIGABRT, "HV_LEAF_UNPOPULATED");
    }
}

/* The tables go step by step, each once. */
static void test_dismantle(void)
{
    unsigned steps = 1;
    int64_t live;

    TAP_OK(fixture_open(&fixture, 4, 3 * HV_EXTENT_FRAMES, NULL, NULL));
    TAP_OK(fixture_fill(&fixture, (hv_gfn){0}).v != HV_MFN_NONE.v);
    relinquish_all(0, NULL);
    live = hv_alloc_live();
    while (hv_memory_dismantle(&fixture.memory, 10) == -EAGAIN) {
        steps++;
    }
    /* 4 GiB and the claim are 2,051 extents: three tables, and 32 times 64 looks in vain. */
    TAP_EQ(steps, 4);
    TAP_EQ(hv_alloc_live(), live - 3);
    TAP_EQ(hv_p2m_lookup(&fixture.memory.p2m, (hv_gfn){0}).kind, HV_LEAF_HOLE);
    hv_memory_finish(&fixture.memory);
    TAP_EQ(hv_alloc_live(), live - 4);
    hv_arena_destroy(fixture.arena);
}

static struct {
    int refuse, dying;
    unsigned holds, entries, inside, releases;
    uint64_t held; /* at the last release */
} owner;

static int hold(void *context)
{
    (void)context;
    owner.holds += owner.refuse ? 0 : 1;
    return owner.refuse;
}

static int enter(void *context)
{
    (void)context;
    owner.entries += owner.dying ? 0 : 1;
    owner.inside += owner.dying ? 0 : 1;
    return owner.dying;
}

static void leave(void *context)
{
    (void)context;
    owner.inside--;
}

static void release(void *context)
{
    (void)context;
    owner.releases++;
    owner.held = hv_load_seq(&fixture.memory.held_frames);
}

static const struct hv_memory_hooks hooks = {
    .hold = hold, .enter = enter, .leave = leave, .release = release};

/* What the memory stands in is held from before the first page until after the last. */
static void test_holds(void)
{
    const struct hv_mapper_config config = {.name = "mapper"};
    struct hv_mapper *mapper;
    struct hv_foreign *first;
    struct hv_foreign *second;

    TAP_OK(fixture_open(&fixture, 4, HV_EXTENT_FRAMES, &hooks, NULL));
    TAP_EQ(hv_mapper_create(fixture.arena, &config, &mapper), 0);
    TAP_EQ(hv_foreign_map(mapper, &fixture.memory, (hv_gfn){0}, 5, HV_FOREIGN_READ, &first),
           (uint64_t)-EPERM);
    TAP_EQ(owner.releases, 1);
    TAP_EQ(hv_foreign_grant(mapper, &fixture.memory, HV_FOREIGN_READ), 0);
    owner.refuse = -EOVERFLOW;
    TAP_EQ(hv_foreign_map(mapper, &fixture.memory, (hv_gfn){0}, 5, HV_FOREIGN_READ, &first),
           (uint64_t)-EOVERFLOW);
    TAP_EQ(fixture.memory.held_frames, 0);
    owner.refuse = 0;
    owner.dying = -ECANCELED;
    TAP_EQ(hv_foreign_map(mapper, &fixture.memory, (hv_gfn){0}, 5, HV_FOREIGN_READ, &first),
           (uint64_t)-ECANCELED);
    TAP_EQ(fixture.memory.held_frames, 0);
    owner.dying = 0;
    TAP_EQ(hv_foreign_map(mapper, &fixture.memory, (hv_gfn){0}, 5, HV_FOREIGN_READ, &first), 0);
    TAP_EQ(hv_foreign_map(mapper, &fixture.memory, (hv_gfn){4}, 2, HV_FOREIGN_READ, &second), 0);
    TAP_EQ(fixture.memory.held_frames, 7);
    TAP_EQ(owner.holds, 3); /* once for both */
    TAP_EQ(owner.releases, 2);
    TAP_EQ(owner.inside, 0);
    TAP_EQ(owner.entries, 3);
    relinquish_all(0, NULL);
    TAP_EQ(hv_foreign_grant(mapper, &fixture.memory, HV_FOREIGN_WRITE), (uint64_t)-ECANCELED);
    hv_memory_finish(&fixture.memory);
    TAP_EQ(hv_foreign_grant(mapper, &fixture.memory, HV_FOREIGN_READ), (uint64_t)-ECANCELED);
    hv_foreign_unmap(first);
    TAP_EQ(owner.releases, 2);
    TAP_EQ(fixture.memory.held_frames, 2);
    hv_foreign_unmap(second);
    TAP_EQ(owner.held, 0);
    TAP_EQ(owner.holds, 3);
    TAP_EQ(owner.releases, 3);
    hv_mapper_destroy(mapper);
    hv_arena_destroy(fixture.arena);
}

#define DOMAINS 5u
#define EXTENTS 64u /* of each */

static struct hv_memory dead[DOMAINS];

static void relinquish_each(unsigned index, void *context)
{
    (void)context;
    while (hv_memory_relinquish(&dead[index], 4096) == -EAGAIN) {
    }
}

static uint64_t acquired(const struct hv_lock *lock)
{
    return hv_load_relaxed(&hv_lock_counters(lock)->acquired);
}

static uint64_t all_acquired(const struct hv_arena *arena)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < arena->heap->shard_count; i++) {
        sum += acquired(&arena->heap->shards[i].lock);
    }
    for (unsigned i = 0; i < DOMAINS; i++) {
        sum += acquired(&dead[i].p2m.lock) + acquired(&dead[i].page_lock);
    }
    return sum;
}

/* Five domains of 128 MiB that go at once: what they take locks for is extents, not pages. */
static void test_parallel_destroy(void)
{
    const struct hv_arena_config config = {HV_BACKING_KIND_NONE,
                                           DOMAINS * EXTENTS * HV_EXTENT_SIZE};
    const uint64_t frames = EXTENTS * HV_EXTENT_FRAMES;
    struct hv_heap_info info;
    struct hv_arena *arena;
    uint64_t operations;

    TAP_EQ(hv_arena_create(&config, &arena), 0);
    for (unsigned i = 0; i < DOMAINS; i++) {
        TAP_EQ(hv_memory_init(&dead[i], arena, (uint16_t)(i + 1), EXTENTS * HV_EXTENT_SIZE, NULL,
                              NULL),
               0);
        TAP_EQ(hv_memory_add_ram(&dead[i], (hv_gfn){0}, frames), 0);
        for (uint64_t gfn = 0; gfn < frames; gfn += HV_EXTENT_FRAMES) {
            struct hv_leaf leaf;

            TAP_EQ(hv_memory_fill(&dead[i], (hv_gfn){gfn}, &leaf), 0);
        }
    }
    operations = all_acquired(arena);
    threads_run(DOMAINS, relinquish_each, NULL);
    operations = all_acquired(arena) - operations;
    hv_heap_get_info(arena->heap, &info);
    TAP_EQ(info.free_frames, DOMAINS * frames);
    tap_note("%" PRIu64 " lock operations for %u extents", operations, DOMAINS * EXTENTS);
    TAP_OK(operations <= 4u * DOMAINS * EXTENTS);
    for (unsigned i = 0; i < DOMAINS; i++) {
        hv_memory_finish(&dead[i]);
    }
    hv_arena_destroy(arena);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"mem.dying.kill", test_kill},
        {"mem.dying.copy", test_kill_vs_copy},
        {"dom.assign-vs-kill", test_assign_vs_kill},
        {"dom.parallel-destroy", test_parallel_destroy},
        {"mem.dying.dismantle", test_dismantle},
        {"mem.dying.holds", test_holds},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
