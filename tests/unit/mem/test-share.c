/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Pages shared until they are written: who sees what, what is claimed and counted meanwhile, and what
 * happens when two act on one page.
 */
#include "mem/share.h"

#include "lib/threads.h"
#include "sync/race.h"
#include "unit/mem/mem-fixture.h"

#define PAGES 600u
#define PAGE  ((hv_gfn){3})
#define OTHER ((hv_gfn){7})

static struct fixture fixture; /* of the first memory */
static struct hv_memory second;

static struct hv_memory *first(void)
{
    return &fixture.memory;
}

/* Two memories of 600 pages on 8 extents, nothing touched. */
static bool open_two(const struct hv_memory_hooks *hooks)
{
    memset(&second, 0, sizeof(second));
    return fixture_open(&fixture, 8, PAGES, hooks, NULL) &&
           hv_memory_init(&second, fixture.arena, 8, PAGES * HV_PAGE_SIZE, hooks, NULL) == 0 &&
           hv_memory_add_ram(&second, (hv_gfn){0}, PAGES) == 0;
}

static uint64_t in_use(void)
{
    struct hv_heap_info info = fixture_info(&fixture);

    return info.total_frames - info.free_frames + info.claimed_frames;
}

static void close_two(void)
{
    memory_close(first());
    memory_close(&second);
    check_all_frames(fixture.arena);
    TAP_EQ(in_use(), 0);
    hv_arena_destroy(fixture.arena);
}

static bool put(struct hv_memory *memory, hv_gfn gfn, uint64_t value)
{
    return hv_memory_copy(memory, hv_gfn_to_gpa(gfn), &value, sizeof(value), HV_COPY_TO_GUEST) == 0;
}

static uint64_t get(struct hv_memory *memory, hv_gfn gfn)
{
    uint64_t value = UINT64_MAX;

    int err = hv_memory_copy(memory, hv_gfn_to_gpa(gfn), &value, sizeof(value), HV_COPY_FROM_GUEST);

    return err ? UINT64_MAX : value;
}

static struct hv_leaf leaf_of(struct hv_memory *memory, hv_gfn gfn)
{
    return hv_p2m_lookup(&memory->p2m, gfn);
}

static void test_life(void)
{
    struct hv_frame *frame;
    struct hv_leaf leaf;

    TAP_OK(open_two(NULL));
    TAP_OK(put(first(), PAGE, 11));
    frame = fixture_frame(&fixture, PAGE);
    TAP_EQ(hv_memory_share(first(), PAGE, &second, OTHER), 0);
    leaf = leaf_of(&second, OTHER);
    TAP_EQ(leaf.kind, HV_LEAF_SHARED);
    TAP_EQ(leaf_of(first(), PAGE).kind, HV_LEAF_SHARED);
    TAP_EQ(leaf.mfn.v, leaf_of(first(), PAGE).mfn.v);
    TAP_EQ(hv_frame_owner(frame), HV_OWNER_SHARED);
    TAP_EQ(hv_frame_type(frame), HV_FRAME_TYPE_SEALED);
    TAP_EQ(hv_frame_reasons(frame), HV_SEAL_COW);
    TAP_EQ(hv_frame_references(frame), 2);
    TAP_EQ(hv_frame_type_references(frame), 2);
    TAP_EQ(get(&second, OTHER), 11);
    /* One frame more than the two claims: the shared one. */
    TAP_EQ(in_use(), 2 * PAGES + 1);
    TAP_EQ(first()->populated_frames, HV_EXTENT_FRAMES - 1);
    /* One writes: a copy. The other keeps what it saw, and takes the frame over when it writes. */
    TAP_OK(put(&second, OTHER, 22));
    TAP_EQ(leaf_of(&second, OTHER).kind, HV_LEAF_RAM);
    TAP_EQ(get(first(), PAGE), 11);
    TAP_EQ(get(&second, OTHER), 22);
    TAP_EQ(hv_frame_owner(frame), HV_OWNER_SHARED);
    TAP_EQ(in_use(), 2 * PAGES + 1);
    TAP_OK(put(first(), PAGE, 33));
    TAP_EQ(leaf_of(first(), PAGE).mfn.v, leaf.mfn.v);
    TAP_EQ(hv_frame_owner(frame), 7);
    TAP_EQ(hv_frame_gfn(frame).v, PAGE.v);
    TAP_EQ(hv_frame_type(frame), HV_FRAME_TYPE_WRITABLE);
    TAP_EQ(get(&second, OTHER), 22);
    TAP_EQ(in_use(), 2 * PAGES);
    TAP_EQ(hv_load_relaxed(&first()->p2m.leaves[HV_LEAF_SHARED]), 0);
    close_two();
}

