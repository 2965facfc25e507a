/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Taking domains apart turn by turn: wherever it is interrupted, whoever else is served meanwhile,
 * and whoever holds pages of the dead. The reaper's turns are taken by the test itself. */
#include "domain/core.h"
#include "domain/domain.h"
#include "lib/threads.h"
#include "machine.h"
#include "mem/foreign.h"
#include "mem/heap.h"
#include "sync/race.h"

#include "base/alloc.h"

#include <errno.h>
#include <string.h>

static struct hv_core *core;
static struct hv_reaper *threads_of_core; /* kept aside, idle */

/* mov al, 5; out 0xf4, al; jmp .: code is translated, and the machine ends. */
static const uint8_t code_exit[] = {0xb0, 5, 0xe6, 0xf4, 0xeb, 0xfe};

static bool open_core(uint64_t bytes, uint64_t turn_frames)
{
    const struct hv_core_config config = {.workers = 1, .memory_bytes = bytes};

    if (hv_core_create(&config, &core) < 0) {
        return false;
    }
    threads_of_core = core->reaper;
    if (hv_reaper_create(0, &core->clock, &core->reaper) < 0) {
        return false;
    }
    core->reaper->turn_frames = turn_frames;
    return true;
}

static void close_core(void)
{
    hv_reaper_destroy(core->reaper);
    core->reaper = threads_of_core;
    hv_core_destroy(core);
}

/* A domain with @extents of RAM that are all in use, the first of them in single pages, for the hole
 * in it. NULL fails. */
static struct hv_domain *make(uint64_t extents)
{
    const struct hv_domain_config config = {
        .name = "test",
        .engine = "soft",
        .memory_bytes = extents * HV_EXTENT_SIZE,
        .vcpus = 2,
        .flags = HV_DOMAIN_TESTDEV,
    };
    struct hv_domain *domain = NULL;
    uint64_t word = 1;
    char why[128];
    int rc = hv_domain_create(core, &config, &domain, why, sizeof(why));

    for (uint64_t gpa = 0; rc == 0 && gpa < config.memory_bytes; gpa += HV_PAGE_SIZE) {
        if (gpa < HV_EXTENT_SIZE && gpa >= 0x20000 && gpa != MACHINE_CODE) {
            continue;
        }
        rc = hv_guest_copy(domain, (hv_gpa){gpa}, &word, sizeof(word), HV_COPY_TO_GUEST);
    }
    return rc == 0 ? domain : NULL;
}

/* Let it run a little, so that there are translations, and pages sealed for them. */
static bool run(struct hv_domain *domain)
{
    const struct hv_boot_state boot = {.rip = MACHINE_CODE, .rsp = MACHINE_CODE};
    uint8_t code[sizeof(code_exit)];

    memcpy(code, code_exit, sizeof(code));
    return hv_guest_copy(domain, (hv_gpa){MACHINE_CODE}, code, sizeof(code), HV_COPY_TO_GUEST) ==
               0 &&
           hv_domain_set_boot(domain, &boot) == 0 && hv_domain_unpause(domain) == 0 &&
           hv_domain_wait_change(domain, HV_DOMAIN_STATE_RUNNING, 10 * HV_NS_PER_S) == 0;
}

static enum hv_domain_state state_of(struct hv_domain *domain)
{
    struct hv_domain_status status;

    hv_domain_get_status(domain, &status);
    return status.state;
}

/* Also of what the last who let go has left to the reaper. */
static bool nothing_is_left(void)
{
    (void)hv_reaper_turn(core->reaper);
    for (uint64_t i = 0; i < hv_arena_frames(core->arena); i++) {
        hv_frame_check(hv_arena_frame(core->arena, (hv_mfn){i}));
    }
    return machine_frames_in_use(core) == 0 && hv_load_seq(&core->directory.count) == 0;
}

/* The vCPU may be inside for a moment after its end was announced: then there is nothing to do. */
static bool turn(void)
{
    uint64_t end = threads_patience();

    while (!hv_reaper_turn(core->reaper)) {
        if (hv_load_seq(&core->reaper->domains) == 0 || !threads_patient(end)) {
            return false;
        }
    }
    return true;
}

