/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Extents and single frames: nothing is lost, nothing is handed out dirty, claims hold. */
#include "lib/threads.h"
#include "sync/race.h"
#include "unit/mem/heap-fixture.h"

#include <signal.h>
#include <sys/mman.h>

static void test_claims(void)
{
    struct hv_heap_info info;

    TAP_OK(open_arena(HV_BACKING_KIND_NONE, 2));
    TAP_EQ(hv_heap_claim(heap, 0), (uint64_t)-EINVAL);
    TAP_EQ(hv_heap_claim(heap, 2 * HV_EXTENT_FRAMES + 1), (uint64_t)-EINVAL);
    TAP_EQ(hv_heap_claim(heap, UINT64_MAX), (uint64_t)-EINVAL);
    TAP_EQ(hv_heap_claim(heap, 2 * HV_EXTENT_FRAMES), 0);
    TAP_EQ(hv_heap_claim(heap, 1), (uint64_t)-ENOMEM);
    hv_heap_unclaim(heap, 3);
    TAP_EQ(hv_heap_claim(heap, 4), (uint64_t)-ENOMEM);
    TAP_EQ(hv_heap_claim(heap, 3), 0);
    hv_heap_get_info(heap, &info);
    TAP_EQ(info.claimed_frames, 2 * HV_EXTENT_FRAMES);
    hv_heap_unclaim(heap, 2 * HV_EXTENT_FRAMES);
    hv_arena_destroy(arena);
}

static void test_extents(void)
{
    uint64_t taken = 0;
    hv_mfn first[4];
    hv_mfn more;
    uint64_t acquired;

    TAP_OK(open_arena(HV_BACKING_KIND_ANON, 4));
    TAP_EQ(hv_heap_claim(heap, 4 * HV_EXTENT_FRAMES), 0);
    for (unsigned i = 0; i < 4; i++) {
        TAP_EQ(hv_heap_alloc_extent(heap, (uint16_t)i, &first[i]), 0);
        TAP_EQ(first[i].v % HV_EXTENT_FRAMES, 0);
        TAP_EQ(hv_frame_owner(hv_arena_frame(arena, (hv_mfn){first[i].v + 511})), i);
        taken += HV_EXTENT_FRAMES;
        TAP_OK(conserved(taken));
    }
    TAP_EQ(hv_heap_alloc_extent(heap, 1, &more), (uint64_t)-ENOMEM);
    TAP_EQ(more.v, HV_MFN_NONE.v);
    TAP_EQ(hv_heap_alloc_frame(heap, 1, &more), (uint64_t)-ENOMEM);
    /* Not another's, nor one with a frame still referenced; what was tried is as before. */
    TAP_EQ(hv_heap_free_extent(heap, first[0], 1), (uint64_t)-EBUSY);
    TAP_EQ(hv_frame_get(arena, (hv_mfn){first[0].v + 500}, 0), 0);
    TAP_EQ(hv_heap_free_extent(heap, first[0], 0), (uint64_t)-EBUSY);
    TAP_OK(conserved(taken));
    hv_frame_put(arena, (hv_mfn){first[0].v + 500});
    acquired = shard_locks();
    TAP_EQ(hv_heap_free_extent(heap, first[0], 0), 0);
    TAP_EQ(shard_locks(), acquired + 1);
    taken -= HV_EXTENT_FRAMES;
    TAP_OK(conserved(taken));
    TAP_EQ(hv_heap_alloc_extent(heap, 3, &more), 0);
    TAP_EQ(more.v, first[0].v);
    TAP_OK(conserved(taken + HV_EXTENT_FRAMES));
    hv_arena_destroy(arena);
}

static void free_twice(void)
{
    hv_mfn mfn;
    hv_mfn other;

    if (open_arena(HV_BACKING_KIND_ANON, 1) && hv_heap_alloc_frame(heap, 1, &mfn) == 0 &&
        hv_heap_alloc_frame(heap, 1, &other) == 0) {
        hv_frame_put(arena, mfn);
        hv_heap_free_batch(heap, &mfn, 1);
    }
}

static void test_dies(void)
{
    TAP_DIES(free_twice, SIGABRT, "free_map");
}

