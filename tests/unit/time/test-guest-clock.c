/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A machine's own time: over pauses, sleeps of the host, saves, and hosts whose clock goes back. */
#include "time/guest-clock.h"

#include "lib/threads.h"
#include "sync/race.h"

#define BEGIN   (500 * HV_NS_PER_S)
#define READERS 3u
#define HOUR    (3600 * HV_NS_PER_S)

static struct hv_clock host;
static struct hv_guest_clock guest;
static _Atomic unsigned moves;

static void moved(void *context)
{
    (void)context;
    hv_add_relaxed(&moves, 1);
}

static void make_on(const struct hv_clock *clock, enum hv_clock_policy policy)
{
    const struct hv_guest_clock_config config = {
        .host = clock, .policy = policy, .start_ns = 7, .moved = moved};

    hv_guest_clock_finish(&guest);
    hv_clock_init_simulated(&host, (hv_ns){BEGIN});
    hv_guest_clock_init(&guest, &config);
    moves = 0;
}

static void make(enum hv_clock_policy policy)
{
    make_on(&host, policy);
}

/* As a machine's owner does; whether the host had slept. */
static bool follow(void)
{
    bool slept = hv_guest_clock_unaware(&guest);

    if (slept) {
        hv_guest_clock_freeze(&guest);
        hv_guest_clock_thaw(&guest);
    }
    return slept;
}

static uint64_t now(void)
{
    return hv_clock_now(&guest.clock).v;
}

static void test_follows(void)
{
    make(HV_CLOCK_ADVANCE);
    TAP_EQ(now(), 7);
    hv_clock_advance(&host, 1);
    TAP_EQ(now(), 8);
    hv_clock_advance(&host, HOUR);
    TAP_EQ(now(), HOUR + 8);
    TAP_EQ(hv_clock_wall_ns(&guest.clock), hv_clock_wall_ns(&host));
    TAP_EQ(moves, 0);
}

/* Where timers are to be set: the same span from now on both clocks, as far as numbers go. */
static void test_moments(void)
{
    make(HV_CLOCK_ADVANCE);
    hv_clock_advance(&host, 1000);
    TAP_EQ(hv_clock_source_moment(&guest.clock, (hv_ns){now() + 5}).v, hv_clock_now(&host).v + 5);
    TAP_EQ(hv_clock_source_moment(&guest.clock, (hv_ns){now() - 5}).v, hv_clock_now(&host).v - 5);
    TAP_EQ(hv_clock_source_moment(&guest.clock, (hv_ns){0}).v, BEGIN - 7);
    TAP_EQ(hv_clock_source_moment(&guest.clock, HV_NS_NEVER).v, HV_NS_NEVER.v);
    TAP_EQ(hv_clock_source_moment(&guest.clock, (hv_ns){UINT64_MAX - 1}).v, HV_NS_NEVER.v);
    TAP_EQ(hv_clock_source_moment(&host, (hv_ns){5}).v, 5);
    /* It is older than its host: its beginning was before the host's. */
    for (unsigned i = 0; i < 2; i++) {
        hv_clock_sleep(&host, BEGIN);
        TAP_OK(follow());
    }
    TAP_EQ(hv_clock_source_moment(&guest.clock, (hv_ns){0}).v, 0);
    TAP_EQ(hv_clock_source_moment(&guest.clock, HV_NS_NEVER).v, HV_NS_NEVER.v);
    TAP_EQ(hv_clock_source_moment(&guest.clock, (hv_ns){now() + 5}).v, hv_clock_now(&host).v + 5);
}

/* Pause for 10 s, of which the host sleeps 4: wishes.md, row 32 of the small tests. */
static void stop_for_ten(void)
{
    uint64_t before = now();

    hv_guest_clock_freeze(&guest);
    hv_clock_advance(&host, 3 * HV_NS_PER_S);
    hv_guest_clock_freeze(&guest); /* it stands already */
    TAP_EQ(now(), before);
    hv_clock_sleep(&host, 4 * HV_NS_PER_S);
    hv_clock_advance(&host, 3 * HV_NS_PER_S);
    TAP_EQ(now(), before);
    hv_guest_clock_thaw(&guest);
    hv_guest_clock_thaw(&guest);
    TAP_OK(!follow()); /* the sleep is not counted twice */
    TAP_EQ(guest.counters.stopped_ns, 10 * HV_NS_PER_S);
    TAP_EQ(guest.counters.stops, 1);
    TAP_EQ(guest.counters.suspends, 0);
}