static void restart_every(uint64_t k)
{
    struct hv_teardown_info before[2], now;
    struct hv_domain *domain[2];
    uint64_t turns = 0;
    int64_t live;

    TAP_OK(open_core(16 * HV_MIB, k));
    live = hv_alloc_live();
    for (unsigned i = 0; i < 2; i++) {
        domain[i] = make(3);
        TAP_OK(domain[i] && run(domain[i]));
    }
    for (unsigned i = 0; i < 2; i++) {
        TAP_EQ(hv_domain_kill(domain[i]), 0);
        hv_domain_get_teardown(domain[i], &before[i]);
        TAP_EQ(before[i].phase, HV_TEARDOWN_NONE);
        TAP_EQ(before[i].pages_left, 2 * HV_EXTENT_FRAMES + 33);
    }
    while (turn()) {
        turns++;
        for (unsigned i = 0; i < 2; i++) {
            hv_domain_get_teardown(domain[i], &now);
            TAP_OK(now.phase >= before[i].phase && now.pages_left <= before[i].pages_left);
            TAP_OK(before[i].pages_left - now.pages_left <= k);
            TAP_EQ(now.pages_total, before[0].pages_total);
            before[i] = now;
        }
    }
    TAP_OK(turns >= 2 * (2 * HV_EXTENT_FRAMES + 33) / k);
    for (unsigned i = 0; i < 2; i++) {
        TAP_EQ(state_of(domain[i]), HV_DOMAIN_STATE_GONE);
        TAP_EQ(before[i].phase, HV_TEARDOWN_DONE);
        TAP_EQ(before[i].pages_left, 0);
        hv_domain_put(domain[i]);
    }
    TAP_OK(turn()); /* the last who let go has left them to the reaper */
    TAP_EQ(hv_alloc_live(), live);
    TAP_AWAIT(nothing_is_left());
    close_core();
}

/* Interrupted after every k-th page, by another that is as far: the end is the same. */
static void test_restart(void)
{
    static const uint64_t every[] = {1, 2, 7, 63, 64, 65, 100, 511, 512, 513, 1024, 4096};

    for (size_t i = 0; i < HV_ARRAY_LEN(every) && !tap_failed(); i++) {
        restart_every(every[i]);
    }
}

/* A turn has other work, too: what then remains of it is too little for an extent, and splits none. */
static void test_whole_extents(void)
{
    static const uint64_t turns[] = {512, 1000, 4096};

    for (size_t i = 0; i < HV_ARRAY_LEN(turns) && !tap_failed(); i++) {
        struct hv_heap_info info;
        struct hv_domain *domain;

        TAP_OK(open_core(40 * HV_MIB, turns[i]));
        domain = make(12);
        TAP_OK(domain && run(domain));
        TAP_EQ(hv_domain_kill(domain), 0);
        while (turn()) {
        }
        hv_heap_get_info(hv_arena_heap(core->arena), &info);
        TAP_EQ(info.freed_extents, 11);
        hv_domain_put(domain);
        TAP_AWAIT(nothing_is_left());
        close_core();
    }
}

/* A small domain killed behind a large one is gone while that is far from it. */
static void test_fair(void)
{
    struct hv_domain *large, *small, *first;
    struct hv_teardown_info info;
    unsigned turns[2] = {0};

    TAP_OK(open_core(40 * HV_MIB, 64));
    large = make(16);
    small = make(1);
    TAP_OK(large && small);
    TAP_EQ(hv_domain_kill(large), 0);
    TAP_EQ(hv_domain_kill(small), 0);
    while (state_of(small) != HV_DOMAIN_STATE_GONE) {
        TAP_OK(hv_list_linked(&core->reaper->queue));
        first = hv_list_entry(core->reaper->queue.next, struct hv_domain, reaping.link);
        turns[first == small]++;
        TAP_OK(hv_reaper_turn(core->reaper));
        TAP_OK(turns[0] >= turns[1] && turns[0] <= turns[1] + 1);
    }
    hv_domain_get_teardown(large, &info);
    tap_note("after %u turns each, %" PRIu64 " of %" PRIu64 " pages are left", turns[1],
             info.pages_left, info.pages_total);
    TAP_EQ(state_of(large), HV_DOMAIN_STATE_DYING);
    TAP_OK(info.pages_left > 0);
    while (turn()) {
    }
    hv_domain_put(small);
    hv_domain_put(large);
    TAP_AWAIT(nothing_is_left());
    close_core();
}

