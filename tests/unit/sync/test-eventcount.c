/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The event count: no wake is lost between the look at the condition and the sleep. */
#include "sync/eventcount.h"

#include "base/clock.h"
#include "lib/threads.h"

static struct hv_eventcount event;
static _Atomic uint32_t turn;

/* Two threads hand a turn back and forth: a lost wake hangs. */
static void turn_body(unsigned index, void *context)
{
    unsigned rounds = *(unsigned *)context;

    for (unsigned i = 0; i < rounds; i++) {
        for (;;) {
            uint32_t ticket = hv_eventcount_listen(&event);

            if (hv_load_seq(&turn) == 2 * i + index) {
                hv_eventcount_cancel(&event);
                break;
            }
            hv_eventcount_wait(&event, ticket, HV_NS_NEVER);
        }
        hv_store_seq(&turn, 2 * i + index + 1);
        hv_eventcount_signal(&event);
    }
}

static void test_turns(void)
{
    unsigned rounds = threads_rounds(2000);

    hv_eventcount_init(&event);
    hv_store_seq(&turn, 0);
    threads_run(2, turn_body, &rounds);
    TAP_EQ(hv_load_seq(&turn), 2 * rounds);
    TAP_EQ(hv_load_seq(&event.waiters), 0);
}

static void test_unheard(void)
{
    uint32_t ticket;

    hv_eventcount_init(&event);
    hv_eventcount_signal(&event);
    TAP_EQ(hv_load_seq(&event.sequence), 0);
    /* A signal after the ticket ends the wait before it begins; so does a deadline that has passed. */
    ticket = hv_eventcount_listen(&event);
    hv_eventcount_signal(&event);
    hv_eventcount_wait(&event, ticket, HV_NS_NEVER);
    ticket = hv_eventcount_listen(&event);
    hv_eventcount_wait(&event, ticket, hv_clock_host_now());
    TAP_EQ(hv_load_seq(&event.waiters), 0);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"sync.eventcount.turns", test_turns},
        {"sync.eventcount.unheard", test_unheard},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
