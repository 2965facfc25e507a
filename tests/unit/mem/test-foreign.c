/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Foreign mappings: every refusal, what they hold, and who is named to a zombie's reader. */
#include "base/alloc.h"
#include "lib/threads.h"
#include "mem/tlb-holder-private.h"
#include "sync/race.h"
#include "unit/mem/mem-fixture.h"

#include <signal.h>

static struct fixture fixture;
static struct hv_mapper *mapper;

static void give_up(void *context, hv_gfn gfn)
{
    (void)context;
    hv_memory_unseal_code(&fixture.memory, gfn);
}

static const struct hv_memory_hooks hooks = {.revoke_code = give_up};

static const struct hv_mapper_config worker = {.name = "migration worker 3"};

#define RIGHTS (HV_FOREIGN_READ | HV_FOREIGN_WRITE)

static bool open_mapper(void)
{
    return fixture_open(&fixture, 3, 2 * HV_EXTENT_FRAMES, &hooks, NULL) &&
           hv_mapper_create(fixture.arena, &worker, &mapper) == 0 &&
           hv_foreign_grant(mapper, &fixture.memory, RIGHTS) == 0;
}

static int map(uint64_t first, size_t count, unsigned rights, struct hv_foreign **foreign_out)
{
    return hv_foreign_map(mapper, &fixture.memory, (hv_gfn){first}, count, rights, foreign_out);
}

static void close_mapper(void)
{
    hv_mapper_destroy(mapper);
    fixture_close(&fixture);
}

static void test_refusals(void)
{
    struct hv_frame_access access_owner = {.memory = &fixture.memory};
    struct hv_foreign *foreign;
    hv_mfn mfn;

    TAP_OK(open_mapper());
    TAP_EQ(map(0, 0, HV_FOREIGN_READ, &foreign), (uint64_t)-EINVAL);
    TAP_EQ(map(0, 513, HV_FOREIGN_READ, &foreign), (uint64_t)-EINVAL);
    TAP_EQ(map(0, SIZE_MAX, HV_FOREIGN_READ, &foreign), (uint64_t)-EINVAL);
    TAP_EQ(map(0, 1, 0, &foreign), (uint64_t)-EINVAL);
    TAP_EQ(map(0, 1, 4, &foreign), (uint64_t)-EINVAL);
    TAP_OK(!foreign);
    TAP_EQ(map(2 * HV_EXTENT_FRAMES - 1, 2, HV_FOREIGN_READ, &foreign), (uint64_t)-ENOENT);
    TAP_EQ(map(UINT64_MAX, 2, HV_FOREIGN_READ, &foreign), (uint64_t)-ENOENT);
    /* The first page was held for a moment: nothing of it is left. */
    TAP_EQ(hv_frame_references(fixture_frame(&fixture, (hv_gfn){1023})), 1);
    hv_alloc_fail_at(1);
    TAP_EQ(map(0, 1, HV_FOREIGN_READ, &foreign), (uint64_t)-ENOMEM);
    hv_alloc_fail_at(0);
    /* Sealed for other reasons than code: a reader may, a writer may not. */
    mfn = fixture_fill(&fixture, (hv_gfn){1});
    hv_frame_type_put(fixture.arena, mfn);
    TAP_EQ(hv_frame_type_get(fixture.arena, mfn, HV_FRAME_TYPE_SEALED, HV_SEAL_COW, &access_owner),
           0);
    TAP_EQ(map(1, 1, HV_FOREIGN_WRITE, &foreign), (uint64_t)-EBUSY);
    TAP_EQ(map(1, 1, HV_FOREIGN_READ, &foreign), 0);
    hv_foreign_unmap(foreign);
    hv_frame_type_put(fixture.arena, mfn);
    TAP_EQ(hv_frame_type_get(fixture.arena, mfn, HV_FRAME_TYPE_WRITABLE, 0, &access_owner), 0);
    hv_foreign_unmap(NULL);
    close_mapper();
}