/* How often any lock of the domain was taken. */
static uint64_t takings_of(const struct hv_domain *domain)
{
    const struct hv_lock_head *head = NULL;
    struct hv_lock_walk walk;
    uint64_t takings = 0;

    hv_lock_walk_begin(&walk);
    while ((head = hv_lock_walk_locks(&domain->locks, head))) {
        takings += hv_load_relaxed(&head->side.counters.acquired) +
                   hv_load_relaxed(&head->side.counters.try_failed);
    }
    hv_lock_walk_end(&walk);
    return takings;
}

static uint64_t all_takings(struct hv_domain *const domain[2])
{
    return takings_of(domain[0]) + takings_of(domain[1]) +
           hv_load_relaxed(&hv_lock_counters(&core->reaper->lock)->acquired);
}

/* All that tells how a domain, or the core, is. */
static bool ask_all(struct hv_domain *domain)
{
    static struct hv_stat stats[1024];
    struct hv_foreign_hold holds[HV_HOLDS_MAX];
    struct hv_teardown_info teardown;
    struct hv_domain_status status;
    struct hv_reaper_info reaper;
    struct hv_domain *same;
    hv_handle handles[4];

    hv_domain_get_status(domain, &status);
    hv_domain_get_teardown(domain, &teardown);
    hv_reaper_get_info(core->reaper, &reaper);
    (void)hv_domain_life(domain);
    (void)hv_holds_read(&domain->memory.holds, holds);
    if (hv_domain_get_stats(domain, stats, HV_ARRAY_LEN(stats)) == 0 ||
        hv_core_get_stats(core, stats, HV_ARRAY_LEN(stats)) == 0 ||
        hv_core_list(core, handles, HV_ARRAY_LEN(handles)) == 0 ||
        hv_domain_get(core, hv_domain_handle(domain), &same) < 0) {
        return false;
    }
    hv_domain_put(same);
    return true;
}

/* Between any two steps of a large one's end whoever asks, about it or another, takes no lock at all:
 * counted, so that it is true of builds that check no ranks, too. */
static void test_info_counted(void)
{
    struct hv_domain *domain[2];
    unsigned asked = 0;

    TAP_OK(open_core(40 * HV_MIB, 64));
    domain[0] = make(12);
    domain[1] = make(2);
    TAP_OK(domain[0] && domain[1]);
    TAP_EQ(hv_domain_kill(domain[0]), 0);
    do {
        uint64_t before = all_takings(domain);

        TAP_OK(ask_all(domain[0]) && ask_all(domain[1]));
        TAP_EQ(all_takings(domain), before);
        asked++;
        TAP_OK(turn());
    } while (state_of(domain[0]) != HV_DOMAIN_STATE_GONE);
    tap_note("asked %u times", asked);
    TAP_OK(asked > 12 * HV_EXTENT_FRAMES / 64 / 2);
    TAP_EQ(hv_domain_kill(domain[1]), 0);
    hv_domain_put(domain[0]);
    hv_domain_put(domain[1]);
    while (turn()) {
    }
    TAP_AWAIT(nothing_is_left());
    close_core();
}

