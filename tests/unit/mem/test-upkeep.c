/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What happens to free memory in the background, turn by turn on a simulated clock: how much is kept,
 * scrubbed and returned when, and that the host has it then. Last, the threads that take the turns.
 */
#include "base/alloc.h"
#include "lib/threads.h"
#include "mem/upkeep-private.h"
#include "sync/race.h"
#include "unit/mem/heap-fixture.h"

#include <stdlib.h>
#include <sys/mman.h>

#define KEEP  4u
#define QUIET (5 * HV_NS_PER_S)

static const struct hv_upkeep_policy policy = {KEEP * HV_EXTENT_SIZE, QUIET};
static const hv_ns start = {1000 * HV_NS_PER_S};
static struct hv_clock clock_now;
static struct hv_upkeep upkeep;

static hv_ns at(uint64_t span_ns)
{
    return hv_ns_add(start, span_ns);
}

static bool open_upkeep(enum hv_backing_kind kind, uint64_t extents)
{
    hv_clock_init_simulated(&clock_now, start);
    if (!open_arena(kind, extents)) {
        return false;
    }
    hv_upkeep_init(&upkeep, heap, &clock_now, &policy);
    return true;
}

static hv_mfn held[128];

/* An owner takes @count extents and touches them; and frees the @count last ones. */
static bool use(unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++) {
        if (hv_heap_claim(heap, HV_EXTENT_FRAMES) || hv_heap_alloc_extent(heap, 1, &held[i])) {
            return false;
        }
        scribble(held[i]);
    }
    return true;
}

static bool leave(unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++) {
        if (hv_heap_free_extent(heap, held[i], 1)) {
            return false;
        }
    }
    return true;
}

static uint64_t backed(void)
{
    return hv_load_seq(&heap->backed);
}

/* Extents of which the host has pages, as the kernel says. */
static uint64_t resident(void)
{
    uint64_t bytes = hv_arena_frames(arena) * HV_PAGE_SIZE;
    unsigned char *pages = malloc(bytes / HV_PAGE_SIZE);
    uint64_t count = 0;

    if (!pages || mincore(hv_arena_host(arena, (hv_mfn){0}), bytes, pages) != 0) {
        free(pages);
        return UINT64_MAX;
    }
    for (uint64_t i = 0; i < bytes / HV_PAGE_SIZE; i++) {
        count += pages[i] & 1;
    }
    free(pages);
    return count / HV_EXTENT_FRAMES;
}

static void test_default(void)
{
    TAP_OK(open_arena(HV_BACKING_KIND_NONE, 64));
    TAP_EQ(hv_upkeep_default(heap).keep_bytes, 512 * HV_MIB);
    TAP_EQ(hv_upkeep_default(heap).quiet_ns, 5 * HV_NS_PER_S);
    hv_arena_destroy(arena);
    TAP_OK(open_arena(HV_BACKING_KIND_NONE, 5120));
    TAP_EQ(hv_upkeep_default(heap).keep_bytes, HV_GIB);
    hv_arena_destroy(arena);
}

/* Beyond the pool all is returned at the end of a period, and not before. */
static void returned_after_quiet(enum hv_backing_kind kind)
{
    TAP_OK(open_upkeep(kind, 24));
    TAP_EQ(hv_upkeep_return(&upkeep, start).v, HV_NS_NEVER.v);
    TAP_OK(use(0, 20));
    TAP_EQ(hv_upkeep_return(&upkeep, start).v, HV_NS_NEVER.v);
    TAP_EQ(resident(), 20);
    TAP_OK(leave(0, 20));
    TAP_EQ(hv_upkeep_return(&upkeep, start).v, at(QUIET).v);
    TAP_EQ(hv_upkeep_return(&upkeep, at(QUIET - 1)).v, at(QUIET).v);
    TAP_EQ(resident(), 20);
    TAP_EQ(hv_upkeep_return(&upkeep, at(QUIET)).v, at(QUIET).v);
    TAP_EQ(backed(), KEEP);
    TAP_EQ(resident(), KEEP);
    TAP_EQ(heap_info().returned_frames, 20 * HV_EXTENT_FRAMES);
    TAP_OK(conserved(0));
    TAP_EQ(hv_upkeep_return(&upkeep, at(QUIET)).v, HV_NS_NEVER.v);
    TAP_OK(use(0, 24));
    for (unsigned i = 0; i < 24; i++) {
        TAP_OK(is_zero((hv_mfn){held[i].v + 1}));
    }
    TAP_EQ(hv_upkeep_return(&upkeep, at(QUIET)).v, HV_NS_NEVER.v);
    hv_arena_destroy(arena);
}

