/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * sched/deadline: no deadline is overslept. One slot is set again the moment it was rung, while the
 * thread is still on its way over many other slots: the new deadline must not fall between its look
 * and its sleep. Nobody else sets anything, so what is lost stays lost.
 */
#include "sched/deadline.h"

#include "lib/threads.h"

#define SLOTS 200u

static struct hv_clock host;
static struct hv_doorbell bell;

static bool await_ring(void)
{
    uint64_t patience = threads_patience();

    while (hv_load_seq(&bell.requests) == 0) {
        for (unsigned i = 0; i < 100 && hv_load_relaxed(&bell.requests) == 0; i++) {
            __builtin_ia32_pause();
        }
        if (hv_load_relaxed(&bell.requests) == 0 && !threads_patient(patience)) {
            return false;
        }
    }
    return true;
}

static void test_reset(void)
{
    struct hv_deadline *deadline;

    hv_clock_init_host(&host);
    hv_doorbell_init(&bell);
    TAP_EQ(hv_deadline_create(SLOTS, &host, &deadline), 0);
    for (unsigned i = threads_rounds(1000); i > 0; i--) {
        /* Mostly farther off than a wake takes, so that the thread has gone to sleep for it. */
        hv_ns soon = hv_ns_add(hv_clock_host_now(), tap_rng() % (200 * HV_NS_PER_US));

        hv_deadline_set(deadline, 0, &bell, soon);
        TAP_OK(await_ring());
        (void)hv_doorbell_take(&bell);
    }
    hv_deadline_destroy(deadline);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {{"litmus.deadline.reset", test_reset}};

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
