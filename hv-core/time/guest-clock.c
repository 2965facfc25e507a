/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reading a guest's time, and changing how it follows the host's: see guest-clock.h. */
#include "time/guest-clock.h"

#include "sync/race.h"

/* A guest that is older than 146 years is none: sums of two of these stay in 63 bits. */
#define RECORD_MOST_NS (UINT64_C(1) << 62)

/* Moments of one clock stay within 2^63 of each other: compared as a ring is. */
static bool before(uint64_t a_ns, uint64_t b_ns)
{
    return (int64_t)(a_ns - b_ns) < 0;
}

static uint64_t host_now(const struct hv_guest_clock *guest)
{
    return hv_clock_now(guest->clock.source).v;
}

/* One look at the host: what follows from it is as of then, and no time falls between two looks. */
struct host_moment {
    uint64_t now_ns;
    uint64_t asleep_ns; /* what that leaves out */
};

static struct host_moment look_at_host(const struct hv_guest_clock *guest)
{
    struct host_moment moment;

    moment.now_ns = host_now(guest);
    moment.asleep_ns = hv_clock_asleep_ns(guest->clock.source);
    return moment;
}

static uint64_t with_sleep(struct host_moment moment)
{
    return moment.now_ns + moment.asleep_ns;
}

/* What it shows, but for invariant (1). */
static uint64_t by_host(const struct hv_guest_clock *guest)
{
    uint64_t now_ns;
    uint32_t sequence;

    do {
        sequence = hv_seqcount_read_begin(&guest->sequence);
        now_ns = hv_seqcount_load(&guest->guest_ns);
        if (!hv_seqcount_load(&guest->frozen)) {
            now_ns += host_now(guest) - hv_seqcount_load(&guest->host_ns);
        }
    } while (hv_seqcount_read_retry(&guest->sequence, sequence));
    return now_ns;
}

static void set_locked(struct hv_guest_clock *guest, uint64_t host_ns, uint64_t guest_ns,
                       bool frozen) HV_REQUIRES(&guest->lock)
{
    hv_seqcount_write_begin(&guest->sequence);
    hv_seqcount_store(&guest->host_ns, host_ns);
    hv_seqcount_store(&guest->guest_ns, guest_ns);
    hv_seqcount_store(&guest->frozen, frozen);
    hv_seqcount_write_end(&guest->sequence);
}

/* Publish a reading; returns it, or a later one that somebody else has published. */
static uint64_t publish(struct hv_guest_clock *guest, uint64_t last_ns, uint64_t now_ns)
{
    while (before(last_ns, now_ns)) {
        HV_RACE("guest-clock.publish");
        /* Pairs with the load of who reads next: it sees this, and then looks at the host's clock. */
        if (hv_cas_weak_seq(&guest->last_ns, &last_ns, now_ns)) {
            return now_ns;
        }
    }
    return last_ns;
}

static void clamp_locked(struct hv_guest_clock *guest, uint64_t by_ns) HV_REQUIRES(&guest->lock)
{
    hv_count(&guest->counters.clamps, 1);
    if (by_ns > hv_load_relaxed(&guest->counters.clamp_max_ns)) {
        hv_store_relaxed(&guest->counters.clamp_max_ns, by_ns);
    }
}

/*
 * Who read after @last_ns was published got less. The host's clock has gone back: go on from there.
 * Or the clock was frozen under a reader, who published a little more than where it stands now.
 */
static uint64_t go_on_from_last(struct hv_guest_clock *guest)
{
    uint64_t host_ns, now_ns, last_ns;
    bool back = false;

    hv_lock_take(&guest->lock);
    last_ns = hv_load_seq(&guest->last_ns);
    host_ns = host_now(guest);
    if (!hv_load_relaxed(&guest->frozen)) {
        now_ns = hv_load_relaxed(&guest->guest_ns) + (host_ns - hv_load_relaxed(&guest->host_ns));
        back = before(now_ns, last_ns);
        if (back) {
            clamp_locked(guest, last_ns - now_ns);
            set_locked(guest, host_ns, last_ns, false);
        } else {
            last_ns = publish(guest, last_ns, now_ns);
        }
    }
    hv_lock_drop(&guest->lock);
    if (back && guest->moved) {
        guest->moved(guest->context);
    }
    return last_ns;
}