static void test_return(void)
{
    returned_after_quiet(HV_BACKING_KIND_ANON);
    returned_after_quiet(HV_BACKING_KIND_MEMFD);
}

/* What was needed at any moment of the period stays for another one. */
static void test_return_not_what_is_used(void)
{
    TAP_OK(open_upkeep(HV_BACKING_KIND_ANON, 24));
    TAP_OK(use(0, 20) && leave(0, 20));
    TAP_EQ(hv_upkeep_return(&upkeep, start).v, at(QUIET).v);
    TAP_OK(use(0, 10) && leave(0, 10));
    TAP_EQ(hv_upkeep_return(&upkeep, at(QUIET)).v, at(QUIET).v);
    TAP_EQ(backed(), 20 - (10 - KEEP));
    TAP_EQ(hv_upkeep_return(&upkeep, at(QUIET)).v, at(2 * QUIET).v);
    TAP_EQ(hv_upkeep_return(&upkeep, at(2 * QUIET)).v, at(2 * QUIET).v);
    TAP_EQ(backed(), KEEP);
    hv_arena_destroy(arena);
}

/* In batches, between which the pool's users are looked at. */
static void test_return_batches(void)
{
    TAP_OK(open_upkeep(HV_BACKING_KIND_ANON, 80));
    TAP_OK(use(0, 76) && leave(0, 76));
    (void)hv_upkeep_return(&upkeep, start);
    TAP_EQ(hv_upkeep_return(&upkeep, at(QUIET)).v, at(QUIET).v);
    TAP_EQ(backed(), 76 - 32);
    /* 44 are left; ten of the 40 beyond the pool are wanted again. */
    TAP_OK(use(0, 10));
    TAP_EQ(backed(), 34);
    TAP_EQ(hv_upkeep_return(&upkeep, at(QUIET)).v, at(QUIET).v);
    TAP_EQ(backed(), KEEP);
    TAP_EQ(hv_upkeep_return(&upkeep, at(QUIET)).v, HV_NS_NEVER.v);
    TAP_OK(conserved(10 * HV_EXTENT_FRAMES));
    hv_arena_destroy(arena);
}

/* What the host would not take is tried again, but not at once. */
static void test_return_refused(void)
{
    TAP_OK(open_upkeep(HV_BACKING_KIND_MEMFD, 8));
    TAP_OK(use(0, 8) && leave(0, 8));
    (void)hv_upkeep_return(&upkeep, start);
    arena->backing.bytes = 0; /* every range is outside */
    TAP_EQ(hv_upkeep_return(&upkeep, at(QUIET)).v, at(QUIET).v);
    TAP_EQ(backed(), 8);
    TAP_EQ(hv_upkeep_return(&upkeep, at(QUIET)).v, at(2 * QUIET).v);
    TAP_OK(conserved(0));
    arena->backing.bytes = 8 * HV_EXTENT_SIZE;
    TAP_EQ(hv_upkeep_return(&upkeep, at(2 * QUIET)).v, at(2 * QUIET).v);
    TAP_EQ(backed(), KEEP);
    hv_arena_destroy(arena);
}

/* The end of a period empties the magazines, too: the extents count in the next. */
static void test_return_magazines(void)
{
    hv_mfn mfn;

    TAP_OK(open_upkeep(HV_BACKING_KIND_ANON, 8));
    TAP_OK(use(0, 6) && leave(0, 6));
    hv_heap_attach_thread(heap);
    TAP_EQ(hv_heap_claim(heap, 1), 0);
    TAP_EQ(hv_heap_alloc_frame(heap, 1, &mfn), 0);
    hv_frame_put(arena, mfn);
    TAP_EQ(backed(), 5);
    (void)hv_upkeep_return(&upkeep, start);
    TAP_EQ(hv_upkeep_return(&upkeep, at(QUIET)).v, at(QUIET).v);
    TAP_EQ(heap_info().magazine_frames, 0);
    TAP_EQ(backed(), KEEP + 1);
    TAP_EQ(hv_upkeep_return(&upkeep, at(QUIET)).v, at(2 * QUIET).v);
    (void)hv_upkeep_return(&upkeep, at(2 * QUIET));
    TAP_EQ(backed(), KEEP);
    hv_heap_detach_thread(heap);
    hv_arena_destroy(arena);
}

