/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What becomes of ticks that were missed.
 *
 * When a vCPU comes to a periodic timer, n >= 1 points of its grid have passed since it came last. All
 * of them have fired; pending are those that are neither accepted by the guest nor given up. Of n:
 *
 *     MERGE     one is pending; the others, or it when one was pending already, have merged
 *     DISCARD   none is, when n > 1; but one is when the last time none was, so that a guest which is
 *               always late has ticks all the same
 *     DELAY     all n are pending, and are issued one a period
 *     CATCHUP   all n are pending, and are issued faster while they are more than `threshold_ns` is
 *               long: one in period * 100 / slew_per_cent
 *
 * The next is issued when the one before was accepted: that is when a guest that was late for one
 * finds the next. Should that never be (a wire that is masked loses the edge), the device raises it
 * again at each point of the grid, as a real one does.
 *
 *     hv_vpt_expire() ---true---> device --raised--> hv_vpt_issue() ... hv_vpt_accept()
 *                                        --was high--> hv_vpt_merge()      |
 *                                        --no interrupt wanted--> hv_vpt_skip()
 *                                                                          '--more pending: armed
 */
#include "base/assert.h"
#include "platform/record.h"
#include "platform/tick.h"
#include "platform/vpt-private.h"

/* Ticks older than this are given up by default: a guest that was stopped does not tick for hours. */
#define LIMIT_NS      (10 * HV_NS_PER_S)
#define SLEW_PER_CENT 200u
#define SLEW_MOST     10000u
/* What a record can hold. */
#define PENDING_MOST  UINT32_MAX

const char *hv_tick_policy_name(enum hv_tick_policy policy)
{
    static const char *const names[HV_TICK_POLICIES] = {
        [HV_TICK_MERGE] = "merge",
        [HV_TICK_DISCARD] = "discard",
        [HV_TICK_DELAY] = "delay",
        [HV_TICK_CATCHUP] = "catchup",
    };

    return names[policy];
}

/* QEMU's and libvirt's users know them so; Linux uses none of them once it has a better clock. */
struct hv_vpt_policy hv_vpt_default_policy(enum hv_vpt_source source)
{
    switch (source) {
    case HV_VPT_PIT:
        return (struct hv_vpt_policy){.kind = HV_TICK_DELAY, .limit_ns = LIMIT_NS};
    case HV_VPT_RTC:
    case HV_VPT_LAPIC:
        return (struct hv_vpt_policy){
            .kind = HV_TICK_CATCHUP, .slew_per_cent = SLEW_PER_CENT, .limit_ns = LIMIT_NS};
    case HV_VPT_HPET0:
    case HV_VPT_HPET1:
    case HV_VPT_HPET2:
    case HV_VPT_PM:
    case HV_VPT_SOURCES:
        break;
    }
    return (struct hv_vpt_policy){.kind = HV_TICK_MERGE};
}

const char *hv_vpt_policy_check(enum hv_vpt_source source, const struct hv_vpt_policy *policy)
{
    bool catches_up = policy->kind == HV_TICK_CATCHUP;

    if (source >= HV_VPT_PM) {
        return "this timer has no tick policy";
    }
    if ((unsigned)policy->kind >= HV_TICK_POLICIES) {
        return "the policies are merge, discard, delay and catchup";
    }
    if (!catches_up && (policy->threshold_ns != 0 || policy->slew_per_cent != 0)) {
        return "threshold and slew are for the policy catchup alone";
    }
    if (catches_up && (policy->slew_per_cent <= 100 || policy->slew_per_cent > SLEW_MOST)) {
        return "slew takes 101 to 10000 per cent";
    }
    if (policy->limit_ns != 0 && !catches_up && policy->kind != HV_TICK_DELAY) {
        return "limit is for the policies catchup and delay";
    }
    return NULL;
}

static bool keeps_backlog(const struct hv_vpt *vpt)
{
    return vpt->policy.kind == HV_TICK_DELAY || vpt->policy.kind == HV_TICK_CATCHUP;
}

static uint64_t pending(const struct hv_vpt *vpt)
{
    return hv_load_relaxed(&vpt->pending);
}

static void give_up(struct hv_vpt *vpt, uint64_t ticks, _Atomic uint64_t *as)
{
    hv_count(as, ticks);
    hv_count(&vpt->pending, -ticks);
}