static void test_freeze(void)
{
    make(HV_CLOCK_FREEZE);
    hv_clock_advance(&host, 100);
    stop_for_ten();
    TAP_EQ(now(), 107);
    TAP_EQ(guest.counters.withheld_ns, 10 * HV_NS_PER_S);
    hv_clock_advance(&host, 100);
    TAP_EQ(now(), 207);
}

static void test_advance(void)
{
    make(HV_CLOCK_ADVANCE);
    hv_clock_advance(&host, 100);
    stop_for_ten();
    TAP_EQ(now(), 107 + 10 * HV_NS_PER_S);
    TAP_EQ(guest.counters.withheld_ns, 0);
    hv_clock_advance(&host, 100);
    TAP_EQ(now(), 207 + 10 * HV_NS_PER_S);
}

/* The host sleeps under a machine that runs; and then it is paused before anybody noticed. */
static void test_suspend(void)
{
    for (unsigned policy = HV_CLOCK_ADVANCE; policy <= HV_CLOCK_FREEZE; policy++) {
        uint64_t passes = policy == HV_CLOCK_ADVANCE ? HOUR : 0;

        make((enum hv_clock_policy)policy);
        TAP_OK(!follow());
        hv_clock_sleep(&host, HOUR);
        TAP_EQ(now(), 7);
        TAP_OK(follow());
        TAP_OK(!follow());
        TAP_EQ(now(), 7 + passes);
        /* What two readings of the host's clocks may differ by is no sleep. */
        hv_clock_sleep(&host, HV_GUEST_CLOCK_SLEEP_MIN_NS - 1);
        TAP_OK(!follow());
        hv_clock_sleep(&host, HOUR - HV_GUEST_CLOCK_SLEEP_MIN_NS + 1);
        hv_guest_clock_freeze(&guest);
        TAP_EQ(now(), 7 + 2 * passes);
        hv_guest_clock_thaw(&guest);
        TAP_EQ(now(), 7 + 2 * passes);
        TAP_EQ(guest.counters.suspends, 2);
        TAP_EQ(guest.counters.suspended_ns, 2 * HOUR);
        TAP_EQ(guest.counters.withheld_ns, 2 * (HOUR - passes));
        TAP_EQ(guest.counters.stopped_ns, 0);
    }
}

/* The host's clock, at the n-th look at which the host falls asleep for an hour; 0: it does not. */
static unsigned asleep_at;

static hv_ns read_drowsy(const struct hv_clock *clock)
{
    if (asleep_at > 0 && --asleep_at == 0) {
        hv_clock_sleep(&host, HOUR);
    }
    return hv_clock_now(clock->source);
}

/* At whichever look at its clock, amid a pause or the end of one: that time is counted, and once. */
static void test_suspend_amid_pause(void)
{
    static const struct hv_clock_ops ops = {.now = read_drowsy};
    struct hv_clock drowsy;

    hv_clock_init_derived(&drowsy, &host, &ops);
    for (unsigned at = 1; at <= 8; at++) {
        make_on(&drowsy, HV_CLOCK_ADVANCE);
        asleep_at = at;
        hv_guest_clock_freeze(&guest);
        hv_clock_advance(&host, 5);
        hv_guest_clock_thaw(&guest);
        while (asleep_at > 0) {
            (void)now();
        }
        (void)follow();
        TAP_EQ(now(), 7 + 5 + HOUR);
        TAP_EQ(guest.counters.suspended_ns + guest.counters.stopped_ns, 5 + HOUR);
        TAP_OK(!follow());
    }
}

