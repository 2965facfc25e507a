/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The Dekker pairs of sync/doorbell.h, shot by shot: two threads run over one array of bells, one
 * as their owner, one as ringer, and each notes what it saw. A forbidden pair of notes in any shot
 * fails.
 */
#include "sync/doorbell.h"

#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "lib/threads.h"

#define SHOTS 4096

static struct hv_doorbell bells[SHOTS];
static struct {
    uint32_t owner_saw, ringer_saw;
} notes[SHOTS];

static void reset(void)
{
    for (unsigned i = 0; i < SHOTS; i++) {
        hv_doorbell_init(&bells[i]);
    }
    memset(notes, 0, sizeof(notes));
}

/*
 * Both threads wait for each other before each shot, so that the shots overlap; but not for long:
 * the other may have lost its CPU.
 */
static _Atomic uint32_t progress[2];

static void meet(unsigned index, unsigned shot)
{
    hv_store_relaxed(&progress[index], shot);
    for (unsigned i = 0; hv_load_relaxed(&progress[1 - index]) < shot; i++) {
        if (i == 500) {
            sched_yield();
            break;
        }
        __builtin_ia32_pause();
    }
    /* A few steps more for one or the other, so that all offsets come up. */
    for (_Atomic unsigned i = 0; i < (shot >> (index * 3)) % 8; i++) {
    }
}

static void enter_or_ring(unsigned index, void *context)
{
    (void)context;
    for (unsigned shot = 0; shot < SHOTS; shot++) {
        meet(index, shot);
        if (index == 0) {
            notes[shot].owner_saw = hv_doorbell_enter(&bells[shot]);
        } else {
            hv_doorbell_ring(&bells[shot], HV_REQUEST_FLUSH);
            notes[shot].ringer_saw = hv_doorbell_in_guest(&bells[shot]);
        }
    }
}

/* Never: in the guest with the request unseen, and the ringer believing it outside. */
static void test_entry(void)
{
    unsigned met = 0;

    for (unsigned round = threads_rounds(10); round > 0; round--) {
        reset();
        progress[0] = progress[1] = 0;
        threads_run(2, enter_or_ring, NULL);
        for (unsigned shot = 0; shot < SHOTS; shot++) {
            TAP_OK(notes[shot].owner_saw != 0 || notes[shot].ringer_saw != 0);
            met += notes[shot].owner_saw != 0 && notes[shot].ringer_saw != 0;
        }
    }
    tap_note("both saw the other in %u shots", met);
}

/*
 * The same over time on one bell: whenever the ringer saw OUTSIDE after request n, the owner has
 * served n before it is in the guest again.
 */
static struct {
    struct hv_doorbell bell;
    _Atomic uint32_t posted, promised, stop;
    uint32_t broken, entered;
} stream;

static void stream_owner(void)
{
    uint32_t served = 0;

    while (!hv_load_seq(&stream.stop)) {
        if (hv_doorbell_enter(&stream.bell) == 0) {
            stream.entered++;
            stream.broken += served < hv_load_seq(&stream.promised);
            hv_doorbell_leave(&stream.bell);
        }
        if (hv_doorbell_take(&stream.bell) != 0) {
            served = hv_load_seq(&stream.posted);
        }
    }
}

static void stream_ringer(void)
{
    for (uint32_t n = 1; n <= threads_rounds(100000); n++) {
        hv_store_seq(&stream.posted, n);
        hv_doorbell_ring(&stream.bell, HV_REQUEST_FLUSH);
        if (!hv_doorbell_in_guest(&stream.bell)) {
            hv_store_seq(&stream.promised, n);
        }
    }
    hv_store_seq(&stream.stop, 1);
}

static void stream_side(unsigned index, void *context)
{
    (void)context;
    if (index == 0) {
        stream_owner();
    } else {
        stream_ringer();
    }
}

static void test_stream(void)
{
    memset(&stream, 0, sizeof(stream));
    hv_doorbell_init(&stream.bell);
    threads_run(2, stream_side, NULL);
    tap_note("%u entries", stream.entered);
    TAP_EQ(stream.broken, 0);
}

/* Two who wake each other in turn: a lost wake ends in the ten seconds' deadline. */
static struct {
    struct hv_doorbell bells[2];
    _Atomic uint32_t lost;
} pong;

static void play_pong(unsigned index, void *context)
{
    unsigned rounds = *(unsigned *)context;

    for (unsigned i = 0; i < rounds; i++) {
        hv_ns deadline = hv_ns_add(hv_clock_host_now(), 10 * HV_NS_PER_S);

        if (index == 1 || i > 0) {
            if (hv_doorbell_sleep(&pong.bells[index], deadline) == 0) {
                hv_add_seq(&pong.lost, 1);
                return;
            }
            (void)hv_doorbell_take(&pong.bells[index]);
        }
        hv_doorbell_ring(&pong.bells[1 - index], HV_REQUEST_EVENT);
    }
}

static void test_wake(void)
{
    unsigned rounds = threads_rounds(5000);

    pong.lost = 0;
    hv_doorbell_init(&pong.bells[0]);
    hv_doorbell_init(&pong.bells[1]);
    threads_run(2, play_pong, &rounds);
    TAP_EQ(pong.lost, 0);
}

/*
 * A flush as the memory side does it: ring, then wait until served or outside. It must end (a lost
 * wake hangs), and once it has, no successful entry may come before the request is served. (To see
 * IN_GUEST is no proof: an entry that is about to be refused shows it for a moment, too.)
 */
static struct {
    struct hv_doorbell bell;
    _Atomic uint32_t posted, promised, served, stop;
    uint32_t broken;
} flush;

static void flush_owner(void)
{
    while (!hv_load_seq(&flush.stop)) {
        if (hv_doorbell_enter(&flush.bell) == 0) {
            flush.broken += hv_load_seq(&flush.served) < hv_load_seq(&flush.promised);
            while (!hv_load_relaxed(&flush.bell.exit_request) && !hv_load_relaxed(&flush.stop)) {
                threads_patient(0);
            }
            hv_doorbell_leave(&flush.bell);
        }
        if (hv_doorbell_take(&flush.bell) != 0) {
            hv_store_seq(&flush.served, hv_load_seq(&flush.posted));
            hv_doorbell_acknowledge(&flush.bell);
        }
    }
}

static void flush_asker(void)
{
    for (uint32_t n = 1; n <= threads_rounds(2000); n++) {
        hv_store_seq(&flush.posted, n);
        hv_doorbell_ring(&flush.bell, HV_REQUEST_FLUSH);
        for (;;) {
            uint32_t since = hv_doorbell_acknowledged(&flush.bell);

            if (hv_load_seq(&flush.served) >= n || !hv_doorbell_in_guest(&flush.bell)) {
                break;
            }
            hv_doorbell_wait(&flush.bell, since);
        }
        hv_store_seq(&flush.promised, n);
    }
    hv_store_seq(&flush.stop, 1);
}

static void flush_side(unsigned index, void *context)
{
    (void)context;
    if (index == 0) {
        flush_owner();
    } else {
        flush_asker();
    }
}

static void test_flush(void)
{
    memset(&flush, 0, sizeof(flush));
    hv_doorbell_init(&flush.bell);
    threads_run(2, flush_side, NULL);
    TAP_EQ(flush.broken, 0);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"litmus.doorbell.entry", test_entry},
        {"litmus.doorbell.stream", test_stream},
        {"litmus.doorbell.wake", test_wake},
        {"litmus.doorbell.flush", test_flush},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