void hv_vpt_check(const struct hv_vpt *vpt)
{
    const struct hv_vpt_counters *counters = &vpt->counters;

    HV_BUG_ON(hv_load_relaxed(&counters->fired) !=
              hv_load_relaxed(&counters->accepted) + hv_load_relaxed(&counters->merged) +
                  hv_load_relaxed(&counters->discarded) + hv_load_relaxed(&counters->masked_skips) +
                  pending(vpt));
    HV_BUG_ON(vpt->awaits && pending(vpt) == 0);
    HV_BUG_ON(!keeps_backlog(vpt) && pending(vpt) > 1);
}

/* All but what has been issued. */
void vpt_forget(struct hv_vpt *vpt)
{
    give_up(vpt, pending(vpt) - vpt->awaits, &vpt->counters.discarded);
    vpt->discarded_last = false;
    vpt->next_issue_ns = 0;
}

void vpt_disown(struct hv_vpt *vpt)
{
    vpt->awaits = false;
    vpt->raised_again = false;
    if (vpt->awaited) {
        hv_and_seq(vpt->awaited, ~vpt->awaited_bit);
    }
}

void vpt_set_policy(struct hv_vpt *vpt, struct hv_vpt_policy policy)
{
    vpt->policy = policy;
    hv_store_relaxed(&vpt->policy_kind, policy.kind);
}

void hv_vpt_set_policy(struct hv_vpt *vpt, const struct hv_vpt_policy *policy)
{
    vpt_set_policy(vpt, *policy);
    vpt_forget(vpt);
}

/* ---- at the vCPU's coming ---- */

static uint64_t period_ns(const struct hv_vpt *vpt)
{
    return hv_load_relaxed(&vpt->period_ns);
}

static void apply_limit(struct hv_vpt *vpt)
{
    uint64_t most = vpt->policy.limit_ns / period_ns(vpt);

    most = vpt->policy.limit_ns == 0 || most > PENDING_MOST ? PENDING_MOST : most;
    most = most > 0 ? most : 1;
    if (pending(vpt) > most) {
        give_up(vpt, pending(vpt) - most, &vpt->counters.discarded);
    }
    if (pending(vpt) > hv_load_relaxed(&vpt->counters.backlog_max)) {
        hv_store_relaxed(&vpt->counters.backlog_max, pending(vpt));
    }
}

/* DISCARD: of what is pending one stays, or none when some were missed; not twice in a row. */
static void discard_missed(struct hv_vpt *vpt, uint64_t ticks)
{
    bool none = ticks > 1 && !vpt->discarded_last && !vpt->awaits;
    uint64_t kept = none ? 0 : 1;

    vpt->discarded_last = none;
    if (pending(vpt) > kept) {
        give_up(vpt, pending(vpt) - kept, &vpt->counters.discarded);
    }
}

/* @ticks points of the grid, or one expiry of a one-shot, have come. */
static void account(struct hv_vpt *vpt, uint64_t ticks)
{
    bool periodic = period_ns(vpt) != 0;

    hv_count(&vpt->counters.fired, ticks);
    hv_count(&vpt->pending, ticks);
    if (periodic && keeps_backlog(vpt)) {
        apply_limit(vpt);
    } else if (periodic && vpt->policy.kind == HV_TICK_DISCARD) {
        discard_missed(vpt, ticks);
    } else if (pending(vpt) > 1) {
        give_up(vpt, pending(vpt) - 1, &vpt->counters.merged);
    }
}

/* How long after one of a backlog the next is issued. */
static uint64_t spacing_ns(const struct hv_vpt *vpt)
{
    uint64_t spacing = period_ns(vpt);

    if (vpt->policy.kind == HV_TICK_CATCHUP &&
        (pending(vpt) - 1) * period_ns(vpt) > vpt->policy.threshold_ns) {
        spacing = spacing * 100 / vpt->policy.slew_per_cent;
    }
    return spacing > HV_VPT_PERIOD_FLOOR_NS ? spacing : HV_VPT_PERIOD_FLOOR_NS;
}

/* When to look again: at the next point of the grid; before that, for the next of a backlog. */
static void arm_next(struct hv_vpt *vpt, hv_ns now, bool backlog)
{
    hv_ns next = vpt_point(vpt, vpt->seen + 1);

    if (backlog && vpt->next_issue_ns < next.v) {
        next.v = vpt->next_issue_ns > now.v ? vpt->next_issue_ns : now.v;
    }
    vpt_arm(vpt, next);
}