/* A domain's memory, taken apart the product's way, is the host's again. */
static void test_destroy_returns(void)
{
    const uint64_t pages = 16 * HV_EXTENT_FRAMES - 100;
    static struct hv_memory memory;

    TAP_OK(open_upkeep(HV_BACKING_KIND_ANON, 24));
    TAP_EQ(hv_memory_init(&memory, arena, 7, pages * HV_PAGE_SIZE, NULL, NULL), 0);
    TAP_EQ(hv_memory_add_ram(&memory, (hv_gfn){0}, pages), 0);
    for (uint64_t gfn = 0; gfn < pages; gfn += 100) {
        uint64_t word = gfn;

        TAP_EQ(hv_memory_copy(&memory, (hv_gpa){gfn * HV_PAGE_SIZE}, &word, 8, HV_COPY_TO_GUEST),
               0);
    }
    TAP_EQ(resident(), 16);
    (void)hv_upkeep_return(&upkeep, start);
    memory_close(&memory);
    (void)hv_upkeep_return(&upkeep, start);
    (void)hv_upkeep_return(&upkeep, at(QUIET));
    TAP_EQ(resident(), KEEP);
    TAP_EQ(heap_info().returned_frames, 20 * HV_EXTENT_FRAMES);
    TAP_OK(conserved(0));
    hv_arena_destroy(arena);
}

/* The pool is made clean, and no more: the rest is going to be returned. */
static void test_scrub(void)
{
    TAP_OK(open_upkeep(HV_BACKING_KIND_ANON, 8));
    TAP_EQ(hv_upkeep_scrub(&upkeep, start).v, HV_NS_NEVER.v);
    TAP_OK(use(0, 7) && leave(0, 7));
    for (unsigned i = 1; i <= KEEP; i++) {
        TAP_EQ(hv_upkeep_scrub(&upkeep, start).v, start.v);
        TAP_EQ(heap_info().clean_frames, i * HV_EXTENT_FRAMES);
    }
    TAP_EQ(hv_upkeep_scrub(&upkeep, start).v, HV_NS_NEVER.v);
    TAP_EQ(heap_info().dirty_frames, 3 * HV_EXTENT_FRAMES);
    /* A clean one is used: one of the dirty ones takes its place. */
    TAP_OK(use(0, 1));
    TAP_EQ(hv_upkeep_scrub(&upkeep, start).v, start.v);
    TAP_EQ(hv_upkeep_scrub(&upkeep, start).v, HV_NS_NEVER.v);
    TAP_EQ(heap_info().dirty_frames, 2 * HV_EXTENT_FRAMES);
    /* The dirty ones are returned, the clean ones kept. */
    (void)hv_upkeep_return(&upkeep, start);
    (void)hv_upkeep_return(&upkeep, at(QUIET));
    TAP_EQ(heap_info().clean_frames, KEEP * HV_EXTENT_FRAMES);
    TAP_EQ(heap_info().dirty_frames, 0);
    TAP_OK(conserved(HV_EXTENT_FRAMES));
    hv_arena_destroy(arena);
}

static _Atomic uint64_t next_scrub;

static void scrub_body(unsigned index, void *context)
{
    (void)index;
    (void)context;
    hv_race_name_thread(1);
    hv_store_seq(&next_scrub, hv_upkeep_scrub(&upkeep, start).v);
}

static void test_scrub_gave_up(void)
{
    struct threads scrubber;

    if (skip_script()) {
        return;
    }
    TAP_OK(open_upkeep(HV_BACKING_KIND_ANON, 1));
    TAP_OK(use(0, 1) && leave(0, 1));
    hv_race_begin();
    hv_race_stop(1, "heap.scrub.page", 7);
    threads_start(&scrubber, 1, scrub_body, NULL);
    TAP_OK(hv_race_await(1, "heap.scrub.page"));
    hv_store_seq(&heap->scrub, HV_SCRUB_WANTED);
    hv_race_end();
    threads_join(&scrubber);
    TAP_EQ(hv_load_seq(&next_scrub), at(10 * HV_NS_PER_MS).v);
    hv_arena_destroy(arena);
}

