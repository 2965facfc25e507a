/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Handles: each names one domain for ever, found from when it is published until its last put. */
#include "domain/directory.h"
#include "lib/threads.h"
#include "sync/race.h"

#include "base/alloc.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>

static struct hv_directory directory;
static char things[4]; /* something to point at */

static struct hv_domain *domain_at(unsigned index)
{
    return (struct hv_domain *)(void *)&things[index];
}

/* A reserved and published handle, or none. */
static hv_handle make(unsigned index)
{
    hv_handle handle;

    if (hv_directory_reserve(&directory, &handle) == 0) {
        hv_directory_publish(&directory, handle, domain_at(index), 1);
    }
    return handle;
}

static void unmake(hv_handle handle)
{
    if (hv_directory_put(&directory, handle)) {
        hv_directory_release(&directory, handle);
    }
}

static int look_up(hv_handle handle)
{
    struct hv_domain *domain;
    int rc = hv_directory_get(&directory, handle, &domain);

    if (rc == 0 && hv_directory_put(&directory, handle)) {
        rc = -EIO; /* it was not the last */
    }
    return rc;
}

static void test_life(void)
{
    struct hv_domain *domain;
    hv_handle handle;

    TAP_EQ(hv_directory_init(&directory), 0);
    TAP_EQ(hv_directory_reserve(&directory, &handle), 0);
    TAP_EQ(hv_handle_id(handle), 1);
    TAP_EQ(handle.v >> 16, 1);
    TAP_EQ(look_up(handle), (uint64_t)-ENOENT);
    hv_directory_publish(&directory, handle, domain_at(2), 2);
    TAP_EQ(hv_directory_get(&directory, handle, &domain), 0);
    TAP_OK(domain == domain_at(2));
    TAP_OK(!hv_directory_put(&directory, handle));
    TAP_OK(!hv_directory_put(&directory, handle));
    TAP_EQ(look_up(handle), 0);
    TAP_OK(hv_directory_put(&directory, handle));
    TAP_EQ(hv_directory_get(&directory, handle, &domain), (uint64_t)-ENOENT);
    TAP_OK(!domain);
    TAP_EQ(directory.count, 1);
    hv_directory_release(&directory, handle);
    TAP_EQ(look_up(handle), (uint64_t)-ENOENT);
    hv_directory_finish(&directory);
}

/* An id that comes again is another domain's, and the old handle does not find it. */
static void test_generation(void)
{
    hv_handle old;
    hv_handle fresh;

    TAP_EQ(hv_directory_init(&directory), 0);
    old = make(0);
    TAP_EQ(look_up(old), 0);
    unmake(old);
    hv_store_relaxed(&directory.next, 0);
    fresh = make(1);
    TAP_EQ(hv_handle_id(fresh), hv_handle_id(old));
    TAP_OK(fresh.v != old.v);
    TAP_EQ(look_up(old), (uint64_t)-ENOENT);
    TAP_EQ(look_up(fresh), 0);
    /* The last generation of all is given once; then there is none, also when ids are free. */
    hv_store_relaxed(&directory.generation, HV_DIRECTORY_GENERATION_MAX - 1);
    old = make(2);
    TAP_EQ(old.v >> 16, HV_DIRECTORY_GENERATION_MAX);
    TAP_EQ(look_up(old), 0);
    TAP_EQ(make(3).v, HV_HANDLE_NONE.v);
    TAP_EQ(directory.count, 2);
    unmake(old);
    unmake(fresh);
    hv_directory_finish(&directory);
}

static void test_strange_handles(void)
{
    static const uint64_t strange[] = {
        0,       1,       0xffff,           0x1ffff,    1ull << 16 | (HV_DIRECTORY_IDS + 1),
        1 << 16, 2 << 16, 1ull << 16 | 500, UINT64_MAX, 1ull << 63 | 1,
    };
    hv_handle handle;

    TAP_EQ(hv_directory_init(&directory), 0);
    handle = make(0);
    for (size_t i = 0; i < HV_ARRAY_LEN(strange); i++) {
        TAP_OK(strange[i] != handle.v);
        TAP_EQ(look_up((hv_handle){strange[i]}), (uint64_t)-ENOENT);
    }
    unmake(handle);
    hv_directory_finish(&directory);
}

static void put_once_more(void)
{
    if (hv_directory_init(&directory) == 0) {
        hv_handle handle = make(0);

        (void)!hv_directory_put(&directory, handle);
        (void)!hv_directory_put(&directory, handle);
    }
}

