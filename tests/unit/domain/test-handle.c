/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Handles of domains that come and go while others look them up, copy their memory and map their
 * pages. What another project would ask of RCU: here a look-up takes a reference.
 */
#include "domain/core.h"
#include "domain/domain.h"
#include "lib/threads.h"
#include "machine.h"
#include "mem/dirty.h"
#include "mem/foreign.h"

#include <errno.h>
#include <sched.h>

#define DOMAIN_BYTES (4 * HV_MIB)

static struct hv_core *core;

static bool open_core(uint64_t bytes)
{
    const struct hv_core_config config = {.workers = 1, .reapers = 2, .memory_bytes = bytes};

    return hv_core_create(&config, &core) == 0;
}

static struct hv_domain *make(void)
{
    const struct hv_domain_config config = {
        .name = "test", .engine = "soft", .memory_bytes = DOMAIN_BYTES, .vcpus = 1};
    struct hv_domain *domain = NULL;
    char why[128];

    return hv_domain_create(core, &config, &domain, why, sizeof(why)) == 0 ? domain : NULL;
}

static int find(hv_handle handle)
{
    struct hv_domain *domain;
    int rc = hv_domain_get(core, handle, &domain);

    hv_domain_put(domain);
    return rc;
}

/* The id comes again and is another's; the old name finds nobody. */
static void test_generation(void)
{
    struct hv_domain *domain;
    hv_handle first, second;

    TAP_OK(open_core(8 * HV_MIB));
    domain = make();
    TAP_OK(domain);
    first = hv_domain_handle(domain);
    TAP_EQ(find(first), 0);
    hv_domain_destroy(domain);
    TAP_EQ(find(first), (uint64_t)-ENOENT);
    TAP_AWAIT(hv_load_seq(&core->directory.count) == 0);
    hv_store_relaxed(&core->directory.next, hv_handle_id(first) - 1u);
    domain = make();
    TAP_OK(domain);
    second = hv_domain_handle(domain);
    TAP_EQ(hv_handle_id(second), hv_handle_id(first));
    TAP_EQ(find(first), (uint64_t)-ENOENT);
    TAP_EQ(find(second), 0);
    TAP_EQ(find(HV_HANDLE_NONE), (uint64_t)-ENOENT);
    TAP_EQ(find((hv_handle){UINT64_MAX}), (uint64_t)-ENOENT);
    hv_domain_destroy(domain);
    hv_core_destroy(core);
}

/* Nobody need keep the pointer: a domain lives without, and is killed by name. */
static void test_by_name(void)
{
    struct hv_domain *domain;
    hv_handle handle;

    TAP_OK(open_core(8 * HV_MIB));
    domain = make();
    TAP_OK(domain);
    handle = hv_domain_handle(domain);
    hv_domain_put(domain);
    TAP_EQ(hv_domain_get(core, handle, &domain), 0);
    TAP_EQ(hv_domain_kill(domain), 0);
    hv_domain_put(domain);
    hv_core_destroy(core); /* waits for its end */
}

/* No generation is left: no domain, and nothing of it stays. */
static void test_no_name(void)
{
    TAP_OK(open_core(8 * HV_MIB));
    hv_store_relaxed(&core->directory.generation, HV_DIRECTORY_GENERATION_MAX);
    TAP_OK(!make());
    TAP_AWAIT(machine_frames_in_use(core) == 0);
    TAP_EQ(core->directory.count, 0);
    hv_core_destroy(core);
}

static _Atomic uint64_t published; /* the handle of the domain of the round */
static _Atomic uint32_t over, found, strange;

static void look(hv_handle handle)
{
    struct hv_teardown_info teardown;
    struct hv_domain_status status;
    static _Thread_local struct hv_stat stats[64];
    struct hv_domain *domain;
    uint64_t word = 0;
    int rc = hv_domain_get(core, handle, &domain);

    if (rc < 0) {
        hv_add_relaxed(&strange, rc != -ENOENT);
        return;
    }
    hv_add_relaxed(&found, 1);
    hv_add_relaxed(&strange, hv_domain_handle(domain).v != handle.v);
    hv_domain_get_status(domain, &status);
    hv_domain_get_teardown(domain, &teardown);
    hv_add_relaxed(&strange, hv_domain_get_stats(domain, stats, HV_ARRAY_LEN(stats)) == 0);
    rc = hv_guest_copy(domain, (hv_gpa){HV_EXTENT_SIZE}, &word, 8, HV_COPY_TO_GUEST);
    hv_add_relaxed(&strange, rc != 0 && rc != -ECANCELED);
    hv_domain_crash(domain, hv_domain_life(domain), "looked at");
    hv_domain_put(domain);
}

/* One of those that the core lists, or none. */
static hv_handle listed(void)
{
    hv_handle handles[8] = {HV_HANDLE_NONE};
    size_t count = hv_core_list(core, handles, HV_ARRAY_LEN(handles));

    /* The one of the round, and those of earlier ones that somebody holds still. */
    hv_add_relaxed(&strange, count > HV_ARRAY_LEN(handles));
    return handles[count > 1 ? count - 1 : 0];
}