/* Clean frames of a split extent are no clean extent: the pool has one fewer. */
static void test_scrub_beside_split(void)
{
    hv_mfn mfn;

    TAP_OK(open_upkeep(HV_BACKING_KIND_ANON, KEEP + 1));
    TAP_OK(use(0, KEEP + 1) && leave(0, KEEP + 1));
    TAP_EQ(hv_heap_scrub_spare(heap), HV_SCRUBBED_EXTENT);
    TAP_EQ(hv_heap_claim(heap, 1), 0);
    TAP_EQ(hv_heap_alloc_frame(heap, 1, &mfn), 0);
    TAP_EQ(heap_info().clean_frames, HV_EXTENT_FRAMES - 1);
    for (unsigned i = 1; i <= KEEP; i++) {
        TAP_EQ(hv_upkeep_scrub(&upkeep, start).v, start.v);
    }
    TAP_EQ(hv_upkeep_scrub(&upkeep, start).v, HV_NS_NEVER.v);
    TAP_EQ(heap_info().dirty_frames, 0);
    hv_frame_put(arena, mfn);
    hv_arena_destroy(arena);
}

/* It rests for longer each time that others wanted the CPU meanwhile, and not when nobody did. */
static void test_pace(void)
{
    uint64_t preemptions = 7;

    TAP_OK(open_upkeep(HV_BACKING_KIND_ANON, 1));
    upkeep.preemptions = preemptions;
    TAP_EQ(hv_upkeep_pace(&upkeep, start, start, preemptions).v, start.v);
    for (uint64_t ms = 1; ms <= 64; ms *= 2) {
        TAP_EQ(hv_upkeep_pace(&upkeep, start, start, ++preemptions).v, at(ms * HV_NS_PER_MS).v);
    }
    TAP_EQ(hv_upkeep_pace(&upkeep, start, start, ++preemptions).v, at(64 * HV_NS_PER_MS).v);
    TAP_EQ(hv_upkeep_pace(&upkeep, start, start, preemptions).v, start.v);
    TAP_EQ(hv_upkeep_pace(&upkeep, start, start, preemptions + 9).v, at(HV_NS_PER_MS).v);
    /* Later for another reason, or without work: that stays. */
    TAP_EQ(hv_upkeep_pace(&upkeep, at(QUIET), start, preemptions + 10).v, at(QUIET).v);
    TAP_EQ(hv_upkeep_pace(&upkeep, HV_NS_NEVER, start, preemptions + 11).v, HV_NS_NEVER.v);
    hv_arena_destroy(arena);
}

static void take_body(unsigned index, void *context)
{
    (void)index;
    (void)context;
    hv_race_name_thread(1);
    (void)use(2, 1);
}

static void fewest_body(unsigned index, void *context)
{
    (void)index;
    hv_race_name_thread(1);
    *(uint64_t *)context = hv_heap_fewest_backed(heap);
}

/* One of three free extents goes while the period changes: the new one's fewest is two. */
static void test_fewest_amid_take(void)
{
    static threads_body *const bodies[] = {take_body, fewest_body};
    static const char *const points[] = {"heap.unbacked", "heap.fewest.swapped"};

    if (skip_script()) {
        return;
    }
    for (unsigned i = 0; i < HV_ARRAY_LEN(bodies); i++) {
        struct threads other;
        uint64_t before = 0;

        TAP_OK(open_upkeep(HV_BACKING_KIND_ANON, 4));
        TAP_OK(use(0, 3) && leave(0, 2)); /* two free, and none at the start: fewest 0 */
        TAP_OK(leave(2, 1));
        hv_race_begin();
        hv_race_stop(1, points[i], 0);
        threads_start(&other, 1, bodies[i], &before);
        TAP_OK(hv_race_await(1, points[i]));
        if (bodies[i] == take_body) {
            before = hv_heap_fewest_backed(heap);
        } else {
            TAP_OK(use(2, 1));
        }
        hv_race_end();
        threads_join(&other);
        TAP_EQ(before, 0);
        TAP_EQ(hv_heap_fewest_backed(heap), 2);
        hv_arena_destroy(arena);
    }
}