/* What an owner left is never seen by the next, however it was freed and whoever gets it. */
static void no_leak(enum hv_backing_kind kind)
{
    static hv_mfn single[600];
    hv_mfn first[4];
    hv_mfn batch[3];

    TAP_OK(open_arena(kind, 4));
    TAP_EQ(hv_heap_claim(heap, 4 * HV_EXTENT_FRAMES), 0);
    for (unsigned i = 0; i < 4; i++) {
        TAP_EQ(hv_heap_alloc_extent(heap, 1, &first[i]), 0);
        for (uint64_t k = 0; k < HV_EXTENT_FRAMES; k++) {
            scribble((hv_mfn){first[i].v + k});
        }
    }
    /* One whole, one frame by frame, one in a batch with a hole, one half: */
    TAP_EQ(hv_heap_free_extent(heap, first[0], 1), 0);
    for (uint64_t k = 0; k < HV_EXTENT_FRAMES; k++) {
        hv_frame_put(arena, (hv_mfn){first[1].v + k});
        hv_frame_check(hv_arena_frame(arena, (hv_mfn){first[1].v + k}));
    }
    for (unsigned k = 0; k < 3; k++) {
        batch[k].v = first[2].v + 100 * k;
        TAP_OK(hv_frame_release(hv_arena_frame(arena, batch[k])));
    }
    hv_heap_free_batch(heap, batch, 3);
    for (uint64_t k = 0; k < HV_EXTENT_FRAMES; k += 2) {
        hv_frame_put(arena, (hv_mfn){first[3].v + k});
    }
    TAP_OK(conserved(2 * HV_EXTENT_FRAMES - 3 - HV_EXTENT_FRAMES / 2));
    for (unsigned i = 0; i < 600; i++) {
        TAP_EQ(hv_heap_alloc_frame(heap, (uint16_t)(2 + i % 3), &single[i]), 0);
        TAP_OK(is_zero(single[i]));
        scribble(single[i]);
    }
    TAP_EQ(hv_heap_alloc_extent(heap, 2, &first[0]), 0);
    for (uint64_t k = 0; k < HV_EXTENT_FRAMES; k++) {
        TAP_OK(is_zero((hv_mfn){first[0].v + k}));
    }
    TAP_OK(conserved(2 * HV_EXTENT_FRAMES - 3 - HV_EXTENT_FRAMES / 2 + 600 + HV_EXTENT_FRAMES));
    for (unsigned i = 0; i < 600; i++) {
        hv_frame_put(arena, single[i]);
    }
    TAP_EQ(hv_heap_alloc_frame(heap, 9, &single[0]), 0);
    TAP_OK(is_zero(single[0]));
    hv_arena_destroy(arena);
}

static void test_no_leak(void)
{
    no_leak(HV_BACKING_KIND_ANON);
    no_leak(HV_BACKING_KIND_MEMFD);
}

/* Host memory given back reads as zero when it comes again, and is counted as it goes. */
static void trim(enum hv_backing_kind kind)
{
    struct hv_heap_info info;
    hv_mfn first[3];

    TAP_OK(open_arena(kind, 4));
    TAP_EQ(hv_heap_claim(heap, 3 * HV_EXTENT_FRAMES), 0);
    TAP_EQ(hv_heap_trim(heap, UINT64_MAX), 0);
    for (unsigned i = 0; i < 3; i++) {
        TAP_EQ(hv_heap_alloc_extent(heap, 1, &first[i]), 0);
        scribble(first[i]);
    }
    TAP_EQ(hv_heap_free_extent(heap, first[0], 1), 0);
    TAP_EQ(hv_heap_free_extent(heap, first[1], 1), 0);
    hv_heap_get_info(heap, &info);
    TAP_EQ(info.dirty_frames, 2 * HV_EXTENT_FRAMES);
    TAP_EQ(info.returned_frames, HV_EXTENT_FRAMES);
    TAP_EQ(hv_heap_trim(heap, 1), 1);
    TAP_EQ(hv_heap_trim(heap, UINT64_MAX), 1);
    TAP_OK(conserved(HV_EXTENT_FRAMES));
    hv_heap_get_info(heap, &info);
    TAP_EQ(info.dirty_frames, 0);
    TAP_EQ(hv_heap_claim(heap, 2 * HV_EXTENT_FRAMES), 0);
    TAP_EQ(hv_heap_alloc_extent(heap, 2, &first[0]), 0);
    TAP_EQ(hv_heap_alloc_extent(heap, 2, &first[1]), 0);
    TAP_OK(is_zero(first[0]) && is_zero(first[1]));
    hv_arena_destroy(arena);
}