/* What the reaper says of itself is the sum of what its domains say. */
static void test_progress(void)
{
    struct hv_reaper_info reaper;
    struct hv_teardown_info info[2];
    struct hv_domain *domain[2];
    uint64_t total = 0;

    TAP_OK(open_core(24 * HV_MIB, 512));
    for (unsigned i = 0; i < 2; i++) {
        domain[i] = make(3 + i);
        TAP_OK(domain[i]);
        hv_domain_get_teardown(domain[i], &info[i]);
        TAP_EQ(info[i].phase, HV_TEARDOWN_NONE);
        TAP_EQ(info[i].pages_left, info[i].pages_total);
        TAP_EQ(info[i].pages_per_s, 0);
        total += info[i].pages_total;
    }
    hv_reaper_get_info(core->reaper, &reaper);
    TAP_EQ(reaper.domains + reaper.frames_left + reaper.frames_done + reaper.frames_per_s, 0);
    TAP_EQ(hv_domain_kill(domain[0]), 0);
    TAP_EQ(hv_domain_kill(domain[1]), 0);
    do {
        hv_reaper_get_info(core->reaper, &reaper);
        hv_domain_get_teardown(domain[0], &info[0]);
        hv_domain_get_teardown(domain[1], &info[1]);
        TAP_EQ(reaper.domains,
               (info[0].phase < HV_TEARDOWN_DONE) + (info[1].phase < HV_TEARDOWN_DONE));
        TAP_EQ(reaper.frames_left, info[0].pages_left + info[1].pages_left);
        TAP_EQ(reaper.frames_left + reaper.frames_done, total);
    } while (turn());
    TAP_EQ(reaper.domains, 0);
    TAP_EQ(reaper.frames_done, total);
    for (unsigned i = 0; i < 2; i++) {
        /* Half a thousand pages in less than a microsecond, or in a day, is neither. */
        TAP_OK(info[i].pages_per_s > 0 && info[i].pages_per_s < UINT64_C(1) << 40);
        hv_domain_put(domain[i]);
    }
    TAP_OK(reaper.frames_per_s > 0 && reaper.frames_per_s < UINT64_C(1) << 40);
    close_core();
}

#define MANY 6u

/* Several reapers at work at several domains: each is taken apart once, and all memory is back. */
static void test_parallel(void)
{
    const struct hv_core_config config = {
        .workers = 1, .reapers = 3, .memory_bytes = 2 * MANY * HV_EXTENT_SIZE};
    struct hv_domain *domain[MANY];

    TAP_EQ(hv_core_create(&config, &core), 0);
    for (unsigned i = 0; i < MANY; i++) {
        domain[i] = make(2);
        TAP_OK(domain[i] && run(domain[i]));
    }
    for (unsigned i = 0; i < MANY; i++) {
        TAP_EQ(hv_domain_kill(domain[i]), 0);
    }
    for (unsigned i = 0; i < MANY; i++) {
        hv_domain_destroy(domain[i]);
    }
    TAP_AWAIT(nothing_is_left());
    /* They need not be waited for, either. */
    for (unsigned i = 0; i < MANY; i++) {
        domain[i] = make(2);
        TAP_OK(domain[i]);
        TAP_EQ(hv_domain_kill(domain[i]), 0);
        hv_domain_put(domain[i]);
    }
    hv_core_destroy(core);
}

static const struct hv_mapper_config mapper_config = {.name = "migration worker 3"};

/* Map @count pages of @domain, as a worker of the core does. */
static struct hv_foreign *map(struct hv_mapper *mapper, struct hv_domain *domain, uint64_t first,
                              size_t count, int *rc_out)
{
    struct hv_foreign *foreign = NULL;

    *rc_out = hv_foreign_grant(mapper, &domain->memory, HV_FOREIGN_READ);
    if (*rc_out == 0) {
        *rc_out = hv_foreign_map(mapper, &domain->memory, (hv_gfn){first}, count, HV_FOREIGN_READ,
                                 &foreign);
    }
    return foreign;
}

struct mapping {
    struct hv_domain *domain;
    struct hv_mapper *mapper;
    struct hv_foreign *foreign;
    int rc;
};

static void map_body(unsigned index, void *context)
{
    struct mapping *mapping = context;

    hv_race_name_thread(index + 1);
    mapping->foreign = map(mapping->mapper, mapping->domain, 0, 1, &mapping->rc);
}

