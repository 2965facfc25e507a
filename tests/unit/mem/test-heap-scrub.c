/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Scrubbing ahead: what it leaves is zero, and it stands in nobody's way. */
#include "lib/threads.h"
#include "sync/race.h"
#include "unit/mem/heap-fixture.h"

/* @dirty extents that an owner has written full and freed. */
static bool open_dirty(enum hv_backing_kind kind, uint64_t extents, unsigned dirty)
{
    hv_mfn first[8];

    if (!open_arena(kind, extents) || hv_heap_claim(heap, dirty * HV_EXTENT_FRAMES)) {
        return false;
    }
    for (unsigned i = 0; i < dirty; i++) {
        if (hv_heap_alloc_extent(heap, 1, &first[i])) {
            return false;
        }
        for (uint64_t k = 0; kind != HV_BACKING_KIND_NONE && k < HV_EXTENT_FRAMES; k++) {
            scribble((hv_mfn){first[i].v + k});
        }
    }
    for (unsigned i = 0; i < dirty; i++) {
        if (hv_heap_free_extent(heap, first[i], 1)) {
            return false;
        }
    }
    return heap_info().dirty_frames == dirty * HV_EXTENT_FRAMES;
}

static bool extent_is_zero(uint32_t extent)
{
    for (uint64_t i = 0; i < HV_EXTENT_FRAMES; i++) {
        if (!is_zero((hv_mfn){hv_extent_first(extent).v + i})) {
            return false;
        }
    }
    return true;
}

static unsigned frames_owing_scrub(uint32_t extent)
{
    const struct hv_frame *frames = hv_arena_frame(arena, hv_extent_first(extent));
    unsigned count = 0;

    for (uint64_t i = 0; i < HV_EXTENT_FRAMES; i++) {
        count += (hv_load_seq(&frames[i].count) & HV_FRAME_NEED_SCRUB) != 0;
    }
    return count;
}

static void scrub_all(enum hv_backing_kind kind)
{
    TAP_OK(open_dirty(kind, 3, 2));
    TAP_EQ(hv_heap_scrub_spare(heap), HV_SCRUBBED_EXTENT);
    TAP_EQ(heap_info().clean_frames, HV_EXTENT_FRAMES);
    TAP_OK(conserved(0));
    TAP_EQ(hv_heap_scrub_spare(heap), HV_SCRUBBED_EXTENT);
    TAP_EQ(hv_heap_scrub_spare(heap), HV_SCRUBBED_NONE);
    TAP_EQ(heap_info().clean_frames, 2 * HV_EXTENT_FRAMES);
    TAP_EQ(heap_info().dirty_frames, 0);
    TAP_EQ(heap_info().returned_frames, HV_EXTENT_FRAMES);
    TAP_OK(conserved(0));
    for (uint32_t i = 0; i < 3 && kind != HV_BACKING_KIND_NONE; i++) {
        TAP_EQ(frames_owing_scrub(i), 0);
        TAP_OK(heap->extents[i].state == HV_EXTENT_STATE_RETURNED || extent_is_zero(i));
    }
    hv_arena_destroy(arena);
}

static void test_scrub(void)
{
    scrub_all(HV_BACKING_KIND_ANON);
    scrub_all(HV_BACKING_KIND_MEMFD);
    scrub_all(HV_BACKING_KIND_NONE);
}

/* A mapper may still store until it has been asked: before the scrub, and not again at the reuse. */
static void test_flush(void)
{
    struct hv_doorbell bell;
    struct hv_holder mapper;
    hv_mfn first;

    TAP_OK(open_dirty(HV_BACKING_KIND_ANON, 1, 1));
    hv_doorbell_init(&bell);
    hv_holder_init(&mapper, &bell, "test mapper", 0);
    hv_holders_register_mapper(&arena->holders, &mapper);
    hv_holder_mark_dirty(&mapper);
    TAP_EQ(hv_heap_scrub_spare(heap), HV_SCRUBBED_EXTENT);
    TAP_EQ(hv_load_seq(&bell.requests), HV_REQUEST_FLUSH);
    TAP_EQ(hv_load_relaxed(&heap->flushes.issued), 1);
    TAP_EQ(hv_heap_claim(heap, HV_EXTENT_FRAMES), 0);
    TAP_EQ(hv_heap_alloc_extent(heap, 2, &first), 0);
    TAP_EQ(hv_load_relaxed(&heap->flushes.issued), 1);
    hv_holders_retire_mapper(&arena->holders, &mapper);
    hv_arena_destroy(arena);
}

static _Atomic uint32_t scrubbed;

static void scrub_body(unsigned index, void *context)
{
    (void)index;
    (void)context;
    hv_race_name_thread(1);
    hv_store_seq(&scrubbed, (uint32_t)hv_heap_scrub_spare(heap));
}

static hv_mfn taken;
static _Atomic uint32_t allocated;

