/* SPDX-License-Identifier: GPL-3.0-or-later */
/* base/assert: what fails dies by abort and says where; what holds goes on. */
#include "base/assert.h"

#include <signal.h>

#include "lib/tap.h"

static void bug(void)
{
    HV_BUG_ON(1 + 1 == 2);
}

static void broken_assertion(void)
{
    HV_ASSERT(1 + 1 == 3);
}

static void panic(void)
{
    hv_panic("lock \"%s\"[%d] is lost", "heap.shard", 7);
}

static void long_panic(void)
{
    hv_panic("%01000d", 5);
}

static void test_holds(void)
{
    HV_BUG_ON(1 + 1 == 3);
    HV_ASSERT(1 + 1 == 2);
    TAP_OK(true);
}

static void test_bug(void)
{
    TAP_DIES(bug, SIGABRT, "BUG: 1 + 1 == 2");
    TAP_DIES(bug, SIGABRT, "test-assert.c:");
}

static void test_assertion(void)
{
    if (!HV_CONFIG_ASSERT) {
        tap_skip("Assertions are not compiled in.");
        return;
    }
    TAP_DIES(broken_assertion, SIGABRT, "1 + 1 == 3");
}

static void test_panic(void)
{
    TAP_DIES(panic, SIGABRT, "lock \"heap.shard\"[7] is lost\n");
    TAP_DIES(long_panic, SIGABRT, "0000000000\n");
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"base.assert.holds", test_holds},
        {"base.assert.bug", test_bug},
        {"base.assert.assertion", test_assertion},
        {"base.assert.panic", test_panic},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
