/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A look at all pages, a few extents at a time: see page-census.h. */
#include "mem/page-census.h"

#include <string.h>

#include "mem/memory.h"

/* Extents without a table cost a load each: so many of them as one with. */
#define LOOKS_FOR_ONE 512u

static void count_extent(struct hv_page_census *census, const struct hv_memory *memory,
                         hv_gfn first)
{
    for (uint64_t i = 0; i < HV_EXTENT_FRAMES; i++) {
        struct hv_leaf leaf = hv_p2m_lookup(&memory->p2m, (hv_gfn){first.v + i});
        const struct hv_frame *frame;
        unsigned reasons;

        if (!hv_leaf_has_frame(leaf)) {
            continue;
        }
        /* It may have gone to another meanwhile: one page is counted wrong, once. */
        frame = hv_arena_frame(memory->arena, leaf.mfn);
        reasons = hv_frame_reasons(frame);
        census->counting[HV_CENSUS_PGTABLE] += (reasons & HV_SEAL_PGTABLE) != 0;
        census->counting[HV_CENSUS_PINNED] += hv_frame_pinned(frame);
    }
}

static bool go_on(struct hv_page_census *census, const struct hv_memory *memory)
{
    uint64_t extents = (memory->p2m.frames + HV_EXTENT_FRAMES - 1) / HV_EXTENT_FRAMES;
    unsigned budget = HV_CENSUS_EXTENTS * LOOKS_FOR_ONE;

    for (; census->extent < extents; census->extent++) {
        hv_gfn first = {census->extent * HV_EXTENT_FRAMES};
        bool covered = hv_p2m_covers(&memory->p2m, first);
        unsigned price = covered ? LOOKS_FOR_ONE : 1;

        if (budget < price) {
            return false;
        }
        budget -= price;
        if (covered) {
            count_extent(census, memory, first);
        }
    }
    return true;
}

bool hv_page_census_step(struct hv_page_census *census, const struct hv_memory *memory)
{
    uint32_t idle = 0;
    bool done;

    /* Pairs with the store below: who is busy next sees how far this one came. */
    if (!hv_cas_seq(&census->busy, &idle, 1)) {
        return false;
    }
    done = go_on(census, memory);
    if (done) {
        for (unsigned i = 0; i < HV_CENSUS_KINDS; i++) {
            hv_store_relaxed(&census->pages[i], census->counting[i]);
        }
        memset(census->counting, 0, sizeof(census->counting));
        census->extent = 0;
    }
    hv_store_seq(&census->busy, 0);
    return done;
}
