/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The arena: sizes refused, addresses where frames say they are, nothing used before it is needed. */
#include "mem/arena.h"

#include "lib/tap.h"
#include "mem/heap.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static struct hv_arena *arena;

static int create(enum hv_backing_kind kind, uint64_t bytes)
{
    const struct hv_arena_config config = {kind, bytes};

    return hv_arena_create(&config, &arena);
}

static void test_sizes(void)
{
    TAP_EQ(create(HV_BACKING_KIND_ANON, 0), (uint64_t)-EINVAL);
    TAP_EQ(create(HV_BACKING_KIND_ANON, HV_EXTENT_SIZE - HV_PAGE_SIZE), (uint64_t)-EINVAL);
    TAP_EQ(create(HV_BACKING_KIND_ANON, HV_EXTENT_SIZE + 1), (uint64_t)-EINVAL);
    TAP_EQ(create(HV_BACKING_KIND_NONE, UINT64_MAX - HV_EXTENT_SIZE + 1), (uint64_t)-EINVAL);
    /* One extent more than 32 bits can number frames of. */
    TAP_EQ(create(HV_BACKING_KIND_NONE, (UINT64_C(1) << 44)), (uint64_t)-EINVAL);
    TAP_OK(!arena);
    hv_arena_destroy(NULL);
}

static void addresses(enum hv_backing_kind kind)
{
    const uint64_t extents = 3;
    uint8_t *host;

    TAP_EQ(create(kind, extents * HV_EXTENT_SIZE), 0);
    TAP_EQ(hv_arena_frames(arena), extents * HV_EXTENT_FRAMES);
    host = hv_arena_host(arena, (hv_mfn){0});
    TAP_EQ((uintptr_t)host % HV_EXTENT_SIZE, 0);
    TAP_EQ((uintptr_t)hv_arena_host(arena, (hv_mfn){1000}), (uintptr_t)host + 1000 * HV_PAGE_SIZE);
    TAP_EQ((uintptr_t)hv_arena_frame(arena, (hv_mfn){1000}),
           (uintptr_t)(hv_arena_frame(arena, (hv_mfn){0}) + 1000));
    TAP_EQ(hv_frame_owner(hv_arena_frame(arena, (hv_mfn){1000})), HV_OWNER_NONE);
    hv_frame_check(hv_arena_frame(arena, (hv_mfn){1000}));
    hv_arena_destroy(arena);
}

static void test_addresses(void)
{
    addresses(HV_BACKING_KIND_ANON);
    addresses(HV_BACKING_KIND_MEMFD);
}

/* No page of guest memory is there before an allocation, all of its extent after it. */
static void test_unused(void)
{
    unsigned char resident[2 * HV_EXTENT_FRAMES];
    unsigned count = 0;
    hv_mfn first;

    TAP_EQ(create(HV_BACKING_KIND_MEMFD, 2 * HV_EXTENT_SIZE), 0);
    TAP_EQ(mincore(hv_arena_host(arena, (hv_mfn){0}), 2 * HV_EXTENT_SIZE, resident), 0);
    for (unsigned i = 0; i < HV_ARRAY_LEN(resident); i++) {
        count += resident[i] & 1;
    }
    TAP_EQ(count, 0);
    TAP_EQ(hv_heap_claim(hv_arena_heap(arena), HV_EXTENT_FRAMES), 0);
    TAP_EQ(hv_heap_alloc_extent(hv_arena_heap(arena), 1, &first), 0);
    TAP_EQ(mincore(hv_arena_host(arena, (hv_mfn){0}), 2 * HV_EXTENT_SIZE, resident), 0);
    for (unsigned i = 0; i < HV_ARRAY_LEN(resident); i++) {
        count += resident[i] & 1;
    }
    TAP_EQ(count, HV_EXTENT_FRAMES);
    hv_arena_destroy(arena);
}

/* A frame table without memory behind it, for benches of the table alone. */
static void test_no_memory(void)
{
    hv_mfn first;

    TAP_EQ(create(HV_BACKING_KIND_NONE, 64 * HV_GIB), 0);
    TAP_OK(!hv_arena_host(arena, (hv_mfn){0}));
    TAP_EQ(hv_heap_claim(hv_arena_heap(arena), HV_EXTENT_FRAMES), 0);
    TAP_EQ(hv_heap_alloc_extent(hv_arena_heap(arena), 1, &first), 0);
    TAP_EQ(hv_heap_free_extent(hv_arena_heap(arena), first, 1), 0);
    hv_arena_destroy(arena);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"mem.arena.sizes", test_sizes},
        {"mem.arena.addresses", test_addresses},
        {"mem.arena.unused", test_unused},
        {"mem.arena.no-memory", test_no_memory},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