/* wishes.md, row 35 of the small tests: 1 ns to 10 s. */
static void test_step_back(void)
{
    uint64_t most = 0;

    make(HV_CLOCK_ADVANCE);
    for (uint64_t step = 1, n = 1; step <= 10 * HV_NS_PER_S; step *= 10, n++) {
        uint64_t before = now();

        hv_clock_step_back(&host, step);
        TAP_EQ(now(), before);
        TAP_EQ(guest.counters.clamps, n);
        TAP_EQ(guest.counters.clamp_max_ns, step);
        TAP_EQ(moves, n); /* timers are set anew */
        TAP_EQ(hv_clock_source_moment(&guest.clock, (hv_ns){before + 3}).v,
               hv_clock_now(&host).v + 3);
        /* It does not stand until the host has caught up. */
        hv_clock_advance(&host, 3);
        TAP_EQ(now(), before + 3);
        most = step;
    }
    /* While it stands it looks at no host's clock. */
    hv_guest_clock_freeze(&guest);
    hv_clock_step_back(&host, 1000);
    TAP_EQ(hv_load_relaxed(&guest.last_ns), now());
    hv_guest_clock_thaw(&guest);
    TAP_EQ(hv_load_relaxed(&guest.last_ns), now());
    TAP_EQ(guest.counters.clamp_max_ns, most);
}

/* ---- threads ---- */

static struct {
    _Atomic uint64_t highest; /* of all readings that are complete */
    _Atomic uint32_t readers, back;
} shared;

static void read_often(void)
{
    for (unsigned i = 0; i < threads_rounds(100000); i++) {
        uint64_t before = hv_load_seq(&shared.highest);
        uint64_t got = now();

        hv_add_relaxed(&shared.back, got < before);
        while (before < got && !hv_cas_weak_seq(&shared.highest, &before, got)) {
        }
    }
    hv_sub_seq(&shared.readers, 1);
}

/* Everything that may happen to a clock; each of it once at least. */
static void disturb(void)
{
    uint64_t seed = tap_rng() | 1;

    for (uint64_t i = 0; i < 16 || hv_load_seq(&shared.readers) > 0; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1;
        hv_clock_advance(&host, seed >> 54);
        switch (i % 16) {
        case 3:
            /* By more than it has gone on since somebody read. */
            (void)now();
            hv_clock_step_back(&host, (seed >> 40 & 0xfffff) + 1);
            (void)now();
            break;
        case 7:
            hv_guest_clock_freeze(&guest);
            hv_clock_advance(&host, 1000);
            hv_guest_clock_thaw(&guest);
            break;
        case 11:
            hv_clock_sleep(&host, HV_GUEST_CLOCK_SLEEP_MIN_NS);
            (void)follow();
            break;
        default:
            break;
        }
    }
}

static void reader_or_host(unsigned index, void *context)
{
    (void)context;
    if (index == 0) {
        disturb();
    } else {
        read_often();
    }
}

static void test_monotonic(void)
{
    for (unsigned policy = HV_CLOCK_ADVANCE; policy <= HV_CLOCK_FREEZE; policy++) {
        make((enum hv_clock_policy)policy);
        shared.highest = 0;
        shared.back = 0;
        shared.readers = READERS;
        threads_run(READERS + 1, reader_or_host, NULL);
        tap_note("%" PRIu64 " clamps, %" PRIu64 " stops", guest.counters.clamps,
                 guest.counters.stops);
        TAP_EQ(shared.back, 0);
        TAP_OK(guest.counters.clamps > 0 && guest.counters.stops > 0 &&
               guest.counters.suspends > 0);
    }
}

static void read_once(unsigned index, void *context)
{
    (void)index;
    hv_race_name_thread(1);
    *(uint64_t *)context = now();
}

/*
 * Who has read and not yet published is overtaken by one who reads more; then the host's clock goes
 * back. A reading that is published without a look at what stands there would let the next go back.
 */
static void test_overtaken(void)
{
    struct threads slow;
    uint64_t got = 0;
    bool parked;

    make(HV_CLOCK_ADVANCE);
    hv_clock_advance(&host, 100);
    hv_race_begin();
    hv_race_stop(1, "guest-clock.publish", 0);
    threads_start(&slow, 1, read_once, &got);
    parked = hv_race_await(1, "guest-clock.publish");
    hv_clock_advance(&host, 100);
    TAP_EQ(now(), 207);
    hv_race_end();
    threads_join(&slow);
    TAP_OK(parked);
    TAP_EQ(got, 207); /* 107 would do as well */
    hv_clock_step_back(&host, 50);
    TAP_EQ(now(), 207);
}

/* ---- records ---- */

