/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Copies between host buffers and guest RAM: every alignment, every refusal, code revoked first. */
#include "lib/threads.h"
#include "sync/race.h"
#include "unit/mem/mem-fixture.h"

static struct fixture fixture;
static uint8_t out[4 * HV_PAGE_SIZE];
static uint8_t back[4 * HV_PAGE_SIZE];

static int copy(uint64_t gpa, void *buffer, uint64_t bytes, enum hv_copy_direction direction)
{
    return hv_memory_copy(&fixture.memory, (hv_gpa){gpa}, buffer, bytes, direction);
}

static void test_round_trip(void)
{
    TAP_OK(fixture_open(&fixture, 3, 2 * HV_EXTENT_FRAMES, NULL, NULL));
    for (unsigned i = 0; i < 400; i++) {
        uint64_t gpa = HV_EXTENT_SIZE - 2 * HV_PAGE_SIZE + tap_rng() % 100;
        uint64_t bytes = 1 + tap_rng() % (i < 200 ? 20 : 3 * HV_PAGE_SIZE);
        unsigned shift = (unsigned)(tap_rng() % 9);

        for (uint64_t k = 0; k < bytes; k++) {
            out[shift + k] = (uint8_t)tap_rng();
        }
        TAP_EQ(copy(gpa, out + shift, bytes, HV_COPY_TO_GUEST), 0);
        memset(back, 0, sizeof(back));
        TAP_EQ(copy(gpa, back + 1, bytes, HV_COPY_FROM_GUEST), 0);
        TAP_OK(memcmp(back + 1, out + shift, bytes) == 0);
        TAP_OK(back[0] == 0 && back[bytes + 1] == 0);
    }
    TAP_EQ(hv_frame_type_references(fixture_frame(&fixture, (hv_gfn){512})), 1);
    TAP_EQ(hv_frame_references(fixture_frame(&fixture, (hv_gfn){512})), 1);
    fixture_close(&fixture);
}

/* Neighbours of what is written stay, at every start and length around a page's edge. */
static void test_edges(void)
{
    TAP_OK(fixture_open(&fixture, 1, HV_EXTENT_FRAMES, NULL, NULL));
    memset(out, 0xcc, sizeof(out));
    for (unsigned start = 0; start < 17; start++) {
        for (unsigned bytes = 1; bytes < 17; bytes++) {
            uint64_t gpa = HV_PAGE_SIZE - 8 + start;

            memset(back, 0x11, 64);
            TAP_EQ(copy(HV_PAGE_SIZE - 16, back, 64, HV_COPY_TO_GUEST), 0);
            TAP_EQ(copy(gpa, out, bytes, HV_COPY_TO_GUEST), 0);
            TAP_EQ(copy(HV_PAGE_SIZE - 16, back, 64, HV_COPY_FROM_GUEST), 0);
            for (unsigned i = 0; i < 64; i++) {
                bool inside = i >= 8 + start && i < 8 + start + bytes;

                TAP_EQ(back[i], inside ? 0xcc : 0x11);
            }
        }
    }
    fixture_close(&fixture);
}

static void test_refusals(void)
{
    uint64_t end = 2 * HV_EXTENT_SIZE;
    uint64_t value = 1;

    TAP_OK(fixture_open(&fixture, 3, 2 * HV_EXTENT_FRAMES, NULL, NULL));
    TAP_EQ(copy(end, &value, 1, HV_COPY_FROM_GUEST), (uint64_t)-EINVAL);
    TAP_EQ(copy(end - 1, &value, 2, HV_COPY_TO_GUEST), (uint64_t)-EINVAL);
    TAP_EQ(copy(UINT64_MAX, &value, 1, HV_COPY_FROM_GUEST), (uint64_t)-EINVAL);
    TAP_EQ(copy(UINT64_MAX - 3, &value, 8, HV_COPY_FROM_GUEST), (uint64_t)-EINVAL);
    TAP_EQ(copy(8, &value, UINT64_MAX, HV_COPY_FROM_GUEST), (uint64_t)-EINVAL);
    TAP_EQ(copy(end, &value, 0, HV_COPY_TO_GUEST), 0);
    /* Nothing of a refused range was copied, nor populated. */
    TAP_EQ(fixture.memory.populated_frames, 0);
    TAP_EQ(hv_memory_set_kind(&fixture.memory, (hv_gfn){2}, 1, HV_LEAF_MMIO), 0);
    TAP_EQ(copy(HV_PAGE_SIZE, back, 2 * HV_PAGE_SIZE, HV_COPY_TO_GUEST), (uint64_t)-EINVAL);
    TAP_EQ(fixture.memory.populated_frames, 0);
    TAP_EQ(hv_memory_relinquish(&fixture.memory, 0), (uint64_t)-EAGAIN);
    TAP_EQ(copy(0, &value, 1, HV_COPY_FROM_GUEST), (uint64_t)-ECANCELED);
    fixture_close(&fixture);
}