static void look_or_make(unsigned index, void *context)
{
    unsigned rounds = *(unsigned *)context;

    if (index > 0) {
        while (!hv_load_seq(&over)) {
            look(index > 1 ? listed() : (hv_handle){hv_load_seq(&published)});
        }
        return;
    }
    for (unsigned i = 0; i < rounds; i++) {
        struct hv_domain *domain = make();
        uint32_t seen = hv_load_relaxed(&found);

        if (!domain) {
            hv_add_relaxed(&strange, 1);
            break;
        }
        hv_store_seq(&published, hv_domain_handle(domain).v);
        /* Now and then at once; else when somebody has found it. */
        while (i % 4 != 0 && hv_load_relaxed(&found) == seen) {
            sched_yield();
        }
        hv_domain_destroy(domain);
    }
    hv_store_seq(&over, 1);
}

static void test_lookup_vs_destroy(void)
{
    unsigned rounds = threads_rounds(60);
    TAP_OK(open_core(4 * DOMAIN_BYTES));
    hv_store_relaxed(&over, 0);
    threads_run(3, look_or_make, &rounds);
    TAP_EQ(strange, 0);
    tap_note("found %" PRIu32 " times", hv_load_relaxed(&found));
    TAP_AWAIT(hv_load_seq(&core->directory.count) == 0);
    TAP_AWAIT(machine_frames_in_use(core) == 0);
    hv_core_destroy(core);
}

static _Atomic uint32_t mapped;

/* What a migration does, round by round, until it is told that the domain is going away. */
static int migrate_round(struct hv_domain *domain, struct hv_mapper *mapper)
{
    struct hv_foreign *foreign = NULL;
    uint64_t cursor = 0;
    hv_gfn gfns[8];
    int rc = hv_domain_enter(domain);

    if (rc < 0) {
        return rc;
    }
    rc = hv_dirty_start(&domain->memory);
    rc = rc == -EEXIST ? 0 : rc;
    if (rc == 0) {
        rc = hv_dirty_round(&domain->memory);
    }
    if (rc == 0) {
        (void)hv_dirty_harvest(&domain->memory, &cursor, gfns, HV_ARRAY_LEN(gfns));
        rc = hv_foreign_grant(mapper, &domain->memory, HV_FOREIGN_READ);
    }
    if (rc == 0) {
        rc = hv_foreign_map(mapper, &domain->memory, (hv_gfn){HV_EXTENT_FRAMES}, 4, HV_FOREIGN_READ,
                            &foreign);
    }
    hv_domain_leave(domain);
    /* The copy goes on when the domain is dead already: it holds what it copies. */
    if (foreign) {
        uint64_t word;

        hv_mapper_enter(mapper);
        word = hv_load_relaxed((_Atomic uint64_t *)hv_foreign_page(foreign, 3));
        hv_mapper_leave(mapper);
        hv_add_relaxed(&strange, word != 0);
        hv_add_relaxed(&mapped, 1);
    }
    hv_foreign_unmap(foreign);
    return rc;
}

static void migrate(unsigned index, void *context)
{
    const struct hv_mapper_config config = {.name = "migration"};
    struct hv_domain *domain = context;
    struct hv_mapper *mapper;
    int rc = hv_mapper_create(core->arena, &config, &mapper);

    (void)index;
    while (rc == 0) {
        rc = migrate_round(domain, mapper);
    }
    hv_add_relaxed(&strange, rc != -ECANCELED);
    hv_mapper_destroy(mapper);
    hv_domain_put(domain);
}

static void test_kill_during_migrate(void)
{
    struct threads worker;
    TAP_OK(open_core(4 * DOMAIN_BYTES));
    hv_store_relaxed(&strange, 0);
    for (unsigned i = 0; i < threads_rounds(20); i++) {
        struct hv_domain *domain = make();
        struct hv_domain *workers_own;

        TAP_OK(domain);
        TAP_EQ(hv_domain_get(core, hv_domain_handle(domain), &workers_own), 0);
        hv_store_relaxed(&mapped, 0);
        threads_start(&worker, 1, migrate, workers_own);
        TAP_AWAIT(hv_load_relaxed(&mapped) > 2 * (i % 3));
        hv_domain_destroy(domain);
        threads_join(&worker);
    }
    TAP_EQ(strange, 0);
    TAP_AWAIT(hv_load_seq(&core->directory.count) == 0);
    TAP_AWAIT(machine_frames_in_use(core) == 0);
    hv_core_destroy(core);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"dom.handle-gen", test_generation},
        {"domain.handle.by-name", test_by_name},
        {"domain.handle.no-name", test_no_name},
        {"dom.rcu", test_lookup_vs_destroy},
        {"dom.kill-during-migrate", test_kill_during_migrate},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
