/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Magazines: few locks, nothing lost or had twice whoever takes what when, and nothing that was owed
 * for a frame forgotten on the way.
 */
#include "lib/threads.h"
#include "unit/mem/magazine-fixture.h"

/* One lock operation for 64 frames, each way, and none back and forth over an edge. */
static void test_locks(void)
{
    static hv_mfn frames[8 * LOAD];
    uint64_t before;

    TAP_OK(open_attached(1));
    /* The first load splits the extent: taken out, put back. */
    TAP_OK(alloc_many(frames, LOAD));
    before = shard_locks();
    TAP_OK(alloc_many(&frames[LOAD], 7 * LOAD));
    TAP_EQ(shard_locks() - before, 7);
    TAP_OK(conserved(8 * LOAD));
    before = shard_locks();
    free_many(frames, 8 * LOAD);
    TAP_EQ(shard_locks() - before, 6);
    TAP_EQ(heap_info().magazine_frames, 2 * LOAD);
    TAP_OK(conserved(0));
    before = shard_locks();
    for (unsigned i = 0; i < 20; i++) {
        TAP_OK(alloc_many(frames, LOAD + 3));
        free_many(frames, LOAD + 3);
    }
    TAP_EQ(shard_locks(), before);
    TAP_EQ(hv_load_relaxed(&hv_magazines_own(heap)->empties), 6);
    close_attached();
}

/* "heap.thread-exit": all frames are back in their extents, and all claims can be had. */
static void test_thread_exit(void)
{
    hv_mfn frames[3 * LOAD];

    TAP_OK(open_attached(2));
    TAP_OK(alloc_many(frames, 3 * LOAD));
    free_many(frames, 2 * LOAD);
    TAP_EQ(heap_info().magazine_frames, 2 * LOAD);
    hv_heap_detach_thread(heap);
    TAP_OK(!hv_magazines_own(heap));
    TAP_EQ(heap_info().magazine_frames, 0);
    TAP_OK(conserved(LOAD));
    TAP_EQ(hv_load_seq(&heap->unclaimed), hv_arena_frames(arena) - LOAD);
    hv_heap_detach_thread(heap);
    free_many(&frames[2 * LOAD], LOAD);
    TAP_EQ(heap_info().magazine_frames, 0);
    TAP_OK(conserved(0));
    /* Another life of the thread, as the same heap's. */
    hv_heap_attach_thread(heap);
    TAP_OK(alloc_many(frames, 1));
    TAP_EQ(heap_info().magazine_frames, LOAD - 1);
    TAP_OK(conserved(1));
    close_attached();
}

static void alloc_and_exit(unsigned index, void *context)
{
    hv_mfn *mfn = context;

    hv_heap_attach_thread(heap);
    if (!alloc(&mfn[index])) {
        mfn[index] = HV_MFN_NONE;
    }
    hv_heap_detach_thread(heap);
}

/* What a thread leaves serves the next. */
static void test_thread_exit_others(void)
{
    hv_mfn mfn[4] = {{0}};

    TAP_OK(open_arena(HV_BACKING_KIND_ANON, 2));
    for (unsigned i = 0; i < 4; i++) {
        threads_run(4, alloc_and_exit, mfn);
        for (unsigned k = 0; k < 4; k++) {
            TAP_OK(mfn[k].v != HV_MFN_NONE.v);
        }
        TAP_EQ(heap_info().magazine_frames, 0);
        TAP_OK(conserved(4));
        free_many(mfn, 4);
    }
    hv_arena_destroy(arena);
}

/* A frame goes around dirty in every way there is, and comes out zero. */
static void test_zero(void)
{
    static hv_mfn frames[3 * LOAD];
    hv_mfn stolen;
    uint64_t stamp;

    TAP_OK(open_attached(1));
    for (unsigned round = 0; round < 4; round++) {
        TAP_OK(alloc_many(frames, 3 * LOAD));
        for (unsigned i = 0; i < 3 * LOAD; i++) {
            TAP_OK(is_zero(frames[i]));
            scribble(frames[i]);
        }
        /* Two loads stay in the magazines, one is emptied. */
        free_many(frames, 3 * LOAD);
        TAP_OK(hv_load_seq(&hv_arena_frame(arena, frames[0])->count) & HV_FRAME_NEED_SCRUB);
        if (round == 1) {
            TAP_EQ(hv_magazines_drain(heap), 2 * LOAD);
        } else if (round == 2) {
            TAP_OK(hv_magazines_steal(heap, &stolen, &stamp));
            TAP_OK(stamp != 0);
            TAP_OK(hv_load_seq(&hv_arena_frame(arena, stolen)->count) & HV_FRAME_NEED_SCRUB);
            hv_heap_free_batch(heap, &stolen, 1);
            hv_heap_unclaim(heap, (uint64_t)-1); /* it had not been claimed */
        }
        TAP_OK(conserved(0));
    }
    close_attached();
}