static void test_trim(void)
{
    trim(HV_BACKING_KIND_ANON);
    trim(HV_BACKING_KIND_MEMFD);
}

/* The host has no memory for a returned extent: a backed one is taken, else -ENOMEM, and nothing is
 * lost. (Addresses without a mapping fail as a host without memory does.) */
static void test_host_without_memory(void)
{
    hv_mfn first;
    hv_mfn mfn;
    uint8_t *host;

    TAP_OK(open_arena(HV_BACKING_KIND_ANON, 2));
    TAP_EQ(hv_heap_claim(heap, 2 * HV_EXTENT_FRAMES), 0);
    TAP_EQ(hv_heap_alloc_extent(heap, 1, &first), 0);
    host = hv_arena_host(arena, (hv_mfn){HV_EXTENT_FRAMES - first.v});
    TAP_EQ(munmap(host, HV_EXTENT_SIZE), 0);
    TAP_EQ(hv_heap_alloc_extent(heap, 1, &mfn), (uint64_t)-ENOMEM);
    TAP_EQ(hv_heap_alloc_frame(heap, 1, &mfn), (uint64_t)-ENOMEM);
    TAP_OK(conserved(HV_EXTENT_FRAMES));
    TAP_EQ(hv_heap_free_extent(heap, first, 1), 0);
    TAP_EQ(hv_heap_claim(heap, HV_EXTENT_FRAMES), 0);
    /* Home is the other one's shard, which would fail. */
    TAP_EQ(hv_heap_alloc_extent(heap, (uint16_t)(2 + (first.v == 0)), &mfn), 0);
    TAP_EQ(mfn.v, first.v);
    TAP_EQ(hv_backing_map(&arena->backing, host, 0, HV_EXTENT_SIZE), 0);
    TAP_EQ(hv_heap_alloc_extent(heap, 1, &mfn), 0);
    TAP_OK(conserved(2 * HV_EXTENT_FRAMES));
    hv_arena_destroy(arena);
}

/* A frame that needs a scrub cannot be had by its number, whoever asks as whom. */
static void test_scrub_before_assign(void)
{
    hv_mfn first;

    TAP_OK(open_arena(HV_BACKING_KIND_ANON, 1));
    TAP_EQ(hv_heap_claim(heap, HV_EXTENT_FRAMES), 0);
    TAP_EQ(hv_heap_alloc_extent(heap, 1, &first), 0);
    TAP_EQ(hv_heap_free_extent(heap, first, 1), 0);
    TAP_OK(hv_load_seq(&hv_arena_frame(arena, first)->count) & HV_FRAME_NEED_SCRUB);
    TAP_EQ(hv_frame_get(arena, first, 1), (uint64_t)-ENOENT);
    TAP_EQ(hv_frame_get(arena, first, HV_OWNER_NONE), (uint64_t)-ENOENT);
    hv_arena_destroy(arena);
}

/* Reuse asks the mappers that may still have a pointer, once for an extent. */
static void test_reuse_flushes(void)
{
    struct hv_doorbell bell;
    struct hv_holder mapper;
    hv_mfn first;

    TAP_OK(open_arena(HV_BACKING_KIND_ANON, 2));
    hv_doorbell_init(&bell);
    hv_holder_init(&mapper, &bell, "test mapper", 0);
    hv_holders_register_mapper(&arena->holders, &mapper);
    TAP_EQ(hv_heap_claim(heap, 2 * HV_EXTENT_FRAMES), 0);
    TAP_EQ(hv_heap_alloc_extent(heap, 1, &first), 0);
    hv_holder_mark_dirty(&mapper);
    TAP_EQ(hv_heap_free_extent(heap, first, 1), 0);
    TAP_EQ(hv_load_seq(&bell.requests), 0);
    TAP_EQ(hv_heap_claim(heap, HV_EXTENT_FRAMES), 0);
    TAP_EQ(hv_heap_alloc_extent(heap, 3, &first), 0); /* of the same shard */
    TAP_EQ(hv_load_relaxed(&heap->flushes.issued), 1);
    TAP_EQ(hv_load_seq(&bell.requests), HV_REQUEST_FLUSH);
    hv_holders_retire_mapper(&arena->holders, &mapper);
    hv_arena_destroy(arena);
}