/* A dying owner's pages are not mapped any more, those that still stand there neither. */
static void test_dying(void)
{
    struct hv_foreign *foreign;

    TAP_OK(open_mapper());
    TAP_OK(fixture_fill(&fixture, (hv_gfn){600}).v != HV_MFN_NONE.v);
    TAP_EQ(hv_memory_relinquish(&fixture.memory, 0), (uint64_t)-EAGAIN);
    TAP_EQ(hv_p2m_lookup(&fixture.memory.p2m, (hv_gfn){600}).kind, HV_LEAF_RAM);
    TAP_EQ(map(600, 1, HV_FOREIGN_READ, &foreign), (uint64_t)-ECANCELED);
    TAP_EQ(map(0, 1, HV_FOREIGN_READ, &foreign), (uint64_t)-ECANCELED);
    TAP_EQ(hv_foreign_holds(fixture.arena, 7, NULL, 0), 0);
    while (hv_memory_relinquish(&fixture.memory, 512) == -EAGAIN) {
    }
    TAP_EQ(map(600, 1, HV_FOREIGN_READ, &foreign), (uint64_t)-ECANCELED);
    /* Who may not know of the domain does not learn that it dies. */
    hv_foreign_revoke(mapper, &fixture.memory);
    TAP_EQ(map(600, 1, HV_FOREIGN_READ, &foreign), (uint64_t)-EPERM);
    close_mapper();
}

/* Each mapper has its own rights on each owner, as long as both live. */
static void test_rights(void)
{
    struct hv_mapper *stranger;
    struct hv_foreign *foreign;
    struct hv_memory other;

    TAP_OK(open_mapper());
    TAP_EQ(hv_mapper_create(fixture.arena, &worker, &stranger), 0);
    TAP_EQ(hv_memory_init(&other, fixture.arena, 8, HV_EXTENT_SIZE, NULL, NULL), 0);
    TAP_EQ(hv_memory_add_ram(&other, (hv_gfn){0}, HV_EXTENT_FRAMES), 0);
    TAP_EQ(hv_foreign_grant(stranger, &fixture.memory, 0), (uint64_t)-EINVAL);
    TAP_EQ(hv_foreign_grant(stranger, &fixture.memory, 4), (uint64_t)-EINVAL);
    hv_alloc_fail_at(1);
    TAP_EQ(hv_foreign_grant(stranger, &fixture.memory, RIGHTS), (uint64_t)-ENOMEM);
    hv_alloc_fail_at(0);
    TAP_EQ(hv_foreign_map(stranger, &fixture.memory, (hv_gfn){0}, 1, HV_FOREIGN_READ, &foreign),
           (uint64_t)-EPERM);
    TAP_OK(!foreign);
    TAP_EQ(hv_foreign_map(mapper, &other, (hv_gfn){0}, 1, HV_FOREIGN_READ, &foreign),
           (uint64_t)-EPERM);
    /* Nothing was populated for them. */
    TAP_EQ(hv_p2m_lookup(&other.p2m, (hv_gfn){0}).kind, HV_LEAF_UNPOPULATED);

    TAP_EQ(hv_foreign_grant(mapper, &other, RIGHTS), 0);
    TAP_EQ(hv_foreign_grant(mapper, &other, HV_FOREIGN_READ), 0); /* instead */
    TAP_EQ(hv_foreign_map(mapper, &other, (hv_gfn){0}, 1, RIGHTS, &foreign), (uint64_t)-EPERM);
    TAP_EQ(hv_foreign_map(mapper, &other, (hv_gfn){0}, 1, HV_FOREIGN_WRITE, &foreign),
           (uint64_t)-EPERM);
    TAP_EQ(hv_foreign_map(mapper, &other, (hv_gfn){0}, 1, HV_FOREIGN_READ, &foreign), 0);
    /* What is mapped stays, and is found. */
    hv_foreign_revoke(mapper, &other);
    hv_foreign_revoke(mapper, &other);
    TAP_EQ(hv_foreign_holds(fixture.arena, 8, NULL, 0), 1);
    hv_foreign_unmap(foreign);
    TAP_EQ(hv_foreign_map(mapper, &other, (hv_gfn){0}, 1, HV_FOREIGN_READ, &foreign),
           (uint64_t)-EPERM);

    hv_mapper_destroy(stranger);
    memory_close(&other);
    close_mapper();
}