/* Of one memory, in one extent; and of a page that is shared already. */
static void test_within(void)
{
    TAP_OK(open_two(NULL));
    TAP_OK(put(&second, (hv_gfn){513}, 1)); /* single frames: its 2 MiB are not all RAM */
    TAP_EQ(hv_memory_share(&second, (hv_gfn){513}, &second, (hv_gfn){514}), 0);
    TAP_EQ(hv_memory_share(&second, (hv_gfn){514}, &second, (hv_gfn){515}), 0);
    TAP_EQ(hv_memory_share(&second, (hv_gfn){515}, first(), (hv_gfn){599}), 0);
    TAP_EQ(hv_frame_references(hv_arena_frame(fixture.arena, leaf_of(first(), (hv_gfn){599}).mfn)),
           4);
    TAP_EQ(in_use(), 2 * PAGES + 1);
    TAP_OK(put(&second, (hv_gfn){514}, 2));
    TAP_EQ(get(&second, (hv_gfn){513}), 1);
    TAP_EQ(get(&second, (hv_gfn){514}), 2);
    TAP_EQ(get(&second, (hv_gfn){515}), 1);
    TAP_EQ(get(first(), (hv_gfn){599}), 1);
    TAP_EQ(hv_memory_unshare(&second, (hv_gfn){514}), 0); /* nothing to do */
    close_two();
}

static void test_refused(void)
{
    const struct hv_frame_access access = {.memory = first()};
    hv_mfn mfn;

    TAP_OK(open_two(NULL));
    /* Zeros both. */
    TAP_EQ(hv_memory_share(first(), PAGE, &second, OTHER), 0);
    TAP_EQ(leaf_of(&second, OTHER).kind, HV_LEAF_UNPOPULATED);
    TAP_EQ(hv_memory_share(first(), (hv_gfn){PAGES}, &second, OTHER), (uint64_t)-ENOENT);
    TAP_OK(put(first(), PAGE, 1) && put(&second, PAGE, 2));
    mfn = leaf_of(first(), PAGE).mfn;
    TAP_EQ(hv_frame_pin(fixture.arena, mfn, &access), 0);
    TAP_EQ(hv_memory_share(first(), PAGE, &second, (hv_gfn){590}), (uint64_t)-EBUSY);
    TAP_EQ(leaf_of(first(), PAGE).kind, HV_LEAF_RAM);
    hv_frame_unpin(fixture.arena, mfn);
    TAP_EQ(hv_memory_share(first(), PAGE, &second, OTHER), (uint64_t)-EEXIST);
    TAP_EQ(hv_memory_share(first(), PAGE, &second, (hv_gfn){PAGES}), (uint64_t)-EEXIST);
    TAP_EQ(get(first(), PAGE), 1);
    TAP_OK(put(first(), PAGE, 3));
    TAP_EQ(in_use(), 2 * PAGES);
    /* Every frame is claimed. */
    TAP_EQ(hv_heap_claim(hv_arena_heap(fixture.arena), 8 * HV_EXTENT_FRAMES - 2 * PAGES), 0);
    TAP_EQ(hv_memory_share(first(), PAGE, &second, (hv_gfn){590}), (uint64_t)-ENOMEM);
    hv_heap_unclaim(hv_arena_heap(fixture.arena), 8 * HV_EXTENT_FRAMES - 2 * PAGES);
    hv_memory_kill(&second);
    TAP_EQ(hv_memory_share(first(), PAGE, &second, (hv_gfn){590}), (uint64_t)-ECANCELED);
    TAP_EQ(hv_memory_share(&second, PAGE, first(), (hv_gfn){590}), (uint64_t)-ECANCELED);
    close_two();
}