static void alloc_body(unsigned index, void *context)
{
    (void)index;
    hv_race_name_thread(2);
    if (hv_heap_alloc_extent(heap, *(uint16_t *)context, &taken) == 0) {
        hv_store_seq(&allocated, 1);
    }
}

/* The last extent is being scrubbed, its 20th page just now: who needs it has it given up. */
static void abort_scrub(bool comes_again)
{
    uint16_t owner = 3;
    struct threads scrubber, allocator;

    TAP_OK(open_dirty(HV_BACKING_KIND_ANON, 1, 1));
    TAP_EQ(hv_heap_claim(heap, HV_EXTENT_FRAMES), 0);
    hv_store_seq(&allocated, 0);
    hv_race_begin();
    hv_race_stop(1, "heap.scrub.page", 20);
    threads_start(&scrubber, 1, scrub_body, NULL);
    TAP_OK(hv_race_await(1, "heap.scrub.page"));
    TAP_EQ(frames_owing_scrub(0), HV_EXTENT_FRAMES - 20);
    threads_start(&allocator, 1, alloc_body, &owner);
    TAP_AWAIT(hv_load_seq(&heap->settled.waiters) == 1);
    TAP_AWAIT(hv_load_seq(&heap->scrub) == HV_SCRUB_WANTED);
    TAP_EQ(hv_load_seq(&allocated), 0);
    if (comes_again) {
        /* Amid the allocation the scrubber comes again: it is not his any more. */
        hv_race_stop(2, "heap.extent.moving", 0);
    }
    hv_race_release(1, "heap.scrub.page");
    threads_join(&scrubber);
    TAP_EQ(hv_load_seq(&scrubbed), HV_SCRUBBED_GAVE_UP);
    TAP_EQ(hv_load_seq(&heap->scrub), HV_SCRUB_IDLE);
    if (comes_again) {
        TAP_OK(hv_race_await(2, "heap.extent.moving"));
        TAP_EQ(frames_owing_scrub(0), HV_EXTENT_FRAMES - 20);
        TAP_EQ(hv_heap_scrub_spare(heap), HV_SCRUBBED_NONE);
    }
    hv_race_end();
    threads_join(&allocator);
    TAP_EQ(hv_load_seq(&allocated), 1);
    TAP_OK(extent_is_zero(0));
    TAP_OK(conserved(HV_EXTENT_FRAMES));
    hv_arena_destroy(arena);
}

static void test_abort(void)
{
    if (skip_script()) {
        return;
    }
    abort_scrub(false);
    abort_scrub(true);
}

/* An allocation that finds another extent takes that, and lets the scrubber be. */
static void test_abort_not_needed(void)
{
    struct threads scrubber;
    hv_mfn first;

    if (skip_script()) {
        return;
    }
    TAP_OK(open_dirty(HV_BACKING_KIND_ANON, 2, 2));
    TAP_EQ(hv_heap_claim(heap, HV_EXTENT_FRAMES), 0);
    hv_race_begin();
    hv_race_stop(1, "heap.scrub.page", 0);
    threads_start(&scrubber, 1, scrub_body, NULL);
    TAP_OK(hv_race_await(1, "heap.scrub.page"));
    for (uint16_t owner = 0; owner < 2; owner++) {
        TAP_EQ(hv_heap_alloc_extent(heap, owner, &first), 0);
        TAP_OK(extent_is_zero(hv_extent_of(first)));
        TAP_EQ(hv_load_seq(&heap->scrub), HV_SCRUB_BUSY);
        TAP_EQ(hv_heap_free_extent(heap, first, owner), 0);
        TAP_EQ(hv_heap_claim(heap, HV_EXTENT_FRAMES), 0);
    }
    hv_race_end();
    threads_join(&scrubber);
    TAP_EQ(hv_load_seq(&scrubbed), HV_SCRUBBED_EXTENT);
    TAP_EQ(heap_info().clean_frames, HV_EXTENT_FRAMES);
    TAP_OK(conserved(0));
    hv_arena_destroy(arena);
}

/* One that was given up half way goes the other ways, too: back to the host, and to a second try. */
static void test_after_abort(void)
{
    struct threads scrubber;

    if (skip_script()) {
        return;
    }
    for (unsigned i = 0; i < 2; i++) {
        TAP_OK(open_dirty(HV_BACKING_KIND_ANON, 1, 1));
        hv_race_begin();
        hv_race_stop(1, "heap.scrub.page", 300);
        threads_start(&scrubber, 1, scrub_body, NULL);
        TAP_OK(hv_race_await(1, "heap.scrub.page"));
        hv_store_seq(&heap->scrub, HV_SCRUB_WANTED);
        hv_race_end();
        threads_join(&scrubber);
        TAP_EQ(hv_load_seq(&scrubbed), HV_SCRUBBED_GAVE_UP);
        TAP_EQ(frames_owing_scrub(0), HV_EXTENT_FRAMES - 300);
        TAP_EQ(heap_info().dirty_frames, HV_EXTENT_FRAMES);
        if (i == 0) {
            TAP_EQ(hv_heap_scrub_spare(heap), HV_SCRUBBED_EXTENT);
        } else {
            TAP_EQ(hv_heap_trim(heap, 1), 1);
        }
        TAP_EQ(frames_owing_scrub(0), 0);
        TAP_OK(extent_is_zero(0));
        TAP_OK(conserved(0));
        hv_arena_destroy(arena);
    }
}

