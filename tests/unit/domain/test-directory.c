/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Handles: each names one domain for ever, found from when it is published until its last put. */
#include "domain/directory.h"
#include "lib/threads.h"
#include "sync/race.h"

#include "base/alloc.h"

#include <errno.h>
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

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"domain.directory.life", test_life},
        {"domain.directory.generation", test_generation},
        {"domain.directory.strange-handles", test_strange_handles},
        {"domain.directory.saturates", test_saturates},
        {"domain.directory.full", test_full},
        {"domain.directory.stale-look", test_stale_look},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