static uint64_t guest_now(struct hv_guest_clock *guest)
{
    /* First: what was published before is of an earlier look at the host's clock than ours is. */
    uint64_t last_ns = hv_load_seq(&guest->last_ns);
    uint64_t now_ns = by_host(guest);

    if (HV_UNLIKELY(before(now_ns, last_ns))) {
        return go_on_from_last(guest);
    }
    return publish(guest, last_ns, now_ns);
}

static struct hv_guest_clock *guest_of(const struct hv_clock *clock)
{
    return (struct hv_guest_clock *)HV_CONTAINER_OF(clock, struct hv_guest_clock, clock);
}

static hv_ns read_guest_clock(const struct hv_clock *clock)
{
    return (hv_ns){guest_now(guest_of(clock))};
}

static hv_ns host_moment(const struct hv_clock *clock, hv_ns moment)
{
    const struct hv_guest_clock *guest = guest_of(clock);
    uint64_t host_ns, guest_ns, back_ns;
    uint32_t sequence;

    do {
        sequence = hv_seqcount_read_begin(&guest->sequence);
        host_ns = hv_seqcount_load(&guest->host_ns);
        guest_ns = hv_seqcount_load(&guest->guest_ns);
    } while (hv_seqcount_read_retry(&guest->sequence, sequence));
    if (moment.v == HV_NS_NEVER.v) {
        return moment;
    }
    if (moment.v >= guest_ns) {
        return hv_ns_add((hv_ns){host_ns}, moment.v - guest_ns);
    }
    back_ns = guest_ns - moment.v;
    return (hv_ns){host_ns > back_ns ? host_ns - back_ns : 0};
}

static const struct hv_clock_ops guest_clock_ops = {read_guest_clock, host_moment};

void hv_guest_clock_init(struct hv_guest_clock *guest, const struct hv_guest_clock_config *config)
{
    *guest = (struct hv_guest_clock){
        .policy = config->policy,
        .moved = config->moved,
        .context = config->context,
        .asleep_ns = hv_clock_asleep_ns(config->host),
        .host_ns = hv_clock_now(config->host).v,
        .guest_ns = config->start_ns,
        .last_ns = config->start_ns,
    };
    hv_clock_init_derived(&guest->clock, config->host, &guest_clock_ops);
    hv_lock_init(&guest->lock, HV_RANK_LEAF, "time.guest-clock", 0);
}

void hv_guest_clock_finish(struct hv_guest_clock *guest)
{
    if (guest->clock.ops) {
        hv_lock_finish(&guest->lock);
        guest->clock.ops = NULL;
    }
}

/* ---- stops ---- */

/* @span_ns have passed without the machine: what the guest's clock is later by than it was. */
static uint64_t apply_policy_locked(struct hv_guest_clock *guest, uint64_t span_ns)
    HV_REQUIRES(&guest->lock)
{
    if (guest->policy == HV_CLOCK_ADVANCE) {
        return span_ns;
    }
    hv_count(&guest->counters.withheld_ns, span_ns);
    return 0;
}

static uint64_t later(uint64_t a_ns, uint64_t b_ns)
{
    return before(a_ns, b_ns) ? b_ns : a_ns;
}

/* For how long has the host slept, when it has slept for @asleep_ns in all, and nobody noticed? */
static uint64_t unnoticed_ns(const struct hv_guest_clock *guest, uint64_t asleep_ns)
{
    uint64_t noticed_ns = hv_load_relaxed(&guest->asleep_ns);

    return before(asleep_ns, noticed_ns + HV_GUEST_CLOCK_SLEEP_MIN_NS) ? 0 : asleep_ns - noticed_ns;
}

bool hv_guest_clock_unaware(const struct hv_guest_clock *guest)
{
    return unnoticed_ns(guest, hv_clock_asleep_ns(guest->clock.source)) > 0;
}

/* The same, and it is noticed by this. */
static uint64_t notice_sleep_locked(struct hv_guest_clock *guest, uint64_t asleep_ns)
    HV_REQUIRES(&guest->lock)
{
    uint64_t span_ns = unnoticed_ns(guest, asleep_ns);

    if (span_ns > 0) {
        hv_store_relaxed(&guest->asleep_ns, asleep_ns);
        hv_count(&guest->counters.suspends, 1);
        hv_count(&guest->counters.suspended_ns, span_ns);
    }
    return span_ns;
}