/* A page never touched reads as zero and stays so. */
static void test_unpopulated(void)
{
    memset(back, 0xff, sizeof(back));
    TAP_OK(fixture_open(&fixture, 1, HV_EXTENT_FRAMES, NULL, NULL));
    TAP_EQ(copy(100, back, 5000, HV_COPY_FROM_GUEST), 0);
    for (unsigned i = 0; i < 5000; i++) {
        TAP_EQ(back[i], 0);
    }
    TAP_EQ(back[5000], 0xff);
    TAP_EQ(fixture.memory.populated_frames, 0);
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

/* A write has the page's blocks revoked and keeps it WRITABLE while it stores; a read does not. */
static void test_revokes_code(void)
{
    uint64_t value = 0x1122334455667788;
    uint64_t got = 0;

    revoked = 0;
    TAP_OK(fixture_open(&fixture, 1, HV_EXTENT_FRAMES, &hooks, NULL));
    TAP_OK(fixture_fill(&fixture, (hv_gfn){1}).v != HV_MFN_NONE.v);
    TAP_EQ(hv_memory_seal_code(&fixture.memory, (hv_gfn){1}, NULL), 0);
    TAP_EQ(copy(HV_PAGE_SIZE, &got, 8, HV_COPY_FROM_GUEST), 0);
    TAP_EQ(revoked, 0);
    TAP_EQ(hv_p2m_lookup(&fixture.memory.p2m, (hv_gfn){1}).kind, HV_LEAF_RAM_RO);
    TAP_EQ(copy(HV_PAGE_SIZE, &value, 8, HV_COPY_TO_GUEST), 0);
    TAP_EQ(revoked, 1);
    TAP_EQ(hv_p2m_lookup(&fixture.memory.p2m, (hv_gfn){1}).kind, HV_LEAF_RAM);
    TAP_EQ(copy(HV_PAGE_SIZE, &got, 8, HV_COPY_FROM_GUEST), 0);
    TAP_EQ(got, value);
    TAP_EQ(hv_memory_seal_code(&fixture.memory, (hv_gfn){1}, NULL), 0);
    fixture_close(&fixture);
}

static void copy_body(unsigned index, void *context)
{
    uint64_t value = UINT64_MAX;

    (void)index;
    hv_race_name_thread(1);
    *(int *)context = copy(3 * HV_PAGE_SIZE, &value, 8, HV_COPY_TO_GUEST);
}

/* Between the look at the leaf and the reference the page goes, and its frame becomes another page
 * of the same domain: that page is not what was asked for. */
static void test_frame_recycled(void)
{
    struct threads copier;
    uint64_t value = 1;
    hv_mfn mfn;
    int err = 0;

    if (skip_script()) {
        return;
    }
    TAP_OK(fixture_open(&fixture, 1, HV_EXTENT_FRAMES, NULL, NULL));
    /* A hole keeps the extent from being filled as a whole. */
    TAP_EQ(hv_memory_set_kind(&fixture.memory, (hv_gfn){9}, 1, HV_LEAF_HOLE), 0);
    mfn = fixture_fill(&fixture, (hv_gfn){3});
    hv_race_begin();
    hv_race_stop(1, "memory.page.looked-up", 0);
    threads_start(&copier, 1, copy_body, &err);
    TAP_OK(hv_race_await(1, "memory.page.looked-up"));
    TAP_EQ(hv_memory_set_kind(&fixture.memory, (hv_gfn){3}, 1, HV_LEAF_HOLE), 0);
    TAP_EQ(fixture_fill(&fixture, (hv_gfn){4}).v, mfn.v);
    hv_race_end();
    threads_join(&copier);
    TAP_EQ(err, (uint64_t)-EINVAL);
    TAP_EQ(copy(4 * HV_PAGE_SIZE, &value, 8, HV_COPY_FROM_GUEST), 0);
    TAP_EQ(value, 0);
    TAP_EQ(hv_frame_references(fixture_frame(&fixture, (hv_gfn){4})), 1);
    fixture_close(&fixture);
}

/* While a device's bytes are on their way to a page nobody gives it another use. */
static void test_dma_ref(void)
{
    const struct hv_frame_access access = {.memory = &fixture.memory};
    struct threads copier;
    uint64_t value = 0;
    hv_mfn mfn;
    int err = 1;

    if (skip_script()) {
        return;
    }
    TAP_OK(fixture_open(&fixture, 1, HV_EXTENT_FRAMES, &hooks, NULL));
    mfn = fixture_fill(&fixture, (hv_gfn){3});
    hv_race_begin();
    hv_race_stop(1, "memory.copy.typed", 0);
    threads_start(&copier, 1, copy_body, &err);
    TAP_OK(hv_race_await(1, "memory.copy.typed"));
    TAP_EQ(hv_memory_seal_code(&fixture.memory, (hv_gfn){3}, NULL), (uint64_t)-EBUSY);
    /* Not for one either whose leaf holds no reference any more. */
    hv_frame_type_put(fixture.arena, mfn);
    TAP_EQ(hv_frame_type_get(fixture.arena, mfn, HV_FRAME_TYPE_SEALED, HV_SEAL_PGTABLE, &access),
           (uint64_t)-EBUSY);
    TAP_EQ(hv_frame_type_get(fixture.arena, mfn, HV_FRAME_TYPE_WRITABLE, 0, &access), 0);
    hv_race_end();
    threads_join(&copier);
    TAP_EQ(err, 0);
    TAP_EQ(copy(3 * HV_PAGE_SIZE, &value, 8, HV_COPY_FROM_GUEST), 0);
    TAP_EQ(value, UINT64_MAX);
    TAP_EQ(hv_memory_seal_code(&fixture.memory, (hv_gfn){3}, NULL), 0);
    fixture_close(&fixture);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"mem.copy.round-trip", test_round_trip},
        {"mem.copy.edges", test_edges},
        {"mem.copy.refusals", test_refusals},
        {"mem.copy.unpopulated", test_unpopulated},
        {"mem.copy.revokes-code", test_revokes_code},
        {"mem.copy.frame-recycled", test_frame_recycled},
        {"tlb.dma-ref", test_dma_ref},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