/* Saved while it stands or runs, restored on another host after a while: wishes.md, row 32. */
static void test_save_restore(void)
{
    for (unsigned i = 0; i < 1000; i++) {
        enum hv_clock_policy policy = i % 2 ? HV_CLOCK_ADVANCE : HV_CLOCK_FREEZE;
        bool frozen = tap_rng() % 2, freezes_after = tap_rng() % 2;
        uint64_t stood_ns = frozen ? tap_rng() % HOUR : 0, away_ns = tap_rng() % HOUR;
        uint64_t passes = policy == HV_CLOCK_ADVANCE ? stood_ns + away_ns : 0;
        struct hv_guest_clock_record record;
        uint64_t saved, wall;

        make(policy);
        hv_clock_advance(&host, tap_rng() % (1000 * HOUR));
        saved = now();
        if (frozen) {
            hv_guest_clock_freeze(&guest);
            hv_clock_advance(&host, stood_ns);
        }
        hv_guest_clock_save(&guest, &record);
        TAP_EQ(record.guest_ns, saved);
        TAP_OK(hv_guest_clock_check(&record) == NULL);
        wall = hv_clock_wall_ns(&host);
        make(policy);
        hv_clock_set_wall(&host, (int64_t)(wall + away_ns - hv_clock_wall_ns(&host)));
        if (freezes_after) {
            hv_guest_clock_freeze(&guest);
        }
        hv_guest_clock_load(&guest, &record);
        TAP_EQ(now(), saved + (freezes_after ? 0 : passes));
        hv_clock_advance(&host, 5);
        hv_guest_clock_thaw(&guest);
        TAP_EQ(now(), saved + passes + (freezes_after && policy == HV_CLOCK_FREEZE ? 0 : 5));
    }
}

/* Its host sleeps, and it is restored before anybody noticed: it has been away for that long already. */
static void test_restore_asleep(void)
{
    struct hv_guest_clock_record record;

    make(HV_CLOCK_ADVANCE);
    hv_guest_clock_save(&guest, &record);
    hv_clock_sleep(&host, HOUR);
    hv_guest_clock_load(&guest, &record);
    TAP_EQ(now(), record.guest_ns + HOUR);
    TAP_OK(!follow());
    TAP_EQ(now(), record.guest_ns + HOUR);
}

/* The new host's wall clock is behind: nothing passed, as far as anybody can tell. */
static void test_restore_earlier(void)
{
    struct hv_guest_clock_record record;

    make(HV_CLOCK_ADVANCE);
    hv_guest_clock_save(&guest, &record);
    hv_clock_set_wall(&host, -(int64_t)HOUR);
    hv_guest_clock_freeze(&guest);
    hv_guest_clock_load(&guest, &record);
    hv_guest_clock_thaw(&guest);
    TAP_EQ(now(), record.guest_ns);
}

static void test_bad_record(void)
{
    static const struct {
        const char *field;
        struct hv_guest_clock_record record;
    } bad[] = {
        {"clock.version", {.version = 2}},
        {"clock.reserved", {.version = 1, .reserved = 1}},
        {"clock.guest_ns", {.version = 1, .guest_ns = UINT64_C(1) << 62}},
        {"clock.guest_ns", {.version = 1, .guest_ns = UINT64_MAX}},
        {"clock.wall_ns", {.version = 1, .wall_ns = UINT64_C(1) << 62}},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(bad); i++) {
        TAP_STR(hv_guest_clock_check(&bad[i].record), bad[i].field);
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"time.guest-clock.follows", test_follows},
        {"time.guest-clock.moments", test_moments},
        {"clock.freeze", test_freeze},
        {"clock.advance", test_advance},
        {"time.guest-clock.suspend", test_suspend},
        {"time.guest-clock.suspend-amid-pause", test_suspend_amid_pause},
        {"clock.host-step-back", test_step_back},
        {"vpt.gtime-monotonic", test_monotonic},
        {"time.guest-clock.overtaken", test_overtaken},
        {"time.guest-clock.save-restore", test_save_restore},
        {"time.guest-clock.restore-asleep", test_restore_asleep},
        {"time.guest-clock.restore-earlier", test_restore_earlier},
        {"time.guest-clock.bad-record", test_bad_record},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