void hv_guest_clock_freeze(struct hv_guest_clock *guest)
{
    hv_lock_take(&guest->lock);
    if (!hv_load_relaxed(&guest->frozen)) {
        struct host_moment moment = look_at_host(guest);
        uint64_t guest_ns =
            hv_load_relaxed(&guest->guest_ns) + (moment.now_ns - hv_load_relaxed(&guest->host_ns));

        guest_ns = later(guest_ns, hv_load_seq(&guest->last_ns));
        /* A sleep before is no part of the stop. */
        guest_ns += apply_policy_locked(guest, notice_sleep_locked(guest, moment.asleep_ns));
        set_locked(guest, moment.now_ns, guest_ns, true);
        guest->stopped_at_ns = with_sleep(moment);
        guest->absent_ns = 0;
    }
    hv_lock_drop(&guest->lock);
}

static uint64_t stopped_for_locked(const struct hv_guest_clock *guest, struct host_moment moment)
    HV_REQUIRES(&guest->lock)
{
    uint64_t now_ns = with_sleep(moment);
    uint64_t here_ns = before(guest->stopped_at_ns, now_ns) ? now_ns - guest->stopped_at_ns : 0;

    return here_ns + guest->absent_ns;
}

void hv_guest_clock_thaw(struct hv_guest_clock *guest)
{
    hv_lock_take(&guest->lock);
    if (hv_load_relaxed(&guest->frozen)) {
        struct host_moment moment = look_at_host(guest);
        uint64_t span_ns = stopped_for_locked(guest, moment);
        uint64_t guest_ns = later(hv_load_relaxed(&guest->guest_ns), hv_load_seq(&guest->last_ns));

        hv_count(&guest->counters.stops, 1);
        hv_count(&guest->counters.stopped_ns, span_ns);
        /* One meanwhile was a part of it. */
        hv_store_relaxed(&guest->asleep_ns,
                         later(hv_load_relaxed(&guest->asleep_ns), moment.asleep_ns));
        set_locked(guest, moment.now_ns, guest_ns + apply_policy_locked(guest, span_ns), false);
    }
    hv_lock_drop(&guest->lock);
}

/* ---- records ---- */

void hv_guest_clock_save(struct hv_guest_clock *guest, struct hv_guest_clock_record *record_out)
{
    uint64_t guest_ns = guest_now(guest);
    uint64_t wall_ns = hv_clock_wall_ns(&guest->clock);

    hv_lock_take(&guest->lock);
    if (hv_load_relaxed(&guest->frozen)) {
        uint64_t span_ns = stopped_for_locked(guest, look_at_host(guest));

        guest_ns = hv_load_relaxed(&guest->guest_ns);
        wall_ns -= span_ns < wall_ns ? span_ns : wall_ns;
    }
    hv_lock_drop(&guest->lock);
    *record_out = (struct hv_guest_clock_record){
        .version = HV_GUEST_CLOCK_RECORD_VERSION,
        .guest_ns = guest_ns,
        .wall_ns = wall_ns,
    };
}

const char *hv_guest_clock_check(const struct hv_guest_clock_record *record)
{
    if (record->version != HV_GUEST_CLOCK_RECORD_VERSION) {
        return "clock.version";
    }
    if (record->guest_ns >= RECORD_MOST_NS) {
        return "clock.guest_ns";
    }
    if (record->wall_ns >= RECORD_MOST_NS) {
        return "clock.wall_ns";
    }
    return record->reserved ? "clock.reserved" : NULL;
}

void hv_guest_clock_load(struct hv_guest_clock *guest, const struct hv_guest_clock_record *record)
{
    uint64_t wall_ns = hv_clock_wall_ns(&guest->clock);
    uint64_t absent_ns = wall_ns > record->wall_ns ? wall_ns - record->wall_ns : 0;
    uint64_t guest_ns = record->guest_ns;
    struct host_moment moment;

    hv_lock_take(&guest->lock);
    moment = look_at_host(guest);
    guest->stopped_at_ns = with_sleep(moment);
    guest->absent_ns = absent_ns;
    /* It is a part of that. */
    hv_store_relaxed(&guest->asleep_ns, moment.asleep_ns);
    if (!hv_load_relaxed(&guest->frozen)) {
        guest_ns += apply_policy_locked(guest, absent_ns);
    }
    hv_store_seq(&guest->last_ns, guest_ns);
    set_locked(guest, moment.now_ns, guest_ns, hv_load_relaxed(&guest->frozen));
    hv_lock_drop(&guest->lock);
}
