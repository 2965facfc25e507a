/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A domain's memory: sizes refused, first touch, kinds changed, taken apart after any frame. */
#include "lib/threads.h"
#include "sync/race.h"
#include "unit/mem/mem-fixture.h"

#include "base/alloc.h"

#include <signal.h>
#include <sys/mman.h>

static struct fixture fixture;

static void test_sizes(void)
{
    const struct hv_arena_config config = {HV_BACKING_KIND_ANON, 4 * HV_EXTENT_SIZE};
    struct hv_arena *arena;
    struct hv_memory memory;

    TAP_EQ(hv_arena_create(&config, &arena), 0);
    TAP_EQ(hv_memory_init(&memory, arena, 1, 0, NULL, NULL), (uint64_t)-EINVAL);
    TAP_EQ(hv_memory_init(&memory, arena, 1, HV_PAGE_SIZE + 1, NULL, NULL), (uint64_t)-EINVAL);
    TAP_EQ(hv_memory_init(&memory, arena, 1, 5 * HV_EXTENT_SIZE, NULL, NULL), (uint64_t)-EINVAL);
    TAP_EQ(hv_memory_init(&memory, arena, 1, UINT64_MAX, NULL, NULL), (uint64_t)-EINVAL);
    TAP_EQ(hv_memory_init(&memory, arena, HV_OWNER_NONE, HV_PAGE_SIZE, NULL, NULL),
           (uint64_t)-EINVAL);
    TAP_EQ(hv_memory_init(&memory, arena, 1, 4 * HV_EXTENT_SIZE, NULL, NULL), 0);

    TAP_EQ(hv_memory_add_ram(&memory, (hv_gfn){0}, 0), (uint64_t)-EINVAL);
    TAP_EQ(hv_memory_add_ram(&memory, (hv_gfn){UINT64_MAX}, 2), (uint64_t)-EINVAL);
    TAP_EQ(hv_memory_add_ram(&memory, (hv_gfn){memory.p2m.frames - 1}, 2), (uint64_t)-EINVAL);
    TAP_EQ(hv_memory_add_ram(&memory, (hv_gfn){0}, 4 * HV_EXTENT_FRAMES + 1), (uint64_t)-ENOSPC);
    TAP_EQ(hv_memory_add_ram(&memory, (hv_gfn){10}, 10), 0);
    TAP_EQ(hv_memory_add_ram(&memory, (hv_gfn){19}, 1), (uint64_t)-EINVAL);
    TAP_EQ(hv_memory_set_kind(&memory, (hv_gfn){0}, 0, HV_LEAF_MMIO), (uint64_t)-EINVAL);
    TAP_EQ(hv_memory_set_kind(&memory, (hv_gfn){0}, 1, HV_LEAF_RAM), (uint64_t)-EINVAL);
    TAP_EQ(hv_memory_set_kind(&memory, (hv_gfn){1}, UINT64_MAX, HV_LEAF_MMIO), (uint64_t)-EINVAL);
    memory_close(&memory);
    hv_arena_destroy(arena);
}

static void test_claim_fails(void)
{
    struct hv_memory other;

    TAP_OK(fixture_open(&fixture, 4, 3 * HV_EXTENT_FRAMES, NULL, NULL));
    TAP_EQ(hv_memory_init(&other, fixture.arena, 8, 2 * HV_EXTENT_SIZE, NULL, NULL),
           (uint64_t)-ENOMEM);
    TAP_EQ(hv_memory_init(&other, fixture.arena, 8, HV_EXTENT_SIZE, NULL, NULL), 0);
    memory_close(&other);
    fixture_close(&fixture);
}