/* When the oldest that is pending was due: on a grid that began anew, before its first point. */
static hv_ns oldest_due(const struct hv_vpt *vpt)
{
    uint64_t back = pending(vpt) - 1;

    if (back <= vpt->seen) {
        return vpt_point(vpt, vpt->seen - back);
    }
    return (hv_ns){vpt->origin_ns -
                   hv_ticks_to_ns((back - vpt->seen) * vpt->period_ticks, vpt->hz)};
}

static bool expire_periodic(struct hv_vpt *vpt, hv_ns now)
{
    /* It may come before the grid's first point, which can be periods ahead, for a backlog. */
    bool early = hv_ns_before(now, vpt_point(vpt, vpt->seen + 1));
    uint64_t fresh = early ? 0 : vpt_passed(vpt, now) - vpt->seen;
    bool may, issues;

    vpt->seen += fresh;
    if (fresh > 0) {
        account(vpt, fresh);
    }
    /* One that was issued and not accepted is raised again with each new tick. */
    may = vpt->awaits ? fresh > 0 : !keeps_backlog(vpt) || now.v >= vpt->next_issue_ns;
    issues = may && pending(vpt) > 0;
    if (issues) {
        vpt->tick_due = oldest_due(vpt);
        vpt->last_tick_ns = now.v;
    }
    arm_next(vpt, now, !issues && !vpt->awaits && pending(vpt) > 0);
    return issues;
}

bool hv_vpt_expire(struct hv_vpt *vpt, hv_ns now)
{
    hv_ns due = {hv_load_relaxed(&vpt->due_ns)};

    if (!hv_load_relaxed(&vpt->running) || hv_ns_before(now, due)) {
        return false;
    }
    if (period_ns(vpt) != 0) {
        return expire_periodic(vpt, now);
    }
    vpt->tick_due = due;
    hv_store_relaxed(&vpt->running, false);
    account(vpt, 1);
    return true;
}

/* ---- what became of it ---- */

void hv_vpt_issue(struct hv_vpt *vpt)
{
    hv_ns now = hv_clock_now(vpt->clock);

    if (pending(vpt) == 0) {
        account(vpt, 1); /* of a device that found out by itself */
    }
    if (vpt->awaits) {
        vpt->raised_again = true;
        return;
    }
    hv_count(&vpt->counters.issued, 1);
    vpt->awaits = true;
    vpt->awaited_due = vpt->tick_due;
    if (vpt->awaited) {
        hv_or_seq(vpt->awaited, vpt->awaited_bit);
    }
    if (pending(vpt) > 1) {
        uint64_t spacing = spacing_ns(vpt);
        /* In step with the one before, or it would fall behind by what each is late. */
        bool in_step = now.v - vpt->next_issue_ns < spacing;

        vpt->next_issue_ns = (in_step ? vpt->next_issue_ns : now.v) + spacing;
    } else {
        vpt->next_issue_ns = 0;
    }
}

void hv_vpt_merge(struct hv_vpt *vpt)
{
    /* A one-shot has no backlog for it to wait in. */
    if (!vpt->awaits && (!keeps_backlog(vpt) || period_ns(vpt) == 0)) {
        give_up(vpt, pending(vpt), &vpt->counters.merged);
    }
}

void hv_vpt_skip(struct hv_vpt *vpt)
{
    give_up(vpt, pending(vpt) - vpt->awaits, &vpt->counters.masked_skips);
}

static void record_lateness(struct hv_vpt *vpt, hv_ns now)
{
    uint64_t late = now.v - vpt->awaited_due.v;

    hv_histogram_record(&vpt->late, late);
    if (hv_load_relaxed(&vpt->counters.accepted) > 0) {
        hv_histogram_record(&vpt->jitter,
                            late > vpt->last_late ? late - vpt->last_late : vpt->last_late - late);
    }
    vpt->last_late = late;
}

void hv_vpt_ready(struct hv_vpt *vpt)
{
    if (pending(vpt) > 0 && !vpt->awaits && hv_load_relaxed(&vpt->running) && period_ns(vpt) != 0) {
        arm_next(vpt, hv_clock_now(vpt->clock), true);
    }
}

static void follow_taker(struct hv_vpt *vpt, unsigned index)
{
    if (vpt->set && vpt->source != HV_VPT_LAPIC && index == vpt->taker) {
        hv_vpt_retarget(vpt, index);
    }
    vpt->taker = index;
}

