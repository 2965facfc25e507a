/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Domains that come and go on one small arena, each written full of its owner's mark, while a
 * device still copies into one that is being taken apart. Whatever a domain reads first is zero,
 * nothing is lost, and no copy outlives its page.
 */
#include "base/bits.h"
#include "lib/threads.h"
#include "sync/race.h"
#include "unit/mem/mem-fixture.h"

#define BUILDERS 3u
#define PAGES    (HV_EXTENT_FRAMES + 40)

static struct hv_arena *arena;
static _Atomic uint32_t broken, built, refused, copies;

/* One domain of a builder, and its device. */
static struct domain {
    struct hv_memory memory;
    _Atomic uint32_t device_may_copy, device_copies;
} domains[BUILDERS];

static void broke(const char *what)
{
    hv_add_relaxed(&broken, 1);
    tap_note("%s", what);
}

/* Read before the first write of this life: zero; then leave a mark. */
static int mark_page(struct hv_memory *memory, uint64_t page, uint64_t mark)
{
    uint64_t words[HV_PAGE_SIZE / 8];
    hv_gpa gpa = {page * HV_PAGE_SIZE};
    struct hv_leaf leaf;
    int err = hv_memory_fill(memory, (hv_gfn){page}, &leaf);

    if (err) {
        return err;
    }
    err = hv_memory_copy(memory, gpa, words, sizeof(words), HV_COPY_FROM_GUEST);
    for (unsigned i = 0; !err && i < HV_ARRAY_LEN(words); i++) {
        if (words[i] != 0) {
            broke("a page was not zero");
            return -EIO;
        }
        words[i] = mark;
    }
    return err ? err : hv_memory_copy(memory, gpa, words, sizeof(words), HV_COPY_TO_GUEST);
}

static void live_and_die(struct domain *domain, unsigned index, unsigned round)
{
    struct hv_memory *memory = &domain->memory;
    uint16_t owner = (uint16_t)(index * 1000 + round % 1000);
    int err;

    while (hv_memory_init(memory, arena, owner, PAGES * HV_PAGE_SIZE, NULL, NULL)) {
        hv_add_relaxed(&refused, 1);
        threads_patient(0);
    }
    err = hv_memory_add_ram(memory, (hv_gfn){round % 3}, PAGES);
    for (uint64_t page = round % 3; !err && page < PAGES; page += 37) {
        err = mark_page(memory, page, owner);
    }
    if (err) {
        broke("a domain that had its claim was not built");
    }
    hv_store_seq(&domain->device_may_copy, 1);
    while (hv_memory_relinquish(memory, 1 + round % 700) == -EAGAIN) {
    }
    /* As the domain's own teardown does: nobody is inside when the p2m goes. */
    hv_store_seq(&domain->device_may_copy, 0);
    while (hv_load_seq(&domain->device_copies) > 0) {
        threads_patient(0);
    }
    hv_memory_finish(memory);
    hv_add_relaxed(&built, 1);
}

static void device_run(unsigned rounds)
{
    uint64_t value = UINT64_MAX;

    for (unsigned i = 0; i < rounds * 40; i++) {
        struct domain *domain = &domains[i % BUILDERS];
        int err;

        hv_store_seq(&domain->device_copies, 1);
        if (hv_load_seq(&domain->device_may_copy)) {
            err = hv_memory_copy(&domain->memory, (hv_gpa){i % PAGES * HV_PAGE_SIZE}, &value, 8,
                                 HV_COPY_TO_GUEST);
            if (err != 0 && err != -ECANCELED && err != -EINVAL) {
                broke("a copy into a dying domain");
            }
            hv_add_relaxed(&copies, 1);
        }
        hv_store_seq(&domain->device_copies, 0);
        threads_patient(0);
    }
}

static void body(unsigned index, void *context)
{
    unsigned rounds = *(unsigned *)context;

    hv_race_name_thread(index + 1);
    if (index == BUILDERS) {
        device_run(rounds);
        return;
    }
    for (unsigned round = 0; round < rounds; round++) {
        live_and_die(&domains[index], index, round);
    }
}

static void test_come_and_go(void)
{
    /* Room for two of the three, so that claims are refused, too. */
    const struct hv_arena_config config = {HV_BACKING_KIND_ANON, 3 * HV_EXTENT_SIZE};
    unsigned rounds = threads_rounds(150);
    struct hv_heap_info info;

    TAP_EQ(hv_arena_create(&config, &arena), 0);
    hv_race_begin();
    hv_race_shuffle(tap_rng());
    threads_run(BUILDERS + 1, body, &rounds);
    hv_race_end();
    tap_note("%u built, %u refused, %u copies", hv_load_relaxed(&built), hv_load_relaxed(&refused),
             hv_load_relaxed(&copies));
    TAP_EQ(hv_load_relaxed(&broken), 0);
    TAP_EQ(hv_load_relaxed(&built), rounds * BUILDERS);
    hv_heap_get_info(arena->heap, &info);
    TAP_EQ(info.free_frames, info.total_frames);
    TAP_EQ(info.claimed_frames, 0);
    check_all_frames(arena);
    hv_arena_destroy(arena);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"stress.memory", test_come_and_go},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
