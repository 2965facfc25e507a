/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Two memories whose threads write their own pages, read them, and share them with each other and
 * themselves, all at once.
 *
 * The law: a page holds what its memory wrote last; or, never written, all of some page as it was at
 * one moment, and that for ever.
 */
#include "base/bits.h"
#include "lib/threads.h"
#include "mem/share.h"
#include "unit/mem/mem-fixture.h"

#define MEMORIES 2u
#define PAGES    64u
#define WORDS    (HV_PAGE_SIZE / sizeof(uint64_t))

static struct hv_arena *arena;
static struct hv_memory memory[MEMORIES];
static _Atomic uint32_t broken, shares, copies;

/* What a thread knows of its memory's pages; 0: nothing yet. */
struct book {
    uint64_t value[PAGES];
};

static bool write_page(struct hv_memory *own, uint64_t page, uint64_t value)
{
    uint64_t words[WORDS];

    for (unsigned i = 0; i < WORDS; i++) {
        words[i] = value;
    }
    return hv_memory_copy(own, hv_gfn_to_gpa((hv_gfn){page}), words, sizeof(words),
                          HV_COPY_TO_GUEST) == 0;
}

/* The one value that it holds; a page of two kinds of words, or that cannot be read, is broken. */
static uint64_t read_page(struct hv_memory *own, uint64_t page)
{
    uint64_t words[WORDS];

    if (hv_memory_copy(own, hv_gfn_to_gpa((hv_gfn){page}), words, sizeof(words),
                       HV_COPY_FROM_GUEST)) {
        hv_add_seq(&broken, 1);
        return 0;
    }
    for (unsigned i = 1; i < WORDS; i++) {
        if (words[i] != words[0]) {
            hv_add_seq(&broken, 1);
        }
    }
    return words[0];
}

static void share_page(struct hv_memory *own, uint64_t page, uint64_t random)
{
    struct hv_memory *to = &memory[random % MEMORIES];
    int err = hv_memory_share(own, (hv_gfn){page}, to, (hv_gfn){random / 8 % PAGES});

    hv_add_relaxed(&shares, err == 0);
    if (err && err != -EEXIST) {
        hv_add_seq(&broken, 1);
    }
}

static void step(struct hv_memory *own, struct book *book, uint64_t random)
{
    uint64_t page = random % PAGES;
    uint64_t value;

    switch (random / PAGES % 4) {
    case 0:
        book->value[page] = random | 1;
        hv_add_relaxed(&copies, hv_p2m_lookup(&own->p2m, (hv_gfn){page}).kind == HV_LEAF_SHARED);
        if (!write_page(own, page, book->value[page])) {
            hv_add_seq(&broken, 1);
        }
        break;
    case 1:
    case 2:
        share_page(own, page, random / PAGES / 4);
        break;
    default:
        value = read_page(own, page);
        if (book->value[page] != 0 && value != book->value[page]) {
            hv_add_seq(&broken, 1);
        }
        book->value[page] = value;
        break;
    }
}

static void body(unsigned index, void *context)
{
    unsigned rounds = *(unsigned *)context;
    uint64_t state = 12345 + index;
    struct book book = {{0}};

    for (unsigned i = 0; i < rounds; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
        step(&memory[index], &book, state >> 20);
    }
}

static void test_share(void)
{
    const struct hv_arena_config config = {HV_BACKING_KIND_ANON, 2 * HV_EXTENT_SIZE};
    unsigned rounds = threads_rounds(3000);
    unsigned lives = 10;

    while (lives-- > 0) {
        struct hv_heap_info info;

        TAP_EQ(hv_arena_create(&config, &arena), 0);
        for (unsigned i = 0; i < MEMORIES; i++) {
            memset(&memory[i], 0, sizeof(memory[i]));
            TAP_EQ(hv_memory_init(&memory[i], arena, (uint16_t)(i + 1), PAGES * HV_PAGE_SIZE, NULL,
                                  NULL),
                   0);
            TAP_EQ(hv_memory_add_ram(&memory[i], (hv_gfn){0}, PAGES), 0);
        }
        threads_run(MEMORIES, body, &rounds);
        TAP_EQ(hv_load_seq(&broken), 0);
        for (unsigned i = 0; i < MEMORIES; i++) {
            memory_close(&memory[i]);
        }
        check_all_frames(arena);
        hv_heap_get_info(arena->heap, &info);
        TAP_EQ(info.free_frames, info.total_frames);
        TAP_EQ(info.claimed_frames, 0);
        hv_arena_destroy(arena);
    }
    tap_note("%u pages shared, %u written while shared", hv_load_seq(&shares),
             hv_load_seq(&copies));
    TAP_OK(hv_load_seq(&shares) > 0 && hv_load_seq(&copies) > 0);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"stress.share", test_share},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