static void test_fill_extent(void)
{
    struct hv_leaf leaf;

    TAP_OK(fixture_open(&fixture, 4, 2 * HV_EXTENT_FRAMES, NULL, NULL));
    TAP_EQ(fixture_info(&fixture).returned_frames, 4 * HV_EXTENT_FRAMES);
    TAP_EQ(hv_memory_fill(&fixture.memory, (hv_gfn){700}, &leaf), 0);
    TAP_EQ(leaf.kind, HV_LEAF_RAM);
    TAP_EQ(leaf.mfn.v % HV_EXTENT_FRAMES, 700 % HV_EXTENT_FRAMES);
    TAP_EQ(hv_p2m_lookup(&fixture.memory.p2m, (hv_gfn){512}).kind, HV_LEAF_RAM);
    TAP_EQ(hv_p2m_lookup(&fixture.memory.p2m, (hv_gfn){511}).kind, HV_LEAF_UNPOPULATED);
    TAP_EQ(hv_frame_gfn(fixture_frame(&fixture, (hv_gfn){700})).v, 700);
    TAP_EQ(hv_frame_owner(fixture_frame(&fixture, (hv_gfn){700})), 7);
    TAP_EQ(fixture.memory.populated_frames, HV_EXTENT_FRAMES);
    TAP_EQ(fixture_info(&fixture).claimed_frames, HV_EXTENT_FRAMES);
    /* What is RAM already is only looked up. */
    TAP_EQ(hv_memory_fill(&fixture.memory, (hv_gfn){513}, &leaf), 0);
    TAP_EQ(fixture.memory.populated_frames, HV_EXTENT_FRAMES);
    TAP_EQ(hv_memory_fill(&fixture.memory, (hv_gfn){5000}, &leaf), 0);
    TAP_EQ(leaf.kind, HV_LEAF_HOLE);
    check_all_frames(fixture.arena);
    fixture_close(&fixture);
}

/* Beside a hole the extent is filled frame by frame; the hole's claim went back. */
static void test_fill_beside_hole(void)
{
    TAP_OK(fixture_open(&fixture, 4, 2 * HV_EXTENT_FRAMES, NULL, NULL));
    TAP_EQ(hv_memory_set_kind(&fixture.memory, (hv_gfn){160}, 96, HV_LEAF_MMIO), 0);
    TAP_EQ(fixture_info(&fixture).claimed_frames, 2 * HV_EXTENT_FRAMES - 96);
    TAP_OK(fixture_fill(&fixture, (hv_gfn){3}).v != HV_MFN_NONE.v);
    TAP_EQ(fixture.memory.populated_frames, 1);
    TAP_EQ(hv_p2m_lookup(&fixture.memory.p2m, (hv_gfn){4}).kind, HV_LEAF_UNPOPULATED);
    TAP_EQ(hv_p2m_lookup(&fixture.memory.p2m, (hv_gfn){170}).kind, HV_LEAF_MMIO);
    fixture_close(&fixture);
}

/* No whole extent is left although frames are: single ones do. */
static void test_fill_fragmented(void)
{
    struct hv_heap *heap;
    hv_mfn taken[4];

    TAP_OK(fixture_open(&fixture, 4, 2 * HV_EXTENT_FRAMES, NULL, NULL));
    heap = fixture.arena->heap;
    TAP_EQ(hv_heap_claim(heap, 2 * HV_EXTENT_FRAMES), 0);
    TAP_EQ(hv_heap_alloc_extent(heap, 9, &taken[0]), 0);
    TAP_EQ(hv_heap_alloc_extent(heap, 9, &taken[1]), 0);
    TAP_EQ(fixture_fill(&fixture, (hv_gfn){0}).v % HV_EXTENT_FRAMES, 0);
    TAP_EQ(fixture.memory.populated_frames, HV_EXTENT_FRAMES);
    TAP_EQ(hv_heap_claim(heap, 1), (uint64_t)-ENOMEM);
    /* Free one frame of a taken extent and take one of the last whole extent instead. */
    hv_frame_put(fixture.arena, taken[0]);
    TAP_EQ(hv_heap_claim(heap, 1), 0);
    TAP_EQ(hv_heap_alloc_frame(heap, 9, &taken[2]), 0);
    TAP_EQ(taken[2].v, taken[0].v);
    hv_frame_put(fixture.arena, taken[1]);
    TAP_EQ(hv_heap_alloc_extent(heap, 9, &taken[3]), 0);
    hv_frame_put(fixture.arena, (hv_mfn){taken[3].v + 5});
    TAP_OK(fixture_fill(&fixture, (hv_gfn){512}).v == taken[1].v ||
           hv_p2m_lookup(&fixture.memory.p2m, (hv_gfn){512}).mfn.v == taken[3].v + 5);
    TAP_EQ(fixture.memory.populated_frames, HV_EXTENT_FRAMES + 1);
    memory_close(&fixture.memory);
    /* The borrowed extents are still owned by 9: the arena goes with them. */
    hv_arena_destroy(fixture.arena);
}