/* A memory dies with shared pages: the others keep them, the last one's end frees them. */
static void test_ends(void)
{
    for (unsigned way = 0; way < 2; way++) {
        struct hv_memory *dies = way == 0 ? first() : &second;
        struct hv_memory *stays = way == 0 ? &second : first();

        TAP_OK(open_two(NULL));
        for (uint64_t i = 0; i < 100; i++) {
            TAP_OK(put(first(), (hv_gfn){i}, i));
            TAP_EQ(hv_memory_share(first(), (hv_gfn){i}, &second, (hv_gfn){i}), 0);
        }
        while (hv_memory_relinquish(dies, 7) == -EAGAIN) {
        }
        TAP_EQ(dies->populated_frames, 0);
        /* The claim of the one, and the shared frames. */
        TAP_EQ(in_use(), PAGES + 100);
        for (uint64_t i = 0; i < 100; i++) {
            TAP_EQ(get(stays, (hv_gfn){i}), i);
        }
        TAP_OK(put(stays, (hv_gfn){0}, 5));
        TAP_EQ(in_use(), PAGES + 99);
        close_two();
    }
}

/* What becomes a device's place gives its share, and its claim, back. */
static void test_leaves(void)
{
    TAP_OK(open_two(NULL));
    TAP_OK(put(first(), PAGE, 1));
    TAP_EQ(hv_memory_share(first(), PAGE, &second, PAGE), 0);
    TAP_EQ(hv_memory_set_kind(&second, PAGE, 1, HV_LEAF_MMIO), 0);
    TAP_EQ(in_use(), 2 * PAGES);
    TAP_EQ(hv_memory_set_kind(first(), PAGE, 1, HV_LEAF_HOLE), 0);
    TAP_EQ(in_use(), 2 * PAGES - 2);
    close_two();
}

/* ---- blocks ---- */

static unsigned blocks, revocations;

static void revoke(void *context, hv_gfn gfn)
{
    (void)context;
    revocations++;
    for (; blocks > 0; blocks--) {
        hv_memory_unseal_code(&second, gfn);
    }
}

/* "tlb.code-smc", of a shared page: blocks hold its leaf, and go before it can be written. */
static void test_code(void)
{
    const struct hv_memory_hooks hooks = {.revoke_code = revoke};

    TAP_OK(open_two(&hooks));
    TAP_OK(put(first(), PAGE, 1));
    TAP_EQ(hv_memory_share(first(), PAGE, &second, PAGE), 0);
    for (blocks = 0; blocks < 3; blocks++) {
        TAP_EQ(hv_memory_seal_code(&second, PAGE, NULL), 0);
    }
    TAP_EQ(leaf_of(&second, PAGE).kind, HV_LEAF_SHARED);
    TAP_EQ(leaf_of(&second, PAGE).holds, 3);
    TAP_EQ(leaf_of(first(), PAGE).holds, 0);
    revocations = 0;
    TAP_OK(put(first(), PAGE, 2));
    TAP_EQ(revocations, 0); /* the other's blocks are right still */
    TAP_OK(put(&second, PAGE, 3));
    TAP_OK(revocations > 0);
    TAP_EQ(blocks, 0);
    TAP_EQ(leaf_of(&second, PAGE).kind, HV_LEAF_RAM);
    /* A hold that is given up late finds none. */
    TAP_EQ(hv_memory_share(&second, PAGE, first(), (hv_gfn){590}), 0);
    hv_memory_unseal_code(&second, PAGE);
    TAP_EQ(leaf_of(&second, PAGE).holds, 0);
    TAP_EQ(leaf_of(&second, PAGE).kind, HV_LEAF_SHARED);
    close_two();
}

/* ---- who may write it still ---- */

/* "tlb.cow-break": a vCPU with a writable entry is asked before anybody else has the page. */
static void share_body(unsigned index, void *context)
{
    (void)index;
    hv_race_name_thread(1);
    *(int *)context = hv_memory_share(first(), PAGE, &second, OTHER);
}