/* "heap.no-leak" with all that can come in between: scrubbed, given up, returned, split, stolen. */
static void test_no_leak(void)
{
    hv_mfn held[4 * HV_EXTENT_FRAMES];
    unsigned count = 0;

    TAP_OK(open_dirty(HV_BACKING_KIND_MEMFD, 4, 4));
    hv_heap_attach_thread(heap);
    for (unsigned step = 0; step < 400; step++) {
        unsigned pick = count ? (unsigned)(tap_rng() % count) : 0;
        uint64_t dice = tap_rng() % 100;
        hv_mfn first;

        if (dice < 55 && hv_heap_claim(heap, 1) == 0) {
            TAP_EQ(hv_heap_alloc_frame(heap, (uint16_t)dice, &held[count]), 0);
            TAP_OK(is_zero(held[count]));
            scribble(held[count++]);
        } else if (dice < 80 && count > 0) {
            hv_frame_put(arena, held[pick]);
            held[pick] = held[--count];
        } else if (dice < 85 && hv_heap_claim(heap, HV_EXTENT_FRAMES) == 0) {
            if (hv_heap_alloc_extent(heap, 1, &first) == 0) {
                TAP_OK(extent_is_zero(hv_extent_of(first)));
                scribble((hv_mfn){first.v + dice});
                TAP_EQ(hv_heap_free_extent(heap, first, 1), 0);
            } else {
                hv_heap_unclaim(heap, HV_EXTENT_FRAMES);
            }
        } else if (dice < 90) {
            (void)hv_heap_scrub_spare(heap);
        } else if (dice < 95) {
            (void)hv_magazines_drain(heap);
        } else {
            (void)hv_heap_trim(heap, 1);
        }
        TAP_OK(conserved(count));
    }
    hv_heap_detach_thread(heap);
    hv_arena_destroy(arena);
}

/* One frame of a dirty extent costs one frame's scrub; of one half scrubbed, too. */
static void split_dirty(bool half)
{
    hv_mfn mfn;

    TAP_OK(open_dirty(HV_BACKING_KIND_ANON, 1, 1));
    for (unsigned i = 0; half && i < HV_EXTENT_FRAMES / 2; i++) {
        hv_heap_scrub_frame(heap, (hv_mfn){i});
    }
    TAP_EQ(hv_heap_claim(heap, 1), 0);
    TAP_EQ(hv_heap_alloc_frame(heap, 5, &mfn), 0);
    TAP_OK(is_zero(mfn));
    TAP_EQ(frames_owing_scrub(0), half ? HV_EXTENT_FRAMES / 2 : HV_EXTENT_FRAMES - 1);
    TAP_EQ(heap_info().dirty_frames, frames_owing_scrub(0));
    TAP_OK(conserved(1));
    hv_frame_put(arena, mfn);
    TAP_EQ(heap_info().dirty_frames, HV_EXTENT_FRAMES);
    TAP_OK(conserved(0));
    hv_arena_destroy(arena);
}

static void test_split_dirty(void)
{
    split_dirty(false);
    split_dirty(true);
}

/* Clean before dirty before returned, wherever they are. */
static void test_preference(void)
{
    for (uint16_t owner = 0; owner < 4; owner++) {
        static const enum hv_extent_state order[] = {
            HV_EXTENT_STATE_CLEAN,
            HV_EXTENT_STATE_DIRTY,
            HV_EXTENT_STATE_DIRTY,
            HV_EXTENT_STATE_RETURNED,
        };

        TAP_OK(open_dirty(HV_BACKING_KIND_NONE, 4, 3));
        TAP_EQ(heap->shard_count, 4);
        TAP_EQ(hv_heap_scrub_spare(heap), HV_SCRUBBED_EXTENT);
        for (unsigned i = 0; i < HV_ARRAY_LEN(order); i++) {
            enum hv_extent_state was = HV_EXTENT_STATE_FULL;
            uint32_t extent = hv_heap_take_extent(heap, hv_heap_home(heap, owner), &was);

            TAP_OK(extent != HV_EXTENT_NIL);
            TAP_EQ(was, order[i]);
            TAP_EQ(heap->extents[extent].shard, hv_heap_home(heap, owner));
            hv_heap_own_extent(heap, extent);
        }
        hv_arena_destroy(arena);
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"heap.scrub", test_scrub},
        {"heap.scrub-flush", test_flush},
        {"heap.scrub-abort", test_abort},
        {"heap.scrub-abort-not-needed", test_abort_not_needed},
        {"heap.scrub-after-abort", test_after_abort},
        {"heap.no-leak-background", test_no_leak},
        {"heap.preference", test_preference},
        {"heap.split-dirty", test_split_dirty},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