/* A random life of owners: after every step the books are right and what is handed out is zero. */
static void test_conserve(void)
{
    static struct {
        hv_mfn mfn;
        uint16_t owner;
        bool whole;
    } held[3000];
    unsigned count = 0;
    uint64_t owned = 0;

    TAP_OK(open_arena(HV_BACKING_KIND_ANON, 6));
    for (unsigned step = 0; step < 600; step++) {
        uint64_t dice = tap_rng() % 100;
        uint16_t owner = (uint16_t)(tap_rng() % 20);
        unsigned pick = count ? (unsigned)(tap_rng() % count) : 0;

        if (dice < 15 && hv_heap_claim(heap, HV_EXTENT_FRAMES) == 0) {
            if (hv_heap_alloc_extent(heap, owner, &held[count].mfn)) {
                hv_heap_unclaim(heap, HV_EXTENT_FRAMES);
            } else {
                held[count].owner = owner;
                held[count++].whole = true;
                owned += HV_EXTENT_FRAMES;
            }
        } else if (dice < 60 && hv_heap_claim(heap, 1) == 0) {
            TAP_EQ(hv_heap_alloc_frame(heap, owner, &held[count].mfn), 0);
            TAP_OK(is_zero(held[count].mfn));
            scribble(held[count].mfn);
            held[count].owner = owner;
            held[count++].whole = false;
            owned++;
        } else if (dice < 97 && count > 0) {
            if (held[pick].whole) {
                TAP_EQ(hv_heap_free_extent(heap, held[pick].mfn, held[pick].owner), 0);
                owned -= HV_EXTENT_FRAMES;
            } else {
                hv_frame_put(arena, held[pick].mfn);
                owned--;
            }
            held[pick] = held[--count];
        } else {
            (void)hv_heap_trim(heap, tap_rng() % 4);
        }
        TAP_OK(conserved(owned));
    }
    while (count-- > 0) {
        if (held[count].whole) {
            TAP_EQ(hv_heap_free_extent(heap, held[count].mfn, held[count].owner), 0);
        } else {
            hv_frame_put(arena, held[count].mfn);
        }
    }
    TAP_OK(conserved(0));
    TAP_EQ(hv_load_seq(&heap->unclaimed), hv_arena_frames(arena));
    hv_arena_destroy(arena);
}

static hv_mfn taken[2];
static int taken_err[2];

static void take_body(unsigned index, void *context)
{
    const uint16_t *owner = context;

    hv_race_name_thread(index + 1);
    if (index == 1 && !hv_race_await(1, "heap.extent.moving")) {
        return;
    }
    taken_err[index] = hv_heap_alloc_frame(heap, owner[index], &taken[index]);
}

/* The last extent is in the hands of one who splits it for a single frame: who has a claim on
 * another waits for it instead of being told that there is none. */
static void test_claim_waits_for_split(void)
{
    static const uint16_t owners[2] = {1, 2};
    struct threads takers;

    if (skip_script()) {
        return;
    }
    TAP_OK(open_arena(HV_BACKING_KIND_ANON, 1));
    TAP_EQ(hv_heap_claim(heap, 2), 0);
    hv_race_begin();
    hv_race_stop(1, "heap.extent.moving", 0);
    threads_start(&takers, 2, take_body, (void *)owners);
    TAP_AWAIT(hv_load_seq(&heap->settled.waiters) == 1);
    hv_race_end();
    threads_join(&takers);
    TAP_EQ(taken_err[0], 0);
    TAP_EQ(taken_err[1], 0);
    TAP_OK(taken[0].v != taken[1].v);
    TAP_OK(conserved(2));
    TAP_EQ(hv_load_seq(&heap->moving), 0);
    hv_arena_destroy(arena);
}

static void search_body(unsigned index, void *context)
{
    (void)context;
    hv_race_name_thread(index + 1);
    taken_err[0] = hv_heap_alloc_frame(heap, 0, &taken[0]);
}

