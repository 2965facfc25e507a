/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Everybody at one small heap at once: creators with claims for extents and frames, with and without
 * magazines, threads that come and go, a scrubber, a returner, one who drains. A claim is always
 * kept, whatever is handed out is zero, no frame has two owners, and nothing is lost.
 */
#include "lib/threads.h"
#include "sync/race.h"
#include "unit/mem/heap-fixture.h"

#define CREATORS   4u
#define BACKGROUND 1u
#define THREADS    (CREATORS + BACKGROUND)
/* Less than all of them want at a time, so that claims are refused, too. */
#define EXTENTS    3u
#define HELD       700u

static _Atomic uint32_t broken, refused, kept;
static _Atomic uint32_t creators_left;

static void broke(const char *what)
{
    hv_add_relaxed(&broken, 1);
    tap_note("%s", what);
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return *state >> 33;
}

/* It was nobody's, and is zero; leave the owner's mark. */
static void mark(hv_mfn mfn, uint16_t owner)
{
    uint64_t *words = hv_arena_host(arena, mfn);

    for (unsigned i = 0; i < HV_PAGE_SIZE / sizeof(*words); i += 61) {
        if (words[i] != 0) {
            broke("a frame was not zero");
            return;
        }
        words[i] = owner;
    }
    if (hv_frame_owner(hv_arena_frame(arena, mfn)) != owner) {
        broke("a frame was another's");
    }
}

/* The mark is what it was all the time. */
static void unmark(hv_mfn mfn, uint16_t owner)
{
    const uint64_t *words = hv_arena_host(arena, mfn);

    for (unsigned i = 0; i < HV_PAGE_SIZE / sizeof(*words); i += 61) {
        if (words[i] != owner) {
            broke("two owners had one frame");
            return;
        }
    }
}

/* Some frames by one claim, and back in another order. */
static void use_frames(uint16_t owner, unsigned count, uint64_t *random)
{
    hv_mfn held[HELD];

    if (hv_heap_claim(heap, count)) {
        hv_add_relaxed(&refused, 1);
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        if (hv_heap_alloc_frame(heap, owner, &held[i])) {
            broke("a claim was not kept");
            return;
        }
        mark(held[i], owner);
    }
    hv_add_relaxed(&kept, 1);
    for (unsigned i = count; i > 0; i--) {
        unsigned pick = (unsigned)(next_random(random) % i);

        unmark(held[pick], owner);
        hv_frame_put(arena, held[pick]);
        held[pick] = held[i - 1];
    }
}

/* A whole extent if there is one; a claim alone is no right to that. */
static void use_extent(uint16_t owner)
{
    hv_mfn first;

    if (hv_heap_claim(heap, HV_EXTENT_FRAMES)) {
        hv_add_relaxed(&refused, 1);
        return;
    }
    if (hv_heap_alloc_extent(heap, owner, &first)) {
        hv_heap_unclaim(heap, HV_EXTENT_FRAMES);
        return;
    }
    for (uint64_t i = 0; i < HV_EXTENT_FRAMES; i += 17) {
        mark((hv_mfn){first.v + i}, owner);
    }
    for (uint64_t i = 0; i < HV_EXTENT_FRAMES; i += 17) {
        unmark((hv_mfn){first.v + i}, owner);
    }
    if (hv_heap_free_extent(heap, first, owner)) {
        broke("an extent could not be freed whole");
    }
}

static void create(unsigned index, unsigned rounds)
{
    uint64_t random = index + 1;

    for (unsigned round = 0; round < rounds; round++) {
        uint16_t owner = (uint16_t)(index * 1000 + round % 1000);

        /* The last one has no magazines; the others begin a new life now and then. */
        if (index < CREATORS - 1 && round % 8 == 0) {
            hv_heap_detach_thread(heap);
            hv_heap_attach_thread(heap);
        }
        if (next_random(&random) % 4 == 0) {
            use_extent(owner);
        } else {
            use_frames(owner, 1 + (unsigned)(next_random(&random) % HELD), &random);
        }
    }
    hv_heap_detach_thread(heap);
    hv_sub_seq(&creators_left, 1);
}

static void tend(void)
{
    struct hv_heap_info info;
    uint64_t random = 99;

    while (hv_load_seq(&creators_left) > 0) {
        switch (next_random(&random) % 8) {
        case 0:
            (void)hv_heap_trim(heap, next_random(&random) % 3);
            break;
        case 1:
            (void)hv_magazines_drain(heap);
            break;
        case 2:
            hv_heap_get_info(heap, &info);
            break;
        default:
            (void)hv_heap_scrub_spare(heap);
            break;
        }
        threads_patient(0);
    }
}

static void body(unsigned index, void *context)
{
    hv_race_name_thread(index + 1);
    if (index < CREATORS) {
        create(index, *(unsigned *)context);
    } else {
        tend();
    }
}

static void all_at_once(enum hv_backing_kind kind)
{
    unsigned rounds = threads_rounds(300);

    TAP_OK(open_arena(kind, EXTENTS));
    hv_store_seq(&creators_left, CREATORS);
    hv_store_seq(&kept, 0);
    hv_store_seq(&refused, 0);
    hv_race_begin();
    hv_race_shuffle(tap_rng());
    threads_run(THREADS, body, &rounds);
    hv_race_end();
    tap_note("%u claims kept, %u refused, %" PRIu64 " loads", hv_load_relaxed(&kept),
             hv_load_relaxed(&refused), hv_load_relaxed(&heap->magazines[0].loads));
    TAP_EQ(hv_load_relaxed(&broken), 0);
    TAP_OK(hv_load_relaxed(&kept) > 0);
    TAP_OK(conserved(0));
    TAP_EQ(hv_load_seq(&heap->unclaimed), hv_arena_frames(arena));
    hv_arena_destroy(arena);
}

static void test_anonymous(void)
{
    all_at_once(HV_BACKING_KIND_ANON);
}

static void test_memfd(void)
{
    all_at_once(HV_BACKING_KIND_MEMFD);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"stress.heap-anonymous", test_anonymous},
        {"stress.heap-memfd", test_memfd},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