void hv_vpt_accept(struct hv_vpt *vpt, unsigned index, const struct hv_irq_line *wire)
{
    hv_ns now = hv_clock_now(vpt->clock);
    bool stands;

    if (!vpt->awaits) {
        return;
    }
    stands = vpt->raised_again && wire && hv_irq_line_stands(wire);
    vpt_disown(vpt);
    record_lateness(vpt, now);
    give_up(vpt, 1, &vpt->counters.accepted);
    follow_taker(vpt, index);
    if (stands && pending(vpt) > 0) {
        vpt->tick_due = oldest_due(vpt);
        hv_vpt_issue(vpt);
    } else {
        hv_vpt_ready(vpt);
    }
}

/* ---- records ---- */

void hv_vpt_save(const struct hv_vpt *vpt, hv_ns now, struct hv_vpt_record *record_out)
{
    *record_out = (struct hv_vpt_record){
        .pending = pending(vpt),
        .next_issue_ns = vpt->next_issue_ns ? (int64_t)(vpt->next_issue_ns - now.v) : 0,
        .awaited_late_ns = vpt->awaits ? now.v - vpt->awaited_due.v : 0,
        .threshold_ns = vpt->policy.threshold_ns,
        .limit_ns = vpt->policy.limit_ns,
        .held_ticks = vpt->held ? vpt->period_ticks : 0,
        .policy = vpt->policy.kind,
        .slew_per_cent = vpt->policy.slew_per_cent,
        .awaits = vpt->awaits,
        .discarded_last = vpt->discarded_last,
    };
}

static struct hv_vpt_policy policy_of(const struct hv_vpt_record *record)
{
    return (struct hv_vpt_policy){
        .kind = (enum hv_tick_policy)record->policy,
        .threshold_ns = record->threshold_ns,
        .slew_per_cent = record->slew_per_cent,
        .limit_ns = record->limit_ns,
    };
}

const char *hv_vpt_record_check(enum hv_vpt_source source, const struct hv_vpt_record *record,
                                bool ticks)
{
    const struct hv_vpt_policy policy = policy_of(record);
    bool keeps = policy.kind == HV_TICK_DELAY || policy.kind == HV_TICK_CATCHUP;

    if (hv_vpt_policy_check(source, &policy)) {
        return "vpt.policy";
    }
    if (hv_record_not_bool(record->awaits) || (record->awaited_late_ns != 0 && !record->awaits)) {
        return "vpt.awaits";
    }
    if (hv_record_not_bool(record->discarded_last) ||
        (record->discarded_last && policy.kind != HV_TICK_DISCARD)) {
        return "vpt.discarded_last";
    }
    /* Of the sources only the PIT's channel takes its mode and its count one after the other. */
    if (record->held_ticks != 0 && (ticks || source != HV_VPT_PIT)) {
        return "vpt.held_ticks";
    }
    /* Without a backlog a tick is pending when it was raised, and not otherwise. */
    keeps = keeps && (ticks || record->held_ticks != 0);
    if (record->pending < record->awaits || record->pending > PENDING_MOST ||
        (!keeps && record->pending != record->awaits)) {
        return "vpt.pending";
    }
    if (record->next_issue_ns != 0 && !keeps) {
        return "vpt.next_issue_ns";
    }
    return NULL;
}

void hv_vpt_load(struct hv_vpt *vpt, hv_ns now, const struct hv_vpt_record *record)
{
    /* What is left of its former life, and what comes with the record. */
    give_up(vpt, pending(vpt), &vpt->counters.discarded);
    hv_count(&vpt->counters.fired, record->pending);
    hv_count(&vpt->pending, record->pending);
    vpt_set_policy(vpt, policy_of(record));
    vpt->held = record->held_ticks != 0;
    vpt->period_ticks = vpt->held ? record->held_ticks : vpt->period_ticks;
    vpt->discarded_last = record->discarded_last;
    vpt->next_issue_ns = record->next_issue_ns ? now.v + (uint64_t)record->next_issue_ns : 0;
    /* No tick is further away than a period: a record that says so would silence the timer. */
    if (vpt->next_issue_ns > now.v + period_ns(vpt)) {
        vpt->next_issue_ns = now.v + period_ns(vpt);
    }
    vpt->awaits = record->awaits;
    vpt->raised_again = record->awaits; /* perhaps: the controllers know */
    vpt->awaited_due.v = now.v - record->awaited_late_ns;
    if (vpt->awaited) {
        hv_and_seq(vpt->awaited, ~vpt->awaited_bit);
        hv_or_seq(vpt->awaited, vpt->awaits ? vpt->awaited_bit : 0);
    }
    hv_vpt_ready(vpt);
}