static void test_saturates(void)
{
    struct hv_domain *domain;
    hv_handle handle;
    unsigned held = 1;

    TAP_EQ(hv_directory_init(&directory), 0);
    handle = make(0);
    while (held < HV_DIRECTORY_REFERENCES_MAX && look_up(handle) == 0) {
        TAP_EQ(hv_directory_get(&directory, handle, &domain), 0);
        held++;
    }
    TAP_EQ(held, HV_DIRECTORY_REFERENCES_MAX);
    TAP_EQ(hv_directory_get(&directory, handle, &domain), (uint64_t)-EOVERFLOW);
    TAP_OK(!domain);
    TAP_OK(!hv_directory_put(&directory, handle));
    TAP_EQ(look_up(handle), 0);
    for (held--; held > 1; held--) {
        TAP_OK(!hv_directory_put(&directory, handle));
    }
    unmake(handle);
    hv_directory_finish(&directory);
    TAP_DIES(put_once_more, SIGABRT, "references_of");
}

/* All ids are given, each once; one that is free again is found, wherever it is. */
static void test_full(void)
{
    hv_handle *handles = hv_alloc(HV_DIRECTORY_IDS, sizeof(*handles));
    hv_handle again;
    uint64_t sum = 0;

    TAP_OK(handles);
    TAP_EQ(hv_directory_init(&directory), 0);
    for (unsigned i = 0; i < HV_DIRECTORY_IDS; i++) {
        TAP_EQ(hv_directory_reserve(&directory, &handles[i]), 0);
        sum += hv_handle_id(handles[i]);
    }
    TAP_EQ(sum, (uint64_t)HV_DIRECTORY_IDS * (HV_DIRECTORY_IDS + 1) / 2);
    TAP_EQ(hv_directory_reserve(&directory, &again), (uint64_t)-ENOSPC);
    TAP_EQ(again.v, HV_HANDLE_NONE.v);
    hv_directory_release(&directory, handles[777]);
    TAP_EQ(hv_directory_reserve(&directory, &again), 0);
    TAP_EQ(hv_handle_id(again), hv_handle_id(handles[777]));
    handles[777] = again;
    for (unsigned i = 0; i < HV_DIRECTORY_IDS; i++) {
        hv_directory_release(&directory, handles[i]);
    }
    hv_directory_finish(&directory);
    hv_free(handles);
}

static size_t list(hv_handle *handles, size_t max)
{
    return hv_directory_list(&directory, handles, max);
}

/* Those that can be found, by id, however many there is room for. */
static void test_list(void)
{
    hv_handle made[70], listed[70], reserved;

    TAP_EQ(hv_directory_init(&directory), 0);
    TAP_EQ(list(listed, 70), 0);
    for (unsigned i = 0; i < 70; i++) {
        made[i] = make(0);
    }
    TAP_EQ(hv_directory_reserve(&directory, &reserved), 0);
    TAP_EQ(list(NULL, 0), 70);
    TAP_EQ(list(listed, 70), 70);
    for (unsigned i = 0; i < 70; i++) {
        TAP_EQ(listed[i].v, made[i].v);
    }
    listed[2] = HV_HANDLE_NONE;
    TAP_EQ(list(listed, 2), 70);
    TAP_EQ(listed[2].v, HV_HANDLE_NONE.v);
    /* Let go by the last, it is not found any more, and not listed, though its id is not free. */
    TAP_OK(hv_directory_put(&directory, made[0]));
    TAP_EQ(list(listed, 70), 69);
    TAP_EQ(listed[0].v, made[1].v);
    hv_directory_release(&directory, made[0]);
    hv_directory_release(&directory, reserved);
    for (unsigned i = 1; i < 70; i++) {
        unmake(made[i]);
    }
    TAP_EQ(list(listed, 70), 0);
    hv_directory_finish(&directory);
}

#define STAYING     3u
#define LIST_ROUNDS 3000u
#define LIST_MAKERS 2u

static struct {
    hv_handle staying[STAYING];
    _Atomic uint32_t makers, wrong;
    _Atomic uint32_t lists; /* that were begun */
    /* By generation: how many lists had begun when it was found no more; 0: it is found. */
    _Atomic uint32_t *gone;
} listing;

static void make_and_unmake(unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        uint32_t seen = hv_load_seq(&listing.lists);
        hv_handle handle;

        /* Now and then until another list has begun. */
        while (i % 32 == 0 && hv_load_seq(&listing.lists) == seen) {
            sched_yield();
        }
        /* Few ids, which come again at once. */
        hv_store_relaxed(&directory.next, 0);
        handle = make(0);
        if (hv_directory_put(&directory, handle)) {
            hv_store_seq(&listing.gone[handle.v >> 16], hv_load_seq(&listing.lists) + 1);
            hv_directory_release(&directory, handle);
        }
    }
}

