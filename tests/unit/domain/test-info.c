/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Asking about a domain takes no lock. */
#include "domain/domain.h"
#include "lib/threads.h"
#include "machine.h"
#include "sync/lock-registry.h"
#include "sync/lock.h"
#include "sync/race.h"

#include <errno.h>
#include <hv/teardown.h>
#include <signal.h>

static struct machine machine;
static struct hv_lock innermost;

/* Whoever takes any lock from here on aborts, naming it: none stands behind this one. */
static HV_NO_TSA void forbid_locks(void)
{
    hv_lock_init(&innermost, (enum hv_rank)UINT16_MAX, "innermost", 0);
    hv_lock_take(&innermost);
}

static HV_NO_TSA void allow_locks(void)
{
    hv_lock_drop(&innermost);
    hv_lock_finish(&innermost);
}

static void take_one(void)
{
    int rc;

    forbid_locks();
    rc = hv_domain_pause(machine.domain);
    (void)rc;
}

static const uint8_t spin[] = {0xeb, 0xfe};

static void test_lockfree(void)
{
    static struct hv_stat stats[512];
    struct hv_platform_layout layout;
    struct hv_teardown_info teardown;
    struct hv_domain *same = NULL;
    struct hv_domain_status status;
    size_t count;
    int rc;

    if (!HV_CONFIG_RANKS) {
        tap_skip("This build does not check lock ranks.");
        return;
    }
    TAP_OK(machine_make(&machine, 2));
    TAP_DIES(take_one, SIGABRT, "domain.lifecycle");
    TAP_OK(machine_load(&machine, spin, sizeof(spin)));
    TAP_EQ(hv_domain_unpause(machine.domain), 0);
    forbid_locks();
    hv_domain_get_status(machine.domain, &status);
    count = hv_domain_get_stats(machine.domain, stats, HV_ARRAY_LEN(stats));
    hv_domain_get_layout(machine.domain, &layout);
    hv_domain_get_teardown(machine.domain, &teardown);
    rc = hv_domain_get(machine.core, hv_domain_handle(machine.domain), &same);
    hv_domain_put(same);
    allow_locks();
    TAP_EQ(status.state, HV_DOMAIN_STATE_RUNNING);
    TAP_OK(count > 20);
    TAP_EQ(layout.vcpus, 2);
    TAP_EQ(teardown.phase, HV_TEARDOWN_NONE);
    TAP_EQ(rc, 0);
    TAP_OK(same == machine.domain);
    machine_unmake(&machine);
}

/* Nor when it is dying: the watcher must not become the reaper's load. */
static void test_lockfree_dying(void)
{
    struct hv_teardown_info teardown;
    struct hv_domain_status status;
    struct hv_domain *same = NULL;
    struct hv_stat stats[4];
    size_t count;
    int rc;

    if (!HV_CONFIG_RANKS) {
        tap_skip("This build does not check lock ranks.");
        return;
    }
    TAP_OK(machine_make(&machine, 2));
    TAP_OK(machine_load(&machine, spin, sizeof(spin)));
    TAP_EQ(hv_domain_unpause(machine.domain), 0);
    TAP_EQ(hv_domain_enter(machine.domain), 0);
    TAP_EQ(hv_domain_kill(machine.domain), 0);
    forbid_locks();
    hv_domain_get_status(machine.domain, &status);
    count = hv_domain_get_stats(machine.domain, stats, HV_ARRAY_LEN(stats));
    hv_domain_get_teardown(machine.domain, &teardown);
    rc = hv_domain_get(machine.core, hv_domain_handle(machine.domain), &same);
    hv_domain_put(same);
    allow_locks();
    hv_domain_leave(machine.domain);
    TAP_EQ(status.state, HV_DOMAIN_STATE_DYING);
    TAP_EQ(count, 3); /* its state, and that nobody holds pages of it */
    TAP_OK(teardown.phase <= HV_TEARDOWN_LEAVING);
    TAP_EQ(rc, 0);
    machine_unmake(&machine);
}

static struct {
    struct hv_core *core;
    hv_handle handle;
    _Atomic int rc;
    _Atomic uint32_t done;
} look;

static void look_as_1(unsigned index, void *context)
{
    struct hv_domain *found;
    int rc;

    (void)index;
    (void)context;
    hv_race_name_thread(1);
    forbid_locks();
    rc = hv_domain_get(look.core, look.handle, &found);
    allow_locks();
    hv_store_seq(&look.rc, rc);
    hv_store_seq(&look.done, 1);
}

/* Nor when the look-up finds one that is gone meanwhile, and is the last who holds it. What is left to
 * do then waits for who walks the lists of locks; the look-up does not. */
static void test_lockfree_gone(void)
{
    struct hv_lock_walk walk;
    struct threads reader;

    if (!HV_CONFIG_RANKS || !HV_CONFIG_RACE_POINTS) {
        tap_skip("This build checks no lock ranks, or has no race points.");
        return;
    }
    TAP_OK(machine_make(&machine, 1));
    look.core = machine.core;
    look.handle = hv_domain_handle(machine.domain);
    hv_store_seq(&look.done, 0);
    hv_race_begin();
    hv_race_stop(1, "domain.get.held", 0);
    threads_start(&reader, 1, look_as_1, NULL);
    TAP_OK(hv_race_await(1, "domain.get.held"));
    hv_domain_destroy(machine.domain);
    machine.domain = NULL;
    hv_lock_walk_begin(&walk);
    hv_race_end();
    TAP_AWAIT(hv_load_seq(&look.done));
    hv_lock_walk_end(&walk);
    threads_join(&reader);
    TAP_EQ(look.rc, (uint64_t)-ENOENT);
    machine_unmake(&machine);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"dom.info-lockfree", test_lockfree},
        {"dom.info-lockfree-dying", test_lockfree_dying},
        {"dom.info-lockfree-gone", test_lockfree_gone},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