/* Free @gone and have @owner, whose home has the only other free frame, take that. */
static bool move_free_frame(hv_mfn gone, uint16_t owner, hv_mfn expected)
{
    hv_mfn mfn;

    hv_frame_put(arena, gone);
    return hv_heap_claim(heap, 1) == 0 && hv_heap_alloc_frame(heap, owner, &mfn) == 0 &&
           mfn.v == expected.v;
}

/* Let the searcher look at one more shard. */
static bool next_shard(void)
{
    hv_race_stop(1, "heap.frame.shard", 0);
    hv_race_release(1, "heap.frame.shard");
    return hv_race_await(1, "heap.frame.shard");
}

/*
 * There is always one free frame, but while the searcher looks at one shard it is in the other, for
 * two whole searches. Its claim says that there is one, so it goes on.
 */
static void test_claim_finds_what_moved(void)
{
    struct threads searcher;
    hv_mfn first[2];

    if (skip_script()) {
        return;
    }
    TAP_OK(open_arena(HV_BACKING_KIND_ANON, 2));
    TAP_EQ(heap->shard_count, 2);
    TAP_EQ(hv_heap_claim(heap, 2 * HV_EXTENT_FRAMES), 0);
    TAP_EQ(hv_heap_alloc_extent(heap, 0, &first[0]), 0);
    TAP_EQ(hv_heap_alloc_extent(heap, 1, &first[1]), 0);
    hv_frame_put(arena, first[1]);
    TAP_EQ(hv_heap_claim(heap, 1), 0);
    hv_race_begin();
    hv_race_stop(1, "heap.frame.shard", 0);
    threads_start(&searcher, 1, search_body, NULL);
    TAP_OK(hv_race_await(1, "heap.frame.shard")); /* after shard 0 */
    TAP_OK(move_free_frame(first[0], 1, first[1]));
    TAP_OK(next_shard()); /* after shard 1 */
    TAP_OK(move_free_frame(first[1], 0, first[0]));
    TAP_OK(next_shard()); /* after shard 0 again */
    TAP_OK(move_free_frame(first[0], 1, first[1]));
    hv_race_end();
    threads_join(&searcher);
    TAP_EQ(taken_err[0], 0);
    TAP_EQ(taken[0].v, first[0].v);
    TAP_OK(conserved(2 * HV_EXTENT_FRAMES));
    hv_arena_destroy(arena);
}

#define CREATORS 4

static _Atomic unsigned broken_claims;

/* Claim first, then allocate what was claimed: it never fails half way. */
static void create_body(unsigned index, void *context)
{
    (void)context;
    for (unsigned i = 0; i < 100; i++) {
        hv_mfn mfn[5];
        unsigned want = 1 + (i + index) % 5;

        if (hv_heap_claim(heap, want * HV_EXTENT_FRAMES) != 0) {
            continue;
        }
        for (unsigned k = 0; k < want; k++) {
            if (hv_heap_alloc_extent(heap, (uint16_t)index, &mfn[k]) != 0) {
                hv_add_relaxed(&broken_claims, 1);
                return;
            }
        }
        for (unsigned k = 0; k < want; k++) {
            if (hv_heap_free_extent(heap, mfn[k], (uint16_t)index) != 0) {
                hv_add_relaxed(&broken_claims, 1);
            }
        }
    }
}

static void test_claim_race(void)
{
    TAP_OK(open_arena(HV_BACKING_KIND_NONE, 8));
    threads_run(CREATORS, create_body, NULL);
    TAP_EQ(hv_load_relaxed(&broken_claims), 0);
    TAP_OK(conserved(0));
    hv_arena_destroy(arena);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"heap.claims", test_claims},
        {"heap.extents", test_extents},
        {"heap.dies", test_dies},
        {"heap.no-leak", test_no_leak},
        {"heap.trim", test_trim},
        {"heap.host-without-memory", test_host_without_memory},
        {"heap.scrub-before-assign", test_scrub_before_assign},
        {"heap.reuse-flushes", test_reuse_flushes},
        {"heap.conserve", test_conserve},
        {"heap.claim-waits-for-split", test_claim_waits_for_split},
        {"heap.claim-finds-what-moved", test_claim_finds_what_moved},
        {"heap.claim", test_claim_race},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
