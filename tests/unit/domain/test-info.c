/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Asking about a domain takes no lock. */
#include "lib/tap.h"
#include "machine.h"
#include "sync/lock.h"

#include <signal.h>

static struct machine machine;
static struct hv_lock innermost;

/* Whoever takes any lock from here on aborts, naming it: none stands behind this one. */
static void forbid_locks(void)
{
    hv_lock_init(&innermost, (enum hv_rank)UINT16_MAX, "innermost", 0);
    hv_lock_take(&innermost);
}

static void allow_locks(void)
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

static void test_lockfree(void)
{
    static const uint8_t spin[] = {0xeb, 0xfe};
    static struct hv_stat stats[512];
    struct hv_platform_layout layout;
    struct hv_domain_status status;
    size_t count;

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
    allow_locks();
    TAP_EQ(status.state, HV_DOMAIN_STATE_RUNNING);
    TAP_OK(count > 20);
    TAP_EQ(layout.vcpus, 2);
    machine_unmake(&machine);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"dom.info-lockfree", test_lockfree},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
