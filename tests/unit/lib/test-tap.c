/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The harness itself: a child that lives is a failure, the random sequence is repeatable. */
#include "lib/tap.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static void die_saying_why(void)
{
    fputs("reason: tested\n", stderr);
    abort();
}

static void test_dies(void)
{
    TAP_DIES(die_saying_why, SIGABRT, "reason: tested");
}

static void test_rng_moves(void)
{
    uint64_t first = tap_rng();

    TAP_OK(first != tap_rng());
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"tap.dies", test_dies},
        {"tap.rng", test_rng_moves},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
