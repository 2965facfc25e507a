/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Asking about a domain takes no lock. */
#include "domain/domain.h"
#include "lib/tap.h"
#include "machine.h"
#include "sync/lock.h"

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
    TAP_EQ(count, 1);
    TAP_OK(teardown.phase <= HV_TEARDOWN_LEAVING);
    TAP_EQ(rc, 0);
    machine_unmake(&machine);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"dom.info-lockfree", test_lockfree},
        {"dom.info-lockfree-dying", test_lockfree_dying},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