static void test_stale_entry(void)
{
    struct fake_vcpu *vcpu = &fixture.vcpu[0];
    struct threads sharer;
    int err = 1;

    if (skip_script()) {
        return;
    }
    TAP_OK(open_two(NULL));
    TAP_OK(put(first(), PAGE, 1));
    fake_vcpu_enter(vcpu);
    TAP_OK(fake_vcpu_fill(vcpu, PAGE));
    hv_race_begin();
    hv_race_stop(1, "share.sealed", 0);
    threads_start(&sharer, 1, share_body, &err);
    TAP_OK(hv_race_await(1, "share.sealed"));
    /* It can write still, and nobody else can read. */
    TAP_OK(vcpu->writable[PAGE.v].v != HV_MFN_NONE.v);
    TAP_OK(!fake_vcpu_fill(vcpu, PAGE));
    TAP_EQ(leaf_of(&second, OTHER).kind, HV_LEAF_UNPOPULATED);
    hv_race_end();
    TAP_AWAIT(hv_load_seq(&vcpu->bell.requests) & HV_REQUEST_FLUSH);
    TAP_EQ(leaf_of(&second, OTHER).kind, HV_LEAF_UNPOPULATED);
    hv_doorbell_leave(&vcpu->bell);
    threads_join(&sharer);
    TAP_EQ(err, 0);
    TAP_OK(!fake_vcpu_can_write(vcpu, PAGE));
    close_two();
}

static void unshare_body(unsigned index, void *context)
{
    int *err = context;

    hv_race_name_thread(index + 1);
    err[index] = hv_memory_unshare(&second, OTHER);
}

/* Two want to write it: one makes the copy, the other finds it made. */
static void test_two_writers(void)
{
    struct threads writers;
    int err[2] = {1, 1};
    uint64_t before;

    if (skip_script()) {
        return;
    }
    TAP_OK(open_two(NULL));
    TAP_OK(put(first(), PAGE, 1));
    TAP_EQ(hv_memory_share(first(), PAGE, &second, OTHER), 0);
    before = second.populated_frames;
    hv_race_begin();
    hv_race_stop(1, "unshare.published", 0);
    hv_race_stop(2, "unshare.published", 0);
    threads_start(&writers, 2, unshare_body, err);
    TAP_AWAIT(leaf_of(&second, OTHER).kind == HV_LEAF_RAM);
    /* The shared frame is held until everybody has forgotten it. */
    TAP_EQ(hv_frame_references(hv_arena_frame(fixture.arena, leaf_of(first(), PAGE).mfn)), 2);
    hv_race_end();
    threads_join(&writers);
    TAP_EQ(err[0], 0);
    TAP_EQ(err[1], 0);
    TAP_EQ(second.populated_frames - before, 1);
    TAP_EQ(hv_frame_references(hv_arena_frame(fixture.arena, leaf_of(first(), PAGE).mfn)), 1);
    close_two();
}

static void kill_body(unsigned index, void *context)
{
    (void)index;
    (void)context;
    memory_close(&second);
}

/* The memory is killed amid: its end waits for the copy, and gives it back. */
static void test_killed_amid(void)
{
    struct threads writer, killer;
    int err[2] = {1, 1};

    if (skip_script()) {
        return;
    }
    TAP_OK(open_two(NULL));
    TAP_OK(put(first(), PAGE, 1));
    TAP_EQ(hv_memory_share(first(), PAGE, &second, OTHER), 0);
    hv_race_begin();
    hv_race_stop(1, "unshare.published", 0);
    threads_start(&writer, 1, unshare_body, err);
    TAP_OK(hv_race_await(1, "unshare.published"));
    threads_start(&killer, 1, kill_body, NULL);
    TAP_AWAIT(hv_load_seq(&second.dying));
    TAP_EQ(leaf_of(&second, OTHER).kind, HV_LEAF_RAM);
    hv_race_end();
    threads_join(&writer);
    threads_join(&killer);
    TAP_EQ(err[0], 0);
    memory_close(first());
    check_all_frames(fixture.arena);
    TAP_EQ(in_use(), 0);
    hv_arena_destroy(fixture.arena);
}

