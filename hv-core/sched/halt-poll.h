/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How long a pCPU waits on its feet for a vCPU that has halted. To sleep and be woken costs some
 * 30 us; to poll costs the CPU. So who was woken soon after its last halt is polled for at the next,
 * twice as long each time until that is enough; who slept for longer than any poll is not.
 *
 * Source: Linux's kvm halt_poll_ns, its growth and its shrinking, with a lower ceiling: here the
 * host's CPU is a desktop's.
 */
#pragma once

#include <hv/types.h>

#define HV_HALT_POLL_START_NS (10 * HV_NS_PER_US)
#define HV_HALT_POLL_MAX_NS   (200 * HV_NS_PER_US)

/** How long the next halt is polled, when the last was for @poll_ns and the wake came after
 *  @blocked_ns in all. */
static inline uint64_t hv_halt_poll_next(uint64_t poll_ns, uint64_t blocked_ns)
{
    uint64_t more = poll_ns ? 2 * poll_ns : HV_HALT_POLL_START_NS;

    if (blocked_ns > HV_HALT_POLL_MAX_NS) {
        return 0;
    }
    if (blocked_ns <= poll_ns) {
        return poll_ns;
    }
    return more < HV_HALT_POLL_MAX_NS ? more : HV_HALT_POLL_MAX_NS;
}