/* A kind over populated RAM: no vCPU may write the page afterwards, and the frame is free. */
static void test_set_kind_flushes(void)
{
    struct hv_frame *frame;
    uint64_t free_before;
    hv_mfn mfn;

    TAP_OK(fixture_open(&fixture, 4, 2 * HV_EXTENT_FRAMES, NULL, NULL));
    mfn = fixture_fill(&fixture, (hv_gfn){3});
    frame = hv_arena_frame(fixture.arena, mfn);
    fake_vcpu_enter(&fixture.vcpu[0]);
    TAP_OK(fake_vcpu_fill(&fixture.vcpu[0], (hv_gfn){3}));
    hv_doorbell_leave(&fixture.vcpu[0].bell);
    free_before = fixture_info(&fixture).free_frames;
    TAP_EQ(hv_memory_set_kind(&fixture.memory, (hv_gfn){3}, 1, HV_LEAF_HOLE), 0);
    TAP_OK(!fake_vcpu_can_write(&fixture.vcpu[0], (hv_gfn){3}));
    TAP_EQ(fixture_info(&fixture).free_frames, free_before + 1);
    TAP_EQ(hv_frame_owner(frame), HV_OWNER_NONE);
    TAP_EQ(hv_memory_copy(&fixture.memory, (hv_gpa){3 * HV_PAGE_SIZE}, &mfn, 8, HV_COPY_TO_GUEST),
           (uint64_t)-EINVAL);
    check_all_frames(fixture.arena);
    fixture_close(&fixture);
}

/* Interrupt the teardown after every k frames: always the same end. */
static void relinquish_by(uint64_t budget)
{
    struct hv_heap_info info;
    unsigned steps = 0;

    TAP_OK(fixture_open(&fixture, 4, 3 * HV_EXTENT_FRAMES, NULL, NULL));
    TAP_EQ(hv_memory_set_kind(&fixture.memory, (hv_gfn){160}, 96, HV_LEAF_MMIO), 0);
    for (unsigned i = 0; i < 20; i++) {
        TAP_OK(fixture_fill(&fixture, (hv_gfn){i * 30}).v != HV_MFN_NONE.v);
    }
    TAP_EQ(hv_memory_seal_code(&fixture.memory, (hv_gfn){515}, NULL), 0);
    while (hv_memory_relinquish(&fixture.memory, budget) == -EAGAIN) {
        steps++;
        check_all_frames(fixture.arena);
        TAP_EQ(hv_memory_fill(&fixture.memory, (hv_gfn){1100}, &(struct hv_leaf){0}),
               hv_p2m_lookup(&fixture.memory.p2m, (hv_gfn){1100}).kind == HV_LEAF_UNPOPULATED
                   ? (uint64_t)-ECANCELED
                   : 0);
    }
    TAP_OK(steps >= 3 * HV_EXTENT_FRAMES / (budget + 1) / 2);
    hv_memory_unseal_code(&fixture.memory, (hv_gfn){515}); /* too late, and harmless */
    hv_memory_finish(&fixture.memory);
    info = fixture_info(&fixture);
    TAP_EQ(info.free_frames, info.total_frames);
    TAP_EQ(info.claimed_frames, 0);
    hv_arena_destroy(fixture.arena);
}

static void test_relinquish_steps(void)
{
    static const uint64_t budgets[] = {7, 64, 100, 511, 512, 513, 5000};

    for (size_t i = 0; i < HV_ARRAY_LEN(budgets) && !tap_failed(); i++) {
        relinquish_by(budgets[i]);
    }
}

static _Atomic uint32_t relinquished;

static void fill_or_die_body(unsigned index, void *context)
{
    struct hv_leaf leaf;

    hv_race_name_thread(index + 1);
    if (index == 0) {
        *(int *)context = hv_memory_fill(&fixture.memory, (hv_gfn){600}, &leaf);
    } else if (hv_race_await(1, "memory.fill.allocated")) {
        while (hv_memory_relinquish(&fixture.memory, 100) == -EAGAIN) {
        }
        hv_store_seq(&relinquished, 1);
    }
}

/* A fill that has its extent but has not published it is waited for: else nobody would free it. */
static void test_fill_vs_dying(void)
{
    struct threads both;
    int err = -EIO;

    if (skip_script()) {
        return;
    }
    TAP_OK(fixture_open(&fixture, 4, 2 * HV_EXTENT_FRAMES, NULL, NULL));
    hv_store_seq(&relinquished, 0);
    hv_race_begin();
    hv_race_stop(1, "memory.fill.allocated", 0);
    threads_start(&both, 2, fill_or_die_body, &err);
    /* Only then the one waiter is the relinquisher: a change that begins listens for a moment. */
    TAP_OK(hv_race_await(1, "memory.fill.allocated"));
    TAP_AWAIT(hv_load_seq(&fixture.memory.changed.waiters) == 1);
    TAP_EQ(hv_load_seq(&relinquished), 0);
    hv_race_end();
    threads_join(&both);
    TAP_EQ(err, 0);
    TAP_EQ(fixture.memory.populated_frames, 0);
    TAP_EQ(fixture_info(&fixture).free_frames, 4 * HV_EXTENT_FRAMES);
    fixture_close(&fixture);
}