/* A domain that comes to another's place, and even to its id, inherits no mapper. */
static void test_rights_end(void)
{
    const int64_t before = hv_alloc_live();
    struct hv_mapper *second;
    struct hv_foreign *foreign;

    TAP_OK(open_mapper());
    TAP_EQ(hv_mapper_create(fixture.arena, &worker, &second), 0);
    TAP_EQ(hv_foreign_grant(second, &fixture.memory, RIGHTS), 0);
    memory_close(&fixture.memory);
    TAP_EQ(hv_memory_init(&fixture.memory, fixture.arena, 7, HV_EXTENT_SIZE, NULL, NULL), 0);
    TAP_EQ(hv_memory_add_ram(&fixture.memory, (hv_gfn){0}, HV_EXTENT_FRAMES), 0);
    TAP_EQ(map(0, 1, HV_FOREIGN_READ, &foreign), (uint64_t)-EPERM);
    /* A mapper that ends before the memory takes its grant along. */
    TAP_EQ(hv_foreign_grant(second, &fixture.memory, RIGHTS), 0);
    hv_mapper_destroy(second);
    TAP_OK(!hv_list_linked(&fixture.memory.grants));
    close_mapper();
    TAP_EQ(hv_alloc_live(), before);
}

static void test_mapping(void)
{
    struct hv_foreign *foreign;
    struct hv_frame *frame;
    uint64_t value = 0;

    TAP_OK(open_mapper());
    TAP_EQ(map(3, 2, HV_FOREIGN_READ | HV_FOREIGN_WRITE, &foreign), 0);
    frame = fixture_frame(&fixture, (hv_gfn){4});
    TAP_EQ(hv_frame_references(frame), 2);
    TAP_EQ(hv_frame_type_references(frame), 2);
    TAP_OK(hv_load_seq(&frame->type) & HV_FRAME_FTAINT);
    TAP_EQ(hv_memory_seal_code(&fixture.memory, (hv_gfn){4}, NULL), (uint64_t)-EBUSY);
    hv_mapper_enter(mapper);
    memcpy(hv_foreign_page(foreign, 1), "foreign", 8);
    hv_memory_note_write(&fixture.memory, (hv_gfn){4});
    hv_mapper_leave(mapper);
    TAP_EQ(
        hv_memory_copy(&fixture.memory, (hv_gpa){4 * HV_PAGE_SIZE}, &value, 8, HV_COPY_FROM_GUEST),
        0);
    TAP_OK(memcmp(&value, "foreign", 8) == 0);
    hv_foreign_unmap(foreign);
    TAP_EQ(hv_frame_type_references(frame), 1);
    TAP_OK(hv_load_seq(&frame->type) & HV_FRAME_FTAINT);
    /* Code gives way to a writer, and comes again after it. */
    TAP_EQ(hv_memory_seal_code(&fixture.memory, (hv_gfn){4}, NULL), 0);
    TAP_EQ(map(4, 1, HV_FOREIGN_WRITE, &foreign), 0);
    TAP_EQ(hv_p2m_lookup(&fixture.memory.p2m, (hv_gfn){4}).kind, HV_LEAF_RAM);
    hv_foreign_unmap(foreign);
    close_mapper();
}

/* A mapper keeps frames of a domain that is gone, is named, and gives them back. */
static void test_zombie(void)
{
    struct hv_foreign_hold holds[2];
    struct hv_foreign *foreign;
    struct hv_foreign *other;

    TAP_OK(open_mapper());
    TAP_EQ(map(10, 12, HV_FOREIGN_READ, &foreign), 0);
    TAP_EQ(map(600, 1, HV_FOREIGN_WRITE, &other), 0);
    while (hv_memory_relinquish(&fixture.memory, 100) == -EAGAIN) {
    }
    TAP_EQ(fixture_info(&fixture).free_frames, 3 * HV_EXTENT_FRAMES - 13);
    TAP_EQ(hv_foreign_holds(fixture.arena, 7, holds, 2), 1);
    TAP_STR(holds[0].mapper, "migration worker 3");
    TAP_EQ(holds[0].frames, 13);
    TAP_EQ(hv_foreign_holds(fixture.arena, 8, holds, 2), 0);
    hv_foreign_unmap(other);
    TAP_EQ(hv_foreign_holds(fixture.arena, 7, holds, 0), 1);
    hv_memory_finish(&fixture.memory);
    check_all_frames(fixture.arena);
    hv_foreign_unmap(foreign);
    TAP_EQ(hv_foreign_holds(fixture.arena, 7, holds, 2), 0);
    TAP_EQ(fixture_info(&fixture).free_frames, 3 * HV_EXTENT_FRAMES);
    check_all_frames(fixture.arena);
    hv_mapper_destroy(mapper);
    hv_arena_destroy(fixture.arena);
}