/* Whoever frees wakes a duty once, not for each extent; and a user of a clean one wakes them, too. */
static void test_wakes(void)
{
    struct hv_doorbell *bells;

    TAP_OK(open_upkeep(HV_BACKING_KIND_ANON, 4));
    bells = heap->duty_bell;
    TAP_OK(use(0, 3));
    TAP_EQ(hv_load_seq(&bells[HV_DUTY_SCRUB].requests), 0);
    hv_store_seq(&heap->duties_asleep, 1u << HV_DUTY_RETURN);
    TAP_OK(leave(0, 1));
    TAP_EQ(hv_load_seq(&heap->duties_asleep), 0);
    TAP_EQ(hv_doorbell_take(&bells[HV_DUTY_RETURN]), HV_REQUEST_EVENT);
    TAP_EQ(hv_load_seq(&bells[HV_DUTY_SCRUB].requests), 0);
    TAP_OK(leave(1, 2));
    TAP_EQ(hv_load_seq(&bells[HV_DUTY_RETURN].requests), 0);
    (void)hv_heap_scrub_spare(heap);
    hv_store_seq(&heap->duties_asleep, 1u << HV_DUTY_SCRUB);
    TAP_OK(use(0, 1));
    TAP_EQ(hv_doorbell_take(&bells[HV_DUTY_SCRUB]), HV_REQUEST_EVENT);
    hv_store_seq(&heap->duties_asleep, 0);
    hv_arena_destroy(arena);
}

static void test_threads_fail(void)
{
    struct hv_upkeep *made;
    int64_t live = hv_alloc_live();

    TAP_OK(open_upkeep(HV_BACKING_KIND_ANON, 4));
    live = hv_alloc_live();
    hv_alloc_fail_at(1);
    TAP_EQ(hv_upkeep_create(heap, &clock_now, &policy, &made), (uint64_t)-ENOMEM);
    hv_alloc_fail_at(0);
    TAP_OK(!made);
    TAP_EQ(hv_alloc_live(), live);
    TAP_EQ(hv_upkeep_create(heap, &clock_now, &policy, &made), 0);
    hv_upkeep_destroy(made);
    hv_upkeep_destroy(NULL);
    TAP_EQ(hv_alloc_live(), live);
    hv_arena_destroy(arena);
}

/* Let simulated time pass until the condition holds. */
static bool passes(struct hv_upkeep *made, uint64_t returned_extents)
{
    uint64_t end = threads_patience();

    while (heap_info().returned_frames != returned_extents * HV_EXTENT_FRAMES) {
        hv_clock_advance(&clock_now, HV_NS_PER_S);
        hv_upkeep_clock_moved(made);
        if (!threads_patient(end)) {
            return false;
        }
    }
    return true;
}

/* No wake is lost: each time something is freed the threads scrub the pool and return the rest. */
static void test_threads(void)
{
    unsigned rounds = threads_rounds(30);
    struct hv_upkeep *made;

    TAP_OK(open_upkeep(HV_BACKING_KIND_ANON, 12));
    TAP_EQ(hv_upkeep_create(heap, &clock_now, &policy, &made), 0);
    for (unsigned round = 0; round < rounds; round++) {
        TAP_OK(use(0, 9));
        for (unsigned i = 0; i < 9; i++) {
            TAP_OK(is_zero((hv_mfn){held[i].v + 1}));
        }
        TAP_OK(leave(0, 9));
        TAP_AWAIT(heap_info().clean_frames >= KEEP * HV_EXTENT_FRAMES);
        TAP_OK(passes(made, 12 - KEEP));
        TAP_EQ(backed(), KEEP);
        TAP_EQ(resident(), KEEP);
    }
    hv_upkeep_destroy(made);
    TAP_OK(conserved(0));
    hv_arena_destroy(arena);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"upkeep.default", test_default},
        {"upkeep.return", test_return},
        {"upkeep.return-not-what-is-used", test_return_not_what_is_used},
        {"upkeep.return-batches", test_return_batches},
        {"upkeep.return-refused", test_return_refused},
        {"upkeep.return-magazines", test_return_magazines},
        {"upkeep.destroy-returns", test_destroy_returns},
        {"upkeep.scrub", test_scrub},
        {"upkeep.scrub-gave-up", test_scrub_gave_up},
        {"upkeep.scrub-beside-split", test_scrub_beside_split},
        {"upkeep.pace", test_pace},
        {"upkeep.fewest-amid-take", test_fewest_amid_take},
        {"upkeep.wakes", test_wakes},
        {"upkeep.threads-fail", test_threads_fail},
        {"upkeep.threads", test_threads},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
