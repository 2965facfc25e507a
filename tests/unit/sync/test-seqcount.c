/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sync/seqcount: single-threaded protocol; the concurrent half is tests/litmus/test-seqcount.c. */
#include "sync/seqcount.h"

#include <signal.h>

#include "lib/tap.h"

static struct hv_seqcount count;

static void test_quiet(void)
{
    uint32_t begun = hv_seqcount_read_begin(&count);

    TAP_OK(!hv_seqcount_read_retry(&count, begun));
}

static void test_written_between(void)
{
    uint32_t begun = hv_seqcount_read_begin(&count);

    hv_seqcount_write_begin(&count);
    TAP_OK(hv_seqcount_read_retry(&count, begun));
    hv_seqcount_write_end(&count);
    TAP_OK(hv_seqcount_read_retry(&count, begun));
    begun = hv_seqcount_read_begin(&count);
    TAP_OK(!hv_seqcount_read_retry(&count, begun));
}

static void test_wraps(void)
{
    struct hv_seqcount last = {UINT32_MAX - 1};
    uint32_t begun = hv_seqcount_read_begin(&last);

    hv_seqcount_write_begin(&last);
    hv_seqcount_write_end(&last);
    TAP_EQ(last.sequence, 0);
    TAP_OK(hv_seqcount_read_retry(&last, begun));
}

static void begin_twice(void)
{
    hv_seqcount_write_begin(&count);
    hv_seqcount_write_begin(&count);
}

static void test_two_writers(void)
{
    if (!HV_CONFIG_ASSERT) {
        tap_skip("Assertions are not compiled in.");
        return;
    }
    TAP_DIES(begin_twice, SIGABRT, "seqcount.h");
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"sync.seqcount.quiet", test_quiet},
        {"sync.seqcount.written-between", test_written_between},
        {"sync.seqcount.wraps", test_wraps},
        {"sync.seqcount.two-writers", test_two_writers},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