/* A mapper that is looking a page up has its tables, whatever becomes of the domain meanwhile. */
static void test_kill_while_mapping(void)
{
    struct hv_teardown_info info;
    struct mapping mapping = {.rc = -EIO};
    struct threads thread;

    if (!HV_CONFIG_RACE_POINTS) {
        tap_skip("This build has no race points.");
        return;
    }
    TAP_OK(open_core(8 * HV_MIB, 4096));
    mapping.domain = make(2);
    TAP_OK(mapping.domain);
    TAP_EQ(hv_mapper_create(core->arena, &mapper_config, &mapping.mapper), 0);
    hv_race_begin();
    hv_race_stop(1, "memory.page.looked-up", 0);
    threads_start(&thread, 1, map_body, &mapping);
    TAP_OK(hv_race_await(1, "memory.page.looked-up"));
    TAP_EQ(hv_domain_kill(mapping.domain), 0);
    while (hv_reaper_turn(core->reaper)) {
    }
    hv_domain_get_teardown(mapping.domain, &info);
    TAP_EQ(info.phase, HV_TEARDOWN_LEAVING);
    hv_race_end();
    threads_join(&thread);
    TAP_EQ(mapping.rc, 0);
    while (hv_reaper_turn(core->reaper)) {
    }
    TAP_EQ(state_of(mapping.domain), HV_DOMAIN_STATE_DEAD);
    hv_domain_put(mapping.domain);
    hv_foreign_unmap(mapping.foreign);
    while (hv_reaper_turn(core->reaper)) {
    }
    hv_mapper_destroy(mapping.mapper);
    TAP_AWAIT(nothing_is_left());
    close_core();
}

/* Pages that others have mapped keep the dead domain, its name and its id, until the last is let go. */
static void test_zombie(void)
{
    struct hv_foreign_hold holds[2];
    struct hv_teardown_info info;
    struct hv_foreign *foreign[2];
    struct hv_domain *zombie, *other, *found;
    struct hv_mapper *mapper;
    hv_handle handle;
    int rc;

    TAP_OK(open_core(16 * HV_MIB, 4096));
    zombie = make(3);
    TAP_OK(zombie);
    handle = hv_domain_handle(zombie);
    TAP_EQ(hv_mapper_create(core->arena, &mapper_config, &mapper), 0);
    foreign[0] = map(mapper, zombie, 600, 11, &rc);
    TAP_EQ(rc, 0);
    foreign[1] = map(mapper, zombie, 3, 1, &rc);
    TAP_EQ(rc, 0);
    TAP_EQ(hv_domain_kill(zombie), 0);
    while (hv_reaper_turn(core->reaper)) {
    }
    TAP_EQ(state_of(zombie), HV_DOMAIN_STATE_DEAD);
    hv_domain_get_teardown(zombie, &info);
    TAP_EQ(info.phase, HV_TEARDOWN_HELD);
    TAP_EQ(info.pages_left, 0);
    TAP_EQ(info.pages_held, 12);
    TAP_EQ(hv_domain_get_holds(zombie, holds, 2), 1);
    TAP_STR(holds[0].mapper, "migration worker 3");
    TAP_EQ(holds[0].frames, 12);
    TAP_OK(!map(mapper, zombie, 0, 1, &rc));
    TAP_EQ(rc, (uint64_t)-ECANCELED);
    while (hv_reaper_turn(core->reaper)) {
    }
    /* Destroying it does not wait for them, and it is found by name. */
    hv_domain_destroy(zombie);
    TAP_EQ(hv_domain_get(core, handle, &found), 0);
    TAP_OK(found == zombie);
    hv_domain_put(found);
    TAP_AWAIT(machine_frames_in_use(core) == 12);
    /* The frames name its id: no other domain may have that. */
    hv_store_relaxed(&core->directory.next, hv_handle_id(handle) - 1u);
    other = make(1);
    TAP_OK(other && hv_handle_id(hv_domain_handle(other)) != hv_handle_id(handle));
    hv_foreign_unmap(foreign[0]);
    TAP_OK(!hv_reaper_turn(core->reaper));
    TAP_EQ(hv_domain_get_holds(zombie, holds, 2), 1);
    TAP_EQ(holds[0].frames, 1);
    hv_foreign_unmap(foreign[1]);
    /* The last release has woken its reaper. */
    TAP_OK(hv_reaper_turn(core->reaper));
    TAP_EQ(hv_domain_get(core, handle, &found), (uint64_t)-ENOENT);
    TAP_EQ(hv_domain_kill(other), 0);
    hv_domain_put(other);
    while (hv_reaper_turn(core->reaper)) {
    }
    hv_mapper_destroy(mapper);
    TAP_AWAIT(nothing_is_left());
    close_core();
}

