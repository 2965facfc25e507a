/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Five ways to take domains apart side by side. All walk the same p2m and put the same references of
 * the same frame table; they differ in what else is locked, and in how frames come to the heap:
 *
 *     domctl    one lock for all operations on domains, tried: who fails goes back to his guest and
 *               comes again. A page at a time into a heap of one lock.
 *     parallel  without that lock; only the heap's is shared.
 *     killock   parallel, but one lock for destroyers alone, tried, with a pause that doubles.
 *     batch     parallel, but 512 pages an operation on the heap.
 *     extent    the product: whole extents, and a heap of several locks.
 */
#include "bench/hv-bench-destroy.h"

#include <sched.h>
#include <time.h>

#include "base/assert.h"

/* Pages between two looks whether somebody else should have his turn. */
#define STEP_PAGES     4096u
/* killock: ns. */
#define PAUSE_SHORTEST 20000
#define PAUSE_LONGEST  1000000

/* ---- the historic ones ---- */

/* Frames of one extent of gfns, whose leaves are gone then, and their type references with them. */
static size_t unmap_extent(struct hv_memory *memory, hv_gfn first, hv_mfn *frames)
{
    size_t count = 0;

    for (uint64_t i = 0; i < HV_EXTENT_FRAMES; i++) {
        struct hv_leaf leaf = hv_p2m_lookup(&memory->p2m, (hv_gfn){first.v + i});

        if (hv_leaf_has_frame(leaf)) {
            frames[count++] = leaf.mfn;
        }
    }
    hv_lock_take(&memory->p2m.lock);
    hv_p2m_clear_locked(&memory->p2m, first, HV_EXTENT_FRAMES);
    hv_lock_drop(&memory->p2m.lock);
    for (size_t i = 0; i < count; i++) {
        uint64_t stamping = hv_frame_type_release(hv_arena_frame(memory->arena, frames[i]));

        HV_BUG_ON(stamping == 0); /* the leaf's was the only one; the frame is wiped next */
    }
    return count;
}

static void release(struct hv_memory *memory, hv_mfn mfn)
{
    bool last = hv_frame_release(hv_arena_frame(memory->arena, mfn));

    HV_BUG_ON(!last);
}

static void count_gone(struct hv_memory *memory, uint64_t frames)
{
    hv_lock_take(&memory->page_lock);
    memory->populated_frames -= frames;
    hv_lock_drop(&memory->page_lock);
}

static void free_pages(struct destroy_rig *rig, struct hv_memory *memory, const hv_mfn *frames,
                       size_t count, size_t batch)
{
    for (size_t i = 0; i < count; i += batch) {
        size_t some = count - i < batch ? count - i : batch;

        for (size_t k = 0; k < some; k++) {
            release(memory, frames[i + k]);
        }
        count_gone(memory, some);
        old_heap_free(&rig->old, &frames[i], some);
    }
}

/* Up to a step of one domain, by so many pages at a time. */
static int give_back(struct destroy_rig *rig, struct destroy_domain *domain, size_t batch)
{
    hv_mfn frames[HV_EXTENT_FRAMES];

    for (unsigned done = 0; done < STEP_PAGES && domain->cursor < rig->pages;) {
        size_t count = unmap_extent(&domain->memory, (hv_gfn){domain->cursor}, frames);

        free_pages(rig, &domain->memory, frames, count, batch);
        domain->cursor += HV_EXTENT_FRAMES;
        done += HV_EXTENT_FRAMES;
    }
    return domain->cursor < rig->pages ? -EAGAIN : 0;
}

static int step_parallel(struct destroy_rig *rig, struct destroy_domain *domain)
{
    return give_back(rig, domain, 1);
}

static int step_batch(struct destroy_rig *rig, struct destroy_domain *domain)
{
    return give_back(rig, domain, HV_EXTENT_FRAMES);
}

/* Back to the guest, which comes with the same call again. */
static void take_domctl(struct destroy_rig *rig) HV_NO_TSA
{
    while (!hv_lock_try(&rig->domctl)) {
        sched_yield();
    }
}

