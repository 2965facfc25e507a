/* SPDX-License-Identifier: GPL-3.0-or-later */
/* mem/page-census: what is counted, in how many steps, and by one at a time. */
#include "mem/page-census.h"

#include "unit/mem/mem-fixture.h"

#define EXTENTS 40u

static struct fixture fixture;

/* Steps until a look is whole. */
static unsigned look(void)
{
    unsigned steps = 1;

    while (!hv_page_census_step(&fixture.memory.census, &fixture.memory)) {
        steps++;
    }
    return steps;
}

static uint64_t pages(enum hv_census_kind kind)
{
    return hv_load_relaxed(&fixture.memory.census.pages[kind]);
}

/* Give the page another type, as its leaf does. */
static bool retype(uint64_t gfn, enum hv_frame_type type, unsigned reason)
{
    const struct hv_frame_access access = {.memory = &fixture.memory};
    hv_mfn mfn = fixture_fill(&fixture, (hv_gfn){gfn});

    hv_frame_type_put(fixture.arena, mfn);
    return hv_frame_type_get(fixture.arena, mfn, type, reason, &access) == 0;
}

static void test_kinds(void)
{
    const struct hv_frame_access access = {.memory = &fixture.memory};
    hv_mfn mfn;

    TAP_OK(fixture_open(&fixture, 3, 2 * HV_EXTENT_FRAMES, NULL, NULL));
    TAP_EQ(look(), 1);
    TAP_EQ(pages(HV_CENSUS_PGTABLE) + pages(HV_CENSUS_PINNED), 0);
    mfn = fixture_fill(&fixture, (hv_gfn){1000});
    TAP_EQ(hv_frame_pin(fixture.arena, mfn, &access), 0);
    TAP_EQ(hv_frame_pin(fixture.arena, mfn, &access), 0);
    TAP_OK(retype(3, HV_FRAME_TYPE_SEALED, HV_SEAL_PGTABLE));
    TAP_OK(retype(4, HV_FRAME_TYPE_SEALED, HV_SEAL_PGTABLE));
    TAP_OK(retype(6, HV_FRAME_TYPE_SEALED, HV_SEAL_CODE));
    TAP_EQ(look(), 1);
    TAP_EQ(pages(HV_CENSUS_PGTABLE), 2);
    TAP_EQ(pages(HV_CENSUS_PINNED), 1);
    TAP_OK(retype(3, HV_FRAME_TYPE_WRITABLE, 0));
    TAP_OK(retype(4, HV_FRAME_TYPE_WRITABLE, 0));
    TAP_OK(retype(6, HV_FRAME_TYPE_WRITABLE, 0));
    hv_frame_unpin(fixture.arena, mfn);
    hv_frame_unpin(fixture.arena, mfn);
    TAP_EQ(pages(HV_CENSUS_PGTABLE), 2);
    TAP_EQ(look(), 1);
    TAP_EQ(pages(HV_CENSUS_PGTABLE) + pages(HV_CENSUS_PINNED), 0);
    fixture_close(&fixture);
}

/* A large memory takes several steps, the figures of the last look standing until the end. */
static void test_steps(void)
{
    TAP_OK(fixture_open(&fixture, EXTENTS + 1, EXTENTS * HV_EXTENT_FRAMES, NULL, NULL));
    TAP_OK(retype(0, HV_FRAME_TYPE_SEALED, HV_SEAL_PGTABLE));
    TAP_OK(retype(EXTENTS * HV_EXTENT_FRAMES - 1, HV_FRAME_TYPE_SEALED, HV_SEAL_PGTABLE));
    TAP_OK(!hv_page_census_step(&fixture.memory.census, &fixture.memory));
    TAP_EQ(fixture.memory.census.extent, HV_CENSUS_EXTENTS);
    TAP_EQ(pages(HV_CENSUS_PGTABLE), 0);
    TAP_EQ(look(), EXTENTS / HV_CENSUS_EXTENTS);
    TAP_EQ(pages(HV_CENSUS_PGTABLE), 2);
    /* One at a time: who finds another at it leaves it alone. */
    hv_store_seq(&fixture.memory.census.busy, 1);
    TAP_OK(!hv_page_census_step(&fixture.memory.census, &fixture.memory));
    TAP_EQ(fixture.memory.census.extent, 0);
    hv_store_seq(&fixture.memory.census.busy, 0);
    TAP_EQ(look(), (EXTENTS + HV_CENSUS_EXTENTS - 1) / HV_CENSUS_EXTENTS);
    TAP_EQ(pages(HV_CENSUS_PGTABLE), 2);
    TAP_OK(retype(0, HV_FRAME_TYPE_WRITABLE, 0));
    TAP_OK(retype(EXTENTS * HV_EXTENT_FRAMES - 1, HV_FRAME_TYPE_WRITABLE, 0));
    fixture_close(&fixture);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"mem.page-census.kinds", test_kinds},
        {"mem.page-census.steps", test_steps},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