static uint64_t acquired(const struct hv_lock *lock)
{
    return hv_load_relaxed(&hv_lock_counters(lock)->acquired);
}

/* A destroyed domain costs its heap one lock operation an extent, and all locks together three. */
static void test_relinquish_locks(void)
{
    uint64_t heap = 0;
    uint64_t own = 0;
    struct hv_heap *of;

    TAP_OK(fixture_open(&fixture, 10, 8 * HV_EXTENT_FRAMES, NULL, NULL));
    of = fixture.arena->heap;
    for (unsigned i = 0; i < 8; i++) {
        TAP_OK(fixture_fill(&fixture, (hv_gfn){i * HV_EXTENT_FRAMES}).v != HV_MFN_NONE.v);
    }
    TAP_EQ(hv_memory_relinquish(&fixture.memory, 0), (uint64_t)-EAGAIN);
    for (unsigned i = 0; i < of->shard_count; i++) {
        heap -= acquired(&of->shards[i].lock);
    }
    own -= acquired(&fixture.memory.p2m.lock) + acquired(&fixture.memory.page_lock);
    TAP_EQ(hv_memory_relinquish(&fixture.memory, 8 * HV_EXTENT_FRAMES), (uint64_t)-EAGAIN);
    for (unsigned i = 0; i < of->shard_count; i++) {
        heap += acquired(&of->shards[i].lock);
    }
    own += acquired(&fixture.memory.p2m.lock) + acquired(&fixture.memory.page_lock);
    TAP_EQ(fixture.memory.populated_frames, 0);
    TAP_EQ(heap, 8);
    TAP_EQ(own, 8 * 2);
    fixture_close(&fixture);
}

/* What stands whole goes whole, whatever holes and single pages came before it in the same step. */
static void test_relinquish_whole(void)
{
    static const uint64_t budgets[] = {512, 513, 700, 1023, 4096};
    static const unsigned filled[] = {0, 3, 4, 6, 7};

    for (size_t i = 0; i < HV_ARRAY_LEN(budgets) && !tap_failed(); i++) {
        TAP_OK(fixture_open(&fixture, 10, 8 * HV_EXTENT_FRAMES, NULL, NULL));
        TAP_EQ(hv_memory_set_kind(&fixture.memory, (hv_gfn){160}, 96, HV_LEAF_MMIO), 0);
        for (size_t k = 0; k < HV_ARRAY_LEN(filled); k++) {
            hv_gfn gfn = {filled[k] * HV_EXTENT_FRAMES};

            TAP_OK(fixture_fill(&fixture, gfn).v != HV_MFN_NONE.v);
        }
        while (hv_memory_relinquish(&fixture.memory, budgets[i]) == -EAGAIN) {
        }
        TAP_EQ(fixture_info(&fixture).freed_extents, HV_ARRAY_LEN(filled) - 1);
        TAP_EQ(fixture.memory.populated_frames, 0);
        fixture_close(&fixture);
    }
}

static void finish_alive(void)
{
    if (fixture_open(&fixture, 2, HV_EXTENT_FRAMES, NULL, NULL)) {
        hv_memory_finish(&fixture.memory);
    }
}

static void test_dies(void)
{
    TAP_DIES(finish_alive, SIGABRT, "claimed_frames");
}