/* A mapping holds its owner; when too many hold that already, it is refused and nothing is held. */
static void test_held_too_often(void)
{
    struct hv_domain *domain, *same;
    struct hv_foreign *foreign;
    struct hv_mapper *mapper;
    unsigned held = 0;
    int rc;

    TAP_OK(open_core(8 * HV_MIB, 4096));
    domain = make(1);
    TAP_OK(domain);
    TAP_EQ(hv_mapper_create(core->arena, &mapper_config, &mapper), 0);
    while (hv_domain_get(core, hv_domain_handle(domain), &same) == 0) {
        held++;
    }
    TAP_EQ(held, HV_DIRECTORY_REFERENCES_MAX - 2);
    TAP_OK(!map(mapper, domain, 0, 1, &rc));
    TAP_EQ(rc, (uint64_t)-EOVERFLOW);
    TAP_EQ(domain->memory.held_frames, 0);
    hv_domain_put(domain);
    foreign = map(mapper, domain, 0, 1, &rc);
    TAP_EQ(rc, 0);
    hv_foreign_unmap(foreign);
    TAP_EQ(hv_domain_get(core, hv_domain_handle(domain), &same), 0);
    while (held-- > 0) {
        hv_domain_put(domain);
    }
    TAP_EQ(hv_domain_kill(domain), 0);
    hv_domain_put(domain);
    while (turn()) {
    }
    hv_mapper_destroy(mapper);
    TAP_AWAIT(nothing_is_left());
    close_core();
}

static void turn_as_1(unsigned index, void *context)
{
    (void)index;
    (void)context;
    hv_race_name_thread(1);
    hv_reaper_turn(core->reaper);
}

/* Who leaves while a reaper has found him inside, and has not parked the domain yet, is heard. */
static void test_wake_in_work(void)
{
    struct hv_domain *domain;
    struct threads reaper;

    if (!HV_CONFIG_RACE_POINTS) {
        tap_skip("This build has no race points.");
        return;
    }
    TAP_OK(open_core(8 * HV_MIB, 4096));
    domain = make(1);
    TAP_OK(domain);
    TAP_EQ(hv_domain_enter(domain), 0);
    TAP_EQ(hv_domain_kill(domain), 0);
    hv_race_begin();
    hv_race_stop(1, "reaper.stepped", 0);
    threads_start(&reaper, 1, turn_as_1, NULL);
    TAP_OK(hv_race_await(1, "reaper.stepped"));
    TAP_OK(!hv_reaper_turn(core->reaper)); /* one at a time */
    hv_domain_leave(domain);
    hv_race_end();
    threads_join(&reaper);
    TAP_OK(hv_reaper_turn(core->reaper));
    /* And who leaves when it is parked. */
    TAP_EQ(hv_domain_enter(domain), (uint64_t)-ECANCELED);
    while (hv_reaper_turn(core->reaper)) {
    }
    TAP_EQ(state_of(domain), HV_DOMAIN_STATE_GONE);
    hv_domain_put(domain);
    close_core();
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"dom.restart-every-k", test_restart},
        {"dom.whole-extents", test_whole_extents},
        {"dom.continuation-fair", test_fair},
        {"dom.info-lockfree-counted", test_info_counted},
        {"domain.teardown.progress", test_progress},
        {"domain.reaper.parallel", test_parallel},
        {"dom.zombie", test_zombie},
        {"dom.kill-while-mapping", test_kill_while_mapping},
        {"domain.teardown.held-too-often", test_held_too_often},
        {"domain.reaper.wake-in-work", test_wake_in_work},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
