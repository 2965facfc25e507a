/* SPDX-License-Identifier: GPL-3.0-or-later */
/* futex(2): see futex.h. */
#include "sync/futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"

void hv_futex_wait(_Atomic uint32_t *word, uint32_t expected, hv_ns deadline)
{
    const struct timespec until = {
        .tv_sec = (time_t)(deadline.v / HV_NS_PER_S),
        .tv_nsec = (long)(deadline.v % HV_NS_PER_S),
    };
    long result;

    /* The bitset form is the one whose timeout is a moment on CLOCK_MONOTONIC, not a span. */
    result = syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, expected,
                     deadline.v == HV_NS_NEVER.v ? NULL : &until, NULL, FUTEX_BITSET_MATCH_ANY);
    HV_BUG_ON(result < 0 && errno != EAGAIN && errno != EINTR && errno != ETIMEDOUT);
}

void hv_futex_wake(_Atomic uint32_t *word, uint32_t count)
{
    /* EFAULT is a word that was unmapped after its last waiter had gone: nobody to wake. */
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}