/* Fail each allocation of init and add_ram once: nothing is left behind. */
static void test_fail_at(void)
{
    const struct hv_arena_config config = {HV_BACKING_KIND_MEMFD, 4 * HV_EXTENT_SIZE};
    struct hv_arena *arena = NULL;
    struct hv_memory memory;
    struct hv_heap_info info;
    int64_t live = hv_alloc_live();
    unsigned failures = 0;
    int err = -ENOMEM;

    for (uint64_t n = 1; err == -ENOMEM; n++) {
        hv_alloc_fail_at(n);
        err = hv_arena_create(&config, &arena);
        hv_alloc_fail_at(0);
        failures += err == -ENOMEM;
        TAP_OK(!err || (err == -ENOMEM && !arena && hv_alloc_live() == live));
    }
    TAP_EQ(err, 0);
    TAP_OK(failures >= 4);
    live = hv_alloc_live();
    err = -ENOMEM;
    for (uint64_t n = 1; err == -ENOMEM; n++) {
        hv_alloc_fail_at(n);
        err = hv_memory_init(&memory, arena, 1, 3 * HV_EXTENT_SIZE, NULL, NULL);
        if (!err) {
            err = hv_memory_add_ram(&memory, (hv_gfn){100}, 2 * HV_EXTENT_FRAMES);
            hv_alloc_fail_at(0);
            memory_close(&memory);
        }
        hv_alloc_fail_at(0);
        TAP_OK(err == 0 || err == -ENOMEM);
        TAP_EQ(hv_alloc_live(), live);
        hv_heap_get_info(arena->heap, &info);
        TAP_EQ(info.claimed_frames, 0);
        TAP_EQ(info.free_frames, info.total_frames);
    }
    TAP_EQ(err, 0);
    hv_arena_destroy(arena);
}

static void fill_one(unsigned index, void *context)
{
    _Atomic unsigned *failed = context;
    struct hv_leaf leaf;

    for (unsigned i = 0; i < 3; i++) {
        if (hv_memory_fill(&fixture.memory, (hv_gfn){i * HV_EXTENT_FRAMES + index}, &leaf)) {
            hv_add_relaxed(failed, 1);
        }
    }
}

/* A fill that finds no host memory leaves the page as it was, to be tried again. */
static void test_fill_without_memory(void)
{
    struct hv_leaf leaf;

    TAP_OK(fixture_open(&fixture, 1, HV_EXTENT_FRAMES, NULL, NULL));
    TAP_EQ(munmap(fixture.arena->base, HV_EXTENT_SIZE), 0);
    TAP_EQ(hv_memory_fill(&fixture.memory, (hv_gfn){5}, &leaf), (uint64_t)-ENOMEM);
    TAP_EQ(leaf.kind, HV_LEAF_UNPOPULATED);
    TAP_EQ(fixture_info(&fixture).claimed_frames, HV_EXTENT_FRAMES);
    TAP_EQ(hv_memory_copy(&fixture.memory, (hv_gpa){0}, &leaf, 8, HV_COPY_TO_GUEST),
           (uint64_t)-ENOMEM);
    TAP_EQ(hv_backing_map(&fixture.arena->backing, fixture.arena->base, 0, HV_EXTENT_SIZE), 0);
    TAP_EQ(hv_memory_fill(&fixture.memory, (hv_gfn){5}, &leaf), 0);
    TAP_EQ(leaf.kind, HV_LEAF_RAM);
    fixture_close(&fixture);
}

/* Several vCPUs that touch one extent populate it once. */
static void test_fill_once(void)
{
    _Atomic unsigned failed = 0;

    for (unsigned i = 0; i < 20 && !tap_failed(); i++) {
        TAP_OK(fixture_open(&fixture, 4, 3 * HV_EXTENT_FRAMES, NULL, NULL));
        threads_run(4, fill_one, &failed);
        TAP_EQ(hv_load_relaxed(&failed), 0);
        TAP_EQ(fixture.memory.populated_frames, 3 * HV_EXTENT_FRAMES);
        TAP_EQ(fixture_info(&fixture).free_frames, HV_EXTENT_FRAMES);
        fixture_close(&fixture);
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"mem.memory.sizes", test_sizes},
        {"mem.memory.claim-fails", test_claim_fails},
        {"mem.memory.fill-extent", test_fill_extent},
        {"mem.memory.fill-beside-hole", test_fill_beside_hole},
        {"mem.memory.fill-fragmented", test_fill_fragmented},
        {"mem.memory.set-kind-flushes", test_set_kind_flushes},
        {"mem.memory.restart-every-k", test_relinquish_steps},
        {"mem.memory.fill-vs-dying", test_fill_vs_dying},
        {"mem.memory.relinquish-locks", test_relinquish_locks},
        {"mem.memory.relinquish-whole", test_relinquish_whole},
        {"mem.memory.dies", test_dies},
        {"mem.memory.fail-at-n", test_fail_at},
        {"mem.memory.fill-without-memory", test_fill_without_memory},
        {"mem.memory.fill-once", test_fill_once},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