/* "heap.batch-flush": a mapper is asked once for a magazine of frames, loaded or freed into. */
static void test_batch_flush(void)
{
    hv_mfn frames[2 * LOAD];
    struct hv_doorbell bell;
    struct hv_holder mapper;

    TAP_OK(open_attached(1));
    hv_doorbell_init(&bell);
    hv_holder_init(&mapper, &bell, "test mapper", 0);
    hv_holders_register_mapper(&arena->holders, &mapper);
    TAP_OK(alloc_many(frames, LOAD));
    hv_holder_mark_dirty(&mapper);
    free_many(frames, LOAD);
    TAP_EQ(hv_load_relaxed(&heap->flushes.issued), 0);
    TAP_OK(alloc_many(frames, LOAD));
    TAP_EQ(hv_load_relaxed(&heap->flushes.issued), 1);
    TAP_EQ(hv_load_seq(&bell.requests), HV_REQUEST_FLUSH);
    /* The same through a shard: it never flushes, being outside, so each flush is issued anew. */
    free_many(frames, LOAD);
    TAP_EQ(hv_magazines_drain(heap), LOAD);
    TAP_OK(alloc_many(frames, LOAD));
    TAP_EQ(hv_load_relaxed(&heap->flushes.issued), 2);
    /* A free after a flush is owed another one, for which the older ones need not be. */
    free_many(frames, LOAD / 2);
    TAP_OK(alloc_many(frames, LOAD / 4));
    TAP_EQ(hv_load_relaxed(&heap->flushes.issued), 3);
    free_many(frames, 1);
    TAP_OK(alloc_many(frames, LOAD / 4));
    TAP_EQ(hv_load_relaxed(&heap->flushes.issued), 4);
    hv_holders_retire_mapper(&arena->holders, &mapper);
    close_attached();
}

/* What is free in a magazine can be claimed, and is found by who has the claim. */
static void test_pressure(void)
{
    static hv_mfn frames[HV_EXTENT_FRAMES];
    hv_mfn first;

    TAP_OK(open_attached(1));
    TAP_OK(alloc_many(frames, HV_EXTENT_FRAMES));
    TAP_EQ(hv_heap_claim(heap, 1), (uint64_t)-ENOMEM);
    free_many(frames, 10);
    TAP_EQ(hv_load_seq(&heap->unclaimed), 0);
    TAP_EQ(heap_info().free_frames, 10);
    TAP_EQ(heap_info().claimed_frames, 0);
    TAP_EQ(hv_heap_claim(heap, 11), (uint64_t)-ENOMEM);
    TAP_EQ(hv_heap_claim(heap, 10), 0);
    TAP_EQ(heap_info().claimed_frames, 10);
    TAP_EQ(hv_heap_claim(heap, 1), (uint64_t)-ENOMEM);
    hv_heap_unclaim(heap, 10);
    free_many(&frames[10], HV_EXTENT_FRAMES - 10);
    TAP_OK(conserved(0));
    TAP_EQ(hv_heap_claim(heap, HV_EXTENT_FRAMES), 0);
    TAP_EQ(hv_heap_alloc_extent(heap, 1, &first), 0);
    TAP_OK(is_zero(first));
    TAP_OK(conserved(HV_EXTENT_FRAMES));
    close_attached();
}

/* More threads than there are magazines: the one more does without. */
static void test_too_many(void)
{
    hv_mfn frames[LOAD];

    TAP_OK(open_arena(HV_BACKING_KIND_ANON, 1));
    for (unsigned i = 0; i < HV_MAGAZINE_OWNERS; i++) {
        hv_store_seq(&heap->magazines[i].owner, UINT64_MAX);
    }
    hv_heap_attach_thread(heap);
    TAP_OK(!hv_magazines_own(heap));
    TAP_OK(alloc_many(frames, LOAD));
    free_many(frames, LOAD);
    TAP_EQ(heap_info().magazine_frames, 0);
    TAP_OK(conserved(0));
    hv_heap_detach_thread(heap);
    for (unsigned i = 0; i < HV_MAGAZINE_OWNERS; i++) {
        hv_store_seq(&heap->magazines[i].owner, 0);
    }
    hv_arena_destroy(arena);
}

/* A random life: after every step each frame is in one place and the books are right. */
static void test_conserve(void)
{
    static hv_mfn held[1000];
    unsigned booked = 0;
    unsigned count = 0;

    TAP_OK(open_attached(2));
    for (unsigned step = 0; step < 1500; step++) {
        uint64_t dice = tap_rng() % 100;
        unsigned pick = count ? (unsigned)(tap_rng() % count) : 0;

        if (dice < 50 && count < HV_ARRAY_LEN(held)) {
            TAP_OK(alloc(&held[count]));
            TAP_OK(is_zero(held[count]));
            scribble(held[count++]);
        } else if (dice < 95 && count > 0) {
            hv_frame_put(arena, held[pick]);
            held[pick] = held[--count];
        } else if (dice < 97) {
            (void)hv_magazines_drain(heap);
        } else if (dice < 98) {
            booked += hv_magazines_collect(heap);
        } else if (dice < 99) {
            hv_heap_detach_thread(heap);
            hv_heap_attach_thread(heap);
        } else {
            (void)hv_heap_trim(heap, UINT64_MAX);
        }
        TAP_OK(conserved(count));
    }
    TAP_OK(booked > 0);
    free_many(held, count);
    hv_heap_detach_thread(heap);
    TAP_OK(conserved(0));
    TAP_EQ(hv_load_seq(&heap->unclaimed), hv_arena_frames(arena));
    hv_arena_destroy(arena);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"magazine.locks", test_locks},
        {"heap.thread-exit", test_thread_exit},
        {"heap.thread-exit-others", test_thread_exit_others},
        {"magazine.zero", test_zero},
        {"heap.batch-flush", test_batch_flush},
        {"magazine.pressure", test_pressure},
        {"magazine.too-many", test_too_many},
        {"magazine.conserve", test_conserve},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