static void list_once(void)
{
    uint32_t begun = hv_add_seq(&listing.lists, 1) + 1;
    hv_handle listed[STAYING + LIST_MAKERS];
    size_t count = list(listed, HV_ARRAY_LEN(listed));
    unsigned stayed = 0;

    /* One that has moved to a higher id may be met twice: two names, both true. */
    for (size_t i = 0; i < count && i < HV_ARRAY_LEN(listed); i++) {
        uint32_t gone = hv_load_seq(&listing.gone[listed[i].v >> 16]);

        hv_add_relaxed(&listing.wrong, gone != 0 && gone <= begun);
        hv_add_relaxed(&listing.wrong,
                       i > 0 && hv_handle_id(listed[i]) <= hv_handle_id(listed[i - 1]));
        for (unsigned k = 0; k < STAYING; k++) {
            stayed += listed[i].v == listing.staying[k].v;
        }
    }
    hv_add_relaxed(&listing.wrong, count <= HV_ARRAY_LEN(listed) && stayed != STAYING);
}

static void make_or_list(unsigned index, void *context)
{
    unsigned rounds = *(unsigned *)context;

    if (index < LIST_MAKERS) {
        make_and_unmake(rounds);
        hv_sub_seq(&listing.makers, 1);
    } else {
        do {
            list_once();
        } while (hv_load_seq(&listing.makers) > 0);
    }
}

/* While others come and go: who stays is listed each time, and nobody who had gone before. */
static void test_list_vs_change(void)
{
    unsigned rounds = threads_rounds(LIST_ROUNDS);
    hv_handle between[STAYING];

    TAP_EQ(hv_directory_init(&directory), 0);
    listing.gone = hv_alloc(2 * STAYING + LIST_MAKERS * rounds + 1, sizeof(*listing.gone));
    TAP_OK(listing.gone);
    for (unsigned i = 0; i < STAYING; i++) {
        between[i] = make(0);
        listing.staying[i] = make(1);
    }
    for (unsigned i = 0; i < STAYING; i++) {
        unmake(between[i]);
    }
    hv_store_relaxed(&listing.makers, LIST_MAKERS);
    hv_store_relaxed(&listing.wrong, 0);
    threads_run(LIST_MAKERS + 1, make_or_list, &rounds);
    TAP_EQ(hv_load_relaxed(&listing.wrong), 0);
    tap_note("%" PRIu32 " lists", hv_load_relaxed(&listing.lists));
    for (unsigned i = 0; i < STAYING; i++) {
        unmake(listing.staying[i]);
    }
    hv_free(listing.gone);
    hv_directory_finish(&directory);
}

static int raced;

static void look_up_as_1(unsigned index, void *context)
{
    (void)index;
    hv_race_name_thread(1);
    raced = look_up(*(hv_handle *)context);
}

/* Who has seen the word of a domain, and is held up until its id is another's, gets nothing. */
static void test_stale_look(void)
{
    struct threads reader;
    hv_handle old;
    hv_handle fresh;

    if (!HV_CONFIG_RACE_POINTS) {
        tap_skip("This build has no race points.");
        return;
    }
    TAP_EQ(hv_directory_init(&directory), 0);
    old = make(0);
    hv_race_begin();
    hv_race_stop(1, "directory.get.looked", 0);
    threads_start(&reader, 1, look_up_as_1, &old);
    TAP_OK(hv_race_await(1, "directory.get.looked"));
    unmake(old);
    hv_store_relaxed(&directory.next, 0);
    fresh = make(1);
    hv_race_end();
    threads_join(&reader);
    TAP_EQ(hv_handle_id(fresh), hv_handle_id(old));
    TAP_EQ(raced, (uint64_t)-ENOENT);
    unmake(fresh);
    hv_directory_finish(&directory);
}

static void release_as_1(unsigned index, void *context)
{
    (void)index;
    hv_race_name_thread(1);
    unmake(*(hv_handle *)context);
}

/* Who gives an id back, and is held up half way, takes nobody who has it next from the list. */
static void test_slow_release(void)
{
    hv_handle old, fresh, listed;
    struct threads slow;

    if (!HV_CONFIG_RACE_POINTS) {
        tap_skip("This build has no race points.");
        return;
    }
    TAP_EQ(hv_directory_init(&directory), 0);
    old = make(0);
    hv_race_begin();
    hv_race_stop(1, "directory.release.between", 0);
    threads_start(&slow, 1, release_as_1, &old);
    TAP_OK(hv_race_await(1, "directory.release.between"));
    hv_store_relaxed(&directory.next, 0);
    fresh = make(1);
    hv_race_end();
    threads_join(&slow);
    TAP_EQ(list(&listed, 1), 1);
    TAP_EQ(listed.v, fresh.v);
    unmake(fresh);
    hv_directory_finish(&directory);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"domain.directory.life", test_life},
        {"domain.directory.generation", test_generation},
        {"domain.directory.strange-handles", test_strange_handles},
        {"domain.directory.saturates", test_saturates},
        {"domain.directory.full", test_full},
        {"domain.directory.list", test_list},
        {"domain.directory.list-vs-change", test_list_vs_change},
        {"domain.directory.stale-look", test_stale_look},
        {"domain.directory.slow-release", test_slow_release},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