static void write_body(unsigned index, void *context)
{
    (void)index;
    hv_race_name_thread(1);
    *(bool *)context = put(first(), PAGE, 2);
}

/* A device looked the page up and then it is shared: it writes a copy, and nobody else sees that. */
static void test_device_amid(void)
{
    struct threads device;
    bool wrote = false;

    if (skip_script()) {
        return;
    }
    TAP_OK(open_two(NULL));
    TAP_OK(put(first(), PAGE, 1));
    hv_race_begin();
    hv_race_stop(1, "memory.page.looked-up", 0);
    threads_start(&device, 1, write_body, &wrote);
    TAP_OK(hv_race_await(1, "memory.page.looked-up"));
    TAP_EQ(hv_memory_share(first(), PAGE, &second, OTHER), 0);
    hv_race_end();
    threads_join(&device);
    TAP_OK(wrote);
    TAP_EQ(get(first(), PAGE), 2);
    TAP_EQ(get(&second, OTHER), 1);
    /* And one that holds it WRITABLE keeps it from being shared. */
    hv_race_begin();
    hv_race_stop(1, "memory.copy.typed", 0);
    threads_start(&device, 1, write_body, &wrote);
    TAP_OK(hv_race_await(1, "memory.copy.typed"));
    TAP_EQ(hv_memory_share(first(), PAGE, &second, (hv_gfn){590}), (uint64_t)-EBUSY);
    hv_race_end();
    threads_join(&device);
    close_two();
}

/* A device has seen whose the frame is, and then the page is shared: it is no page that stays sealed. */
static void test_device_between(void)
{
    struct threads device;
    bool wrote = false;

    if (skip_script()) {
        return;
    }
    TAP_OK(open_two(NULL));
    TAP_OK(put(first(), PAGE, 1));
    hv_race_begin();
    hv_race_stop(1, "frame.get.owned", 0);
    threads_start(&device, 1, write_body, &wrote);
    TAP_OK(hv_race_await(1, "frame.get.owned"));
    TAP_EQ(hv_memory_share(first(), PAGE, &second, OTHER), 0);
    hv_race_end();
    threads_join(&device);
    TAP_OK(wrote);
    TAP_EQ(get(first(), PAGE), 2);
    close_two();
}

/* The same, and both have copies by the time that it goes on: it writes the one that stands. */
static void test_device_orphan(void)
{
    struct threads device;
    bool wrote = false;

    if (skip_script()) {
        return;
    }
    TAP_OK(open_two(NULL));
    TAP_OK(put(first(), PAGE, 1));
    hv_race_begin();
    hv_race_stop(1, "frame.get.owned", 0);
    threads_start(&device, 1, write_body, &wrote);
    TAP_OK(hv_race_await(1, "frame.get.owned"));
    TAP_EQ(hv_memory_share(first(), PAGE, &second, OTHER), 0);
    TAP_EQ(hv_memory_unshare(first(), PAGE), 0);
    TAP_EQ(hv_memory_unshare(&second, OTHER), 0);
    hv_race_end();
    threads_join(&device);
    TAP_OK(wrote);
    TAP_EQ(get(first(), PAGE), 2);
    close_two();
}

static unsigned forgotten;

static void forget(void *context)
{
    (void)context;
    forgotten++;
}

