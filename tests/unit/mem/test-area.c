/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Areas shared with the guest: where they may be, what pinning keeps others from, what it leaves. */
#include "mem/area.h"

#include "base/bits.h"
#include "mem/dirty.h"
#include "mem/share.h"
#include "unit/mem/mem-fixture.h"

static struct fixture fixture;

static int pin(struct hv_area *area, uint64_t gpa, unsigned bytes)
{
    return hv_area_pin(area, &fixture.memory, (hv_gpa){gpa}, bytes);
}

static void test_values(void)
{
    struct hv_area area = {0};
    uint8_t bytes[16] = {0};

    TAP_OK(fixture_open(&fixture, 1, HV_EXTENT_FRAMES, NULL, NULL));
    TAP_OK(!hv_area_pinned(&area));
    TAP_EQ(pin(&area, 2 * HV_PAGE_SIZE - 16, 16), 0); /* up to the page's end */
    TAP_OK(hv_area_pinned(&area));
    hv_area_store8(&area, 0, 0x1122334455667788);
    hv_area_store4(&area, 8, 0x99aabbcc);
    hv_area_store1(&area, 15, 0xdd);
    TAP_EQ(hv_memory_copy(&fixture.memory, (hv_gpa){2 * HV_PAGE_SIZE - 16}, bytes, 16,
                          HV_COPY_FROM_GUEST),
           0);
    TAP_EQ(hv_load_le(bytes, 8), 0x1122334455667788);
    TAP_EQ(hv_load_le(bytes + 8, 4), 0x99aabbcc);
    TAP_EQ(hv_load_le(bytes + 12, 4), 0xdd000000);
    TAP_EQ(hv_area_load4(&area, 4), 0x11223344);
    TAP_EQ(hv_area_load1(&area, 15), 0xdd);
    TAP_EQ(hv_area_swap1(&area, 15, 0xee), 0xdd);
    TAP_EQ(hv_area_load1(&area, 15), 0xee);
    hv_area_unpin(&area);
    TAP_OK(!hv_area_pinned(&area));
    hv_area_unpin(&area);
    fixture_close(&fixture);
}

static void test_refusals(void)
{
    static const struct {
        uint64_t gpa;
        unsigned bytes;
    } rows[] = {
        {HV_PAGE_SIZE, 0},                 /* nothing */
        {HV_PAGE_SIZE - 8, 9},             /* two pages */
        {0, (unsigned)HV_PAGE_SIZE + 1},   /* two pages */
        {HV_EXTENT_SIZE, 1},               /* behind the RAM */
        {UINT64_C(1) << 45, 8},            /* behind the p2m */
        {UINT64_C(0xfffffffffffffff8), 8}, /* no physical address */
        {UINT64_C(0xffffffffffffffff), 2}, /* and one that wraps */
        {5 * HV_PAGE_SIZE, 4},             /* a device */
        {6 * HV_PAGE_SIZE, 4},             /* nothing */
    };
    struct hv_area area = {0};

    TAP_OK(fixture_open(&fixture, 1, HV_EXTENT_FRAMES, NULL, NULL));
    TAP_EQ(hv_memory_set_kind(&fixture.memory, (hv_gfn){5}, 1, HV_LEAF_MMIO), 0);
    TAP_EQ(hv_memory_set_kind(&fixture.memory, (hv_gfn){6}, 1, HV_LEAF_HOLE), 0);
    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        TAP_EQ(pin(&area, rows[i].gpa, rows[i].bytes), (uint64_t)-EINVAL);
        TAP_OK(!hv_area_pinned(&area));
    }
    TAP_EQ(fixture.memory.populated_frames, 0);
    hv_memory_kill(&fixture.memory);
    TAP_EQ(pin(&area, 0, 4), (uint64_t)-ECANCELED);
    fixture_close(&fixture);
}

static unsigned revoked;

static void give_up(void *context, hv_gfn gfn)
{
    (void)context;
    revoked++;
    hv_memory_unseal_code(&fixture.memory, gfn);
}

static const struct hv_memory_hooks hooks = {.revoke_code = give_up};

/* Code gives way to an area; while there is one, no code is made of its page, and after it again. */
static void test_excludes_code(void)
{
    struct hv_area first = {0}, second = {0};
    struct hv_frame *frame;

    revoked = 0;
    TAP_OK(fixture_open(&fixture, 1, HV_EXTENT_FRAMES, &hooks, NULL));
    TAP_OK(fixture_fill(&fixture, (hv_gfn){1}).v != HV_MFN_NONE.v);
    frame = fixture_frame(&fixture, (hv_gfn){1});
    TAP_EQ(hv_memory_seal_code(&fixture.memory, (hv_gfn){1}, NULL), 0);
    TAP_EQ(pin(&first, HV_PAGE_SIZE, 32), 0);
    TAP_EQ(revoked, 1);
    TAP_EQ(pin(&second, HV_PAGE_SIZE + 64, 32), 0);
    TAP_OK(hv_frame_pinned(frame));
    TAP_EQ(hv_memory_seal_code(&fixture.memory, (hv_gfn){1}, NULL), (uint64_t)-EBUSY);
    hv_area_unpin(&first);
    TAP_EQ(hv_memory_seal_code(&fixture.memory, (hv_gfn){1}, NULL), (uint64_t)-EBUSY);
    hv_area_unpin(&second);
    TAP_OK(!hv_frame_pinned(frame));
    TAP_EQ(hv_frame_references(frame), 1);
    TAP_EQ(hv_memory_seal_code(&fixture.memory, (hv_gfn){1}, NULL), 0);
    check_all_frames(fixture.arena);
    fixture_close(&fixture);
}