static void page_outside(void)
{
    struct hv_foreign *foreign;

    if (open_mapper() && map(0, 1, HV_FOREIGN_READ, &foreign) == 0) {
        (void)hv_foreign_page(foreign, 0);
    }
}

static void page_beyond(void)
{
    struct hv_foreign *foreign;

    if (open_mapper() && map(0, 1, HV_FOREIGN_READ, &foreign) == 0) {
        hv_mapper_enter(mapper);
        (void)hv_foreign_page(foreign, 1);
    }
}

static void destroy_with_mapping(void)
{
    struct hv_foreign *foreign;

    if (open_mapper() && map(0, 1, HV_FOREIGN_READ, &foreign) == 0) {
        hv_mapper_destroy(mapper);
    }
}

static void test_dies(void)
{
    if (HV_CONFIG_ASSERT) {
        TAP_DIES(page_outside, SIGABRT, "in_guest");
    }
    TAP_DIES(page_beyond, SIGABRT, "count");
    TAP_DIES(destroy_with_mapping, SIGABRT, "mappings");
}

static void test_each_refusals(void)
{
    each_strategy(test_refusals);
}

static void test_each_mapping(void)
{
    each_strategy(test_mapping);
}

static void test_each_zombie(void)
{
    each_strategy(test_zombie);
}

static void forget_nothing(void *context)
{
    (void)context;
}

static void enter_body(unsigned index, void *context)
{
    (void)context;
    hv_race_name_thread(index + 1);
    hv_mapper_enter(mapper);
}

/* A request that comes while an earlier one is being taken is answered with it: by a flush that began
 * after both, or who waits for the later one waits for ever. */
static void test_asked_while_taking(void)
{
    const struct hv_mapper_config config = {.name = "mapper", .forget = forget_nothing};
    struct hv_flush_counters counters = {0};
    struct hv_holders *holders;
    struct threads user;
    uint64_t stamp;

    if (skip_script()) {
        return;
    }
    TAP_OK(fixture_open(&fixture, 1, HV_EXTENT_FRAMES, NULL, NULL));
    TAP_EQ(hv_mapper_create(fixture.arena, &config, &mapper), 0);
    holders = &fixture.arena->holders;
    hv_mapper_enter(mapper);
    hv_mapper_leave(mapper);
    hv_holders_flush(holders, NULL, 0, HV_MAPPERS_ALL, hv_flush_clock(holders), &counters);
    hv_race_begin();
    hv_race_stop(1, "doorbell.take.cleared", 0);
    threads_start(&user, 1, enter_body, NULL);
    TAP_OK(hv_race_await(1, "doorbell.take.cleared"));
    stamp = hv_flush_clock(holders);
    hv_holders_flush(holders, NULL, 0, HV_MAPPERS_ALL, stamp, &counters);
    hv_race_end();
    threads_join(&user);
    TAP_EQ(counters.lazy, 2);
    TAP_EQ(hv_holders_suspects(holders, HV_MAPPERS_ALL, stamp), 0);
    hv_mapper_leave(mapper);
    close_mapper();
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"mem.foreign.refusals", test_each_refusals},
        {"mem.foreign.dying", test_dying},
        {"mem.foreign.rights", test_rights},
        {"mem.foreign.rights-end", test_rights_end},
        {"mem.foreign.mapping", test_each_mapping},
        {"mem.foreign.zombie", test_each_zombie},
        {"mem.foreign.dies", test_dies},
        {"mem.foreign.asked-while-taking", test_asked_while_taking},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