/* A mapper of the one may still know the frame when it is the other's alone: it is told to forget. */
static void test_mapper_forgets(void)
{
    const struct hv_mapper_config config = {.name = "reader", .forget = forget};
    struct hv_mapper *mapper;
    struct hv_foreign *foreign;
    const uint64_t *stale;

    TAP_OK(open_two(NULL));
    TAP_OK(put(first(), PAGE, 11));
    TAP_EQ(hv_memory_share(first(), PAGE, &second, OTHER), 0);
    TAP_EQ(hv_mapper_create(fixture.arena, &config, &mapper), 0);
    TAP_EQ(hv_foreign_grant(mapper, &second, HV_FOREIGN_READ), 0);
    TAP_EQ(hv_foreign_map(mapper, &second, OTHER, 1, HV_FOREIGN_READ, &foreign), 0);
    hv_mapper_enter(mapper);
    stale = hv_foreign_page(foreign, 0);
    TAP_EQ(*stale, 11);
    hv_mapper_leave(mapper);
    hv_foreign_unmap(foreign);
    TAP_EQ(hv_memory_unshare(&second, OTHER), 0);
    TAP_OK(put(first(), PAGE, 0x5ec7e7));
    hv_mapper_enter(mapper);
    TAP_EQ(forgotten, 1);
    hv_mapper_leave(mapper);
    hv_mapper_destroy(mapper);
    close_two();
}

/* ---- any order of anything ---- */

#define MEMORIES 3u
#define SPAN     16u /* pages of each that the steps are about */

static struct hv_memory many[MEMORIES];
static uint64_t expected[MEMORIES][SPAN];
static bool touched[MEMORIES][SPAN];

static bool right(void)
{
    for (unsigned m = 0; m < MEMORIES; m++) {
        for (uint64_t i = 0; i < SPAN; i++) {
            if (get(&many[m], (hv_gfn){i}) != expected[m][i]) {
                tap_note("memory %u page %u", m, (unsigned)i);
                return false;
            }
        }
    }
    check_all_frames(fixture.arena);
    return true;
}

static bool step(void)
{
    unsigned m = (unsigned)(tap_rng() % MEMORIES), n = (unsigned)(tap_rng() % MEMORIES);
    uint64_t i = tap_rng() % SPAN, k = tap_rng() % SPAN;
    int err;

    if (tap_rng() % 2) {
        expected[m][i] = tap_rng();
        touched[m][i] = true;
        return put(&many[m], (hv_gfn){i}, expected[m][i]);
    }
    err = hv_memory_share(&many[m], (hv_gfn){i}, &many[n], (hv_gfn){k});
    if (!touched[m][i]) {
        return err == 0;
    }
    if (touched[n][k]) {
        return err == -EEXIST;
    }
    expected[n][k] = expected[m][i];
    touched[n][k] = true;
    return err == 0;
}

/* Against a naive model: what each page holds, after each step. */
static void test_random(void)
{
    const struct hv_arena_config config = {HV_BACKING_KIND_ANON, 8 * HV_EXTENT_SIZE};
    unsigned rounds = threads_rounds(20);

    for (unsigned round = 0; round < rounds; round++) {
        memset(expected, 0, sizeof(expected));
        memset(touched, 0, sizeof(touched));
        TAP_EQ(hv_arena_create(&config, &fixture.arena), 0);
        for (unsigned m = 0; m < MEMORIES; m++) {
            memset(&many[m], 0, sizeof(many[m]));
            TAP_EQ(hv_memory_init(&many[m], fixture.arena, (uint16_t)(m + 1), SPAN * HV_PAGE_SIZE,
                                  NULL, NULL),
                   0);
            TAP_EQ(hv_memory_add_ram(&many[m], (hv_gfn){0}, SPAN), 0);
        }
        for (unsigned i = 0; i < 100; i++) {
            TAP_OK(step());
            TAP_OK(right());
        }
        for (unsigned m = 0; m < MEMORIES; m++) {
            memory_close(&many[m]);
        }
        TAP_EQ(in_use(), 0);
        hv_arena_destroy(fixture.arena);
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"share.life", test_life},
        {"share.within", test_within},
        {"share.refused", test_refused},
        {"share.ends", test_ends},
        {"share.leaves", test_leaves},
        {"tlb.code-smc-shared", test_code},
        {"tlb.cow-break", test_stale_entry},
        {"tlb.cow-break-two", test_two_writers},
        {"tlb.cow-break-killed", test_killed_amid},
        {"tlb.cow-break-device", test_device_amid},
        {"share.random", test_random},
        {"tlb.cow-break-device-between", test_device_between},
        {"tlb.cow-break-device-orphan", test_device_orphan},
        {"tlb.cow-break-mapper", test_mapper_forgets},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