/* A page that stands twice is parted: what is stored shows in one place. */
static void test_parts_shared(void)
{
    struct hv_memory *memory = &fixture.memory;
    uint32_t word = 0x11223344;
    struct hv_area area = {0};

    TAP_OK(fixture_open(&fixture, 3, 2 * HV_EXTENT_FRAMES, NULL, NULL));
    TAP_EQ(hv_memory_copy(memory, (hv_gpa){HV_PAGE_SIZE}, &word, 4, HV_COPY_TO_GUEST), 0);
    TAP_EQ(hv_memory_share(memory, (hv_gfn){1}, memory, (hv_gfn){600}), 0);
    TAP_EQ(hv_p2m_lookup(&memory->p2m, (hv_gfn){600}).kind, HV_LEAF_SHARED);
    TAP_EQ(pin(&area, 600 * HV_PAGE_SIZE, 4), 0);
    TAP_EQ(hv_area_load4(&area, 0), word);
    hv_area_store4(&area, 0, 5);
    TAP_EQ(hv_memory_copy(memory, (hv_gpa){HV_PAGE_SIZE}, &word, 4, HV_COPY_FROM_GUEST), 0);
    TAP_EQ(word, 0x11223344);
    TAP_EQ(hv_memory_copy(memory, (hv_gpa){600 * HV_PAGE_SIZE}, &word, 4, HV_COPY_FROM_GUEST), 0);
    TAP_EQ(word, 5);
    /* And is not shared while it is an area. */
    TAP_EQ(hv_memory_share(memory, (hv_gfn){600}, memory, (hv_gfn){601}), (uint64_t)-EBUSY);
    hv_area_unpin(&area);
    fixture_close(&fixture);
}

/* The page leaves the machine: what is stored goes to a frame that is nobody else's yet. */
static void test_page_goes(void)
{
    struct hv_area area = {0};
    hv_mfn mfn;

    TAP_OK(fixture_open(&fixture, 1, HV_EXTENT_FRAMES, NULL, NULL));
    mfn = fixture_fill(&fixture, (hv_gfn){3});
    TAP_EQ(pin(&area, 3 * HV_PAGE_SIZE, 32), 0);
    TAP_EQ(hv_memory_set_kind(&fixture.memory, (hv_gfn){3}, 1, HV_LEAF_HOLE), 0);
    TAP_EQ(hv_frame_owner(hv_arena_frame(fixture.arena, mfn)), 7);
    hv_area_store4(&area, 0, 0x12345678);
    hv_area_unpin(&area);
    TAP_EQ(hv_frame_owner(hv_arena_frame(fixture.arena, mfn)), HV_OWNER_NONE);
    fixture_close(&fixture);
}

/* Migration sees each kind of store. */
static void test_dirty(void)
{
    struct hv_area area = {0};
    hv_gfn gfns[4];

    TAP_OK(fixture_open(&fixture, 1, HV_EXTENT_FRAMES, NULL, NULL));
    TAP_EQ(pin(&area, 9 * HV_PAGE_SIZE, 32), 0);
    TAP_EQ(hv_dirty_start(&fixture.memory), 0);
    for (unsigned round = 0; round < 5; round++) {
        uint64_t cursor = 0;
        size_t count;

        TAP_EQ(hv_dirty_round(&fixture.memory), 0);
        while (round == 0 && hv_dirty_harvest(&fixture.memory, &cursor, gfns, 4) > 0) {
        }
        count = round > 0 ? hv_dirty_harvest(&fixture.memory, &cursor, gfns, 4) : 0;
        TAP_EQ(count, round > 0 ? 1 : 0);
        TAP_OK(round == 0 || gfns[0].v == 9);
        if (round == 0) {
            hv_area_store1(&area, 0, 1);
        } else if (round == 1) {
            hv_area_store4(&area, 0, 1);
        } else if (round == 2) {
            hv_area_store8(&area, 0, 1);
        } else {
            TAP_EQ(hv_area_swap1(&area, 0, 1), 1);
        }
    }
    hv_dirty_stop(&fixture.memory);
    hv_area_unpin(&area);
    fixture_close(&fixture);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"mem.area.values", test_values},
        {"mem.area.refusals", test_refusals},
        {"mem.area.excludes-code", test_excludes_code},
        {"mem.area.parts-shared", test_parts_shared},
        {"mem.area.page-goes", test_page_goes},
        {"mem.area.dirty", test_dirty},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