static HV_NO_TSA int step_domctl(struct destroy_rig *rig, struct destroy_domain *domain)
{
    int again;

    take_domctl(rig);
    again = give_back(rig, domain, 1);
    hv_lock_drop(&rig->domctl);
    return again;
}

static HV_NO_TSA int step_killock(struct destroy_rig *rig, struct destroy_domain *domain)
{
    struct timespec pause = {.tv_nsec = PAUSE_SHORTEST};
    int again;

    while (!hv_lock_try(&rig->kill)) {
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < PAUSE_LONGEST) {
            pause.tv_nsec *= 2;
        }
    }
    again = give_back(rig, domain, 1);
    hv_lock_drop(&rig->kill);
    return again;
}

static HV_NO_TSA uint64_t getinfo_old(struct destroy_rig *rig)
{
    uint64_t frames;

    take_domctl(rig);
    frames = old_heap_free_frames(&rig->old);
    hv_lock_drop(&rig->domctl);
    return frames;
}

static HV_NO_TSA void other_old(struct destroy_rig *rig)
{
    hv_mfn mfn;

    take_domctl(rig);
    mfn = old_heap_alloc(&rig->old);
    if (mfn.v != HV_MFN_NONE.v) {
        old_heap_free(&rig->old, &mfn, 1);
    }
    hv_lock_drop(&rig->domctl);
}

static void scrub_old(struct destroy_rig *rig)
{
    for (unsigned order = 0; order < OLD_ORDERS; order++) {
        for (uint32_t at = rig->old.head[order]; at != UINT32_MAX;
             at = (uint32_t)rig->old.frames[at].spare) {
            void *host = hv_arena_host(rig->arena, (hv_mfn){at});

            if (host) {
                memset(host, 0, HV_PAGE_SIZE << order);
            }
        }
    }
}

/* ---- the product's ---- */

static int step_extent(struct destroy_rig *rig, struct destroy_domain *domain)
{
    (void)rig;
    return hv_memory_relinquish(&domain->memory, STEP_PAGES);
}

static uint64_t getinfo_extent(struct destroy_rig *rig)
{
    struct hv_heap_info info;

    hv_heap_get_info(rig->arena->heap, &info);
    return info.free_frames;
}

static void other_extent(struct destroy_rig *rig)
{
    hv_mfn mfn;

    if (hv_heap_claim(rig->arena->heap, 1) == 0 &&
        hv_heap_alloc_frame(rig->arena->heap, DESTROY_DOMAINS_MAX + 1, &mfn) == 0) {
        hv_frame_put(rig->arena, mfn);
    }
}

static void scrub_extent(struct destroy_rig *rig)
{
    while (hv_heap_scrub_spare(rig->arena->heap) == HV_SCRUBBED_EXTENT) {
    }
}

/*
 * Lines: of the old heap the lock's word, its counters, the list's head and count, and the block that
 * was first there; of a shard the word, the counters, heads and counts, and the extent that was first.
 */
const struct destroy_way destroy_ways[DESTROY_WAYS] = {
    {
        .name = "domctl",
        .step = step_domctl,
        .getinfo = getinfo_old,
        .other = other_old,
        .scrub = scrub_old,
        .lines = 4,
        .queues = 1,
        .serial = true,
    },
    {
        .name = "parallel",
        .step = step_parallel,
        .getinfo = getinfo_old,
        .other = other_old,
        .scrub = scrub_old,
        .lines = 4,
        .queues = 1,
    },
    {
        .name = "killock",
        .step = step_killock,
        .getinfo = getinfo_old,
        .other = other_old,
        .scrub = scrub_old,
        .lines = 4,
        .queues = 1,
        .serial = true,
    },
    {
        .name = "batch",
        .step = step_batch,
        .getinfo = getinfo_old,
        .other = other_old,
        .scrub = scrub_old,
        .lines = 4,
        .queues = 1,
        .batched = true,
    },
    {
        .name = "extent",
        .step = step_extent,
        .getinfo = getinfo_extent,
        .other = other_extent,
        .scrub = scrub_extent,
        .lines = 4,
        .queues = HV_HEAP_SHARDS,
        .batched = true,
        .product = true,
    },
};
