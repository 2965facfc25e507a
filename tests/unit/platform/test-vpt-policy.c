/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What becomes of missed ticks: the accounting law after each step of random lives, how fast a backlog
 * comes, and that a record taken at any instant goes on as the timer would have.
 */
#include "platform/vpt.h"

#include "lib/tap.h"

#include <string.h>

#define PERIOD HV_NS_PER_MS
#define BEGIN  (1000 * HV_NS_PER_S)

struct guest {
    struct hv_clock clock;
    struct hv_doorbell bell;
    struct hv_timer_queue queue;
    struct hv_vpt_set *set;
    struct hv_vpt vpt;
    bool raised;
    unsigned taken;
    uint64_t first_ns, last_ns, shortest_ns; /* of the ticks that were taken */
};

static struct guest one, two;

static void kick(void *context, unsigned vcpu)
{
    (void)context;
    (void)vcpu;
}

static void expired(void *context)
{
    struct guest *guest = context;

    if (hv_vpt_expire(&guest->vpt, hv_clock_now(&guest->clock))) {
        hv_vpt_issue(&guest->vpt);
        guest->raised = true;
    }
    hv_vpt_check(&guest->vpt);
}

static void open_guest(struct guest *guest, struct hv_vpt_policy policy)
{
    struct hv_timer_queue *queues[] = {&guest->queue};
    const struct hv_vpt_set_config set = {.vcpus = 1, .queues = queues, .kick = kick};

    memset(guest, 0, sizeof(*guest));
    guest->shortest_ns = UINT64_MAX;
    hv_clock_init_simulated(&guest->clock, (hv_ns){BEGIN});
    hv_doorbell_init(&guest->bell);
    hv_timer_queue_init(&guest->queue, &guest->clock, &guest->bell, 0);
    TAP_EQ(hv_vpt_set_create(&set, &guest->set), 0);
    hv_vpt_init(&guest->vpt, guest->set, HV_VPT_RTC, 0, expired, guest);
    hv_vpt_set_policy(&guest->vpt, &policy);
    hv_vpt_start(&guest->vpt, (hv_ns){BEGIN + PERIOD}, PERIOD);
}

static void close_guest(struct guest *guest)
{
    hv_vpt_finish(&guest->vpt);
    hv_vpt_set_destroy(guest->set);
    hv_timer_queue_finish(&guest->queue);
}

static uint64_t now_of(struct guest *guest)
{
    return hv_clock_now(&guest->clock).v;
}

/* The vCPU has the CPU: it comes to its timer, and takes what is raised. */
static void look(struct guest *guest)
{
    hv_timer_queue_run(&guest->queue, hv_clock_now(&guest->clock));
    hv_vpt_update(guest->set, 0);
    if (guest->raised) {
        uint64_t now = now_of(guest), span = now - guest->last_ns;

        guest->raised = false;
        guest->first_ns = guest->taken == 0 ? now : guest->first_ns;
        guest->shortest_ns =
            guest->taken > 0 && span < guest->shortest_ns ? span : guest->shortest_ns;
        guest->last_ns = now;
        guest->taken++;
        hv_vpt_accept(&guest->vpt, 0, NULL);
        hv_vpt_check(&guest->vpt);
    }
}

/* It has it for so long, and looks each 10 µs. */
static void run_for(struct guest *guest, uint64_t span_ns)
{
    for (uint64_t end = now_of(guest) + span_ns; now_of(guest) < end;) {
        hv_clock_advance(&guest->clock, 10 * HV_NS_PER_US);
        look(guest);
    }
}

/* It has not. */
static void sleep_for(struct guest *guest, uint64_t span_ns)
{
    hv_clock_advance(&guest->clock, span_ns);
    hv_timer_queue_run(&guest->queue, hv_clock_now(&guest->clock));
}

static uint64_t count(const _Atomic uint64_t *counter)
{
    return hv_load_relaxed(counter);
}

static const struct hv_vpt_policy policies[] = {
    {.kind = HV_TICK_MERGE},
    {.kind = HV_TICK_DISCARD},
    {.kind = HV_TICK_DELAY},
    {.kind = HV_TICK_DELAY, .limit_ns = 20 * PERIOD},
    {.kind = HV_TICK_CATCHUP, .slew_per_cent = 200},
    {.kind = HV_TICK_CATCHUP,
     .slew_per_cent = 300,
     .threshold_ns = 3 * PERIOD,
     .limit_ns = 40 * PERIOD},
};

/* The machine is paused for long, or its host's clock jumps. */
static void pause_for(struct guest *guest, uint64_t span_ns)
{
    hv_vpt_pause(&guest->vpt);
    hv_clock_advance(&guest->clock, span_ns);
    hv_vpt_resume(&guest->vpt);
}

static void random_life(struct guest *guest)
{
    unsigned choice = (unsigned)(tap_rng() % 48);

    if (choice == 0) {
        pause_for(guest, tap_rng() % (100000 * PERIOD));
    } else if (choice < 16) {
        sleep_for(guest, tap_rng() % (choice > 1 ? 3 * PERIOD : 100 * PERIOD));
    } else {
        run_for(guest, tap_rng() % (2 * PERIOD));
    }
    look(guest);
}

/* Over a million ticks: fired is what was due, and all of it is somewhere. */
static void check_laws(const struct hv_vpt_policy *policy)
{
    const struct hv_vpt_counters *counters = &one.vpt.counters;

    open_guest(&one, *policy);
    for (unsigned i = 0; i < 2000 || count(&counters->fired) < 1000000; i++) {
        random_life(&one);
        TAP_EQ(count(&counters->fired), (now_of(&one) - BEGIN) / PERIOD);
    }
    TAP_EQ(count(&counters->accepted), one.taken);
    TAP_OK(one.taken > 0);
    if (policy->limit_ns) {
        TAP_OK(count(&counters->discarded) > 0);
        TAP_OK(count(&counters->backlog_max) <= policy->limit_ns / PERIOD);
    } else if (policy->kind >= HV_TICK_DELAY) {
        TAP_EQ(count(&counters->accepted) + count(&one.vpt.pending), count(&counters->fired));
    } else if (policy->kind == HV_TICK_MERGE) {
        TAP_EQ(count(&counters->discarded), 0);
        TAP_EQ(count(&counters->accepted) + count(&counters->merged), count(&counters->fired));
    } else {
        TAP_EQ(count(&counters->merged), 0);
        TAP_EQ(count(&counters->accepted) + count(&counters->discarded), count(&counters->fired));
    }
    close_guest(&one);
}

static void check_laws_of(enum hv_tick_policy kind)
{
    for (size_t k = 0; k < HV_ARRAY_LEN(policies); k++) {
        if (policies[k].kind == kind) {
            check_laws(&policies[k]);
        }
    }
}

/* However many were missed, one late tick; then the grid again. */
static void test_merge(void)
{
    check_laws_of(HV_TICK_MERGE);
    open_guest(&one, policies[0]);
    sleep_for(&one, 50 * PERIOD + PERIOD / 2);
    look(&one);
    look(&one);
    TAP_EQ(one.taken, 1);
    TAP_EQ(count(&one.vpt.counters.merged), 49);
    run_for(&one, 10 * PERIOD);
    TAP_EQ(one.taken, 11);
    TAP_EQ((one.last_ns - BEGIN) % PERIOD, 0);
    close_guest(&one);
}

/* A guest that is late for each tick has some of them all the same. */
static void test_discard(void)
{
    check_laws_of(HV_TICK_DISCARD);
    open_guest(&one, policies[1]);
    for (unsigned i = 0; i < 100; i++) {
        sleep_for(&one, 5 * PERIOD / 2);
        look(&one);
    }
    TAP_OK(one.taken >= 49 && one.taken <= 51);
    close_guest(&one);
}

/* One a period, however many wait. */
static void test_delay(void)
{
    check_laws_of(HV_TICK_DELAY);
    open_guest(&one, policies[2]);
    sleep_for(&one, 50 * PERIOD);
    run_for(&one, 20 * PERIOD);
    TAP_OK(one.taken >= 19 && one.taken <= 21);
    TAP_EQ(count(&one.vpt.pending), 70 - one.taken);
    close_guest(&one);
}

static void test_catchup(void)
{
    check_laws_of(HV_TICK_CATCHUP);
}

/* "vpt.slew-bound": twice as fast, no faster, and in time again after as long as it was late. */
static void test_slew_bound(void)
{
    open_guest(&one, policies[4]);
    sleep_for(&one, 50 * PERIOD);
    run_for(&one, 20 * PERIOD);
    TAP_OK(one.taken >= 39 && one.taken <= 41);
    TAP_OK(one.shortest_ns >= PERIOD / 2 - 20 * HV_NS_PER_US);
    run_for(&one, 40 * PERIOD);
    TAP_EQ(count(&one.vpt.pending), 0);
    TAP_EQ(one.taken, 110);
    close_guest(&one);
    /* Below the threshold: at the normal rate. */
    open_guest(&one, policies[5]);
    sleep_for(&one, 3 * PERIOD);
    run_for(&one, 10 * PERIOD);
    TAP_OK(one.taken <= 11);
    close_guest(&one);
}

/* "vpt.blocked-keeps": one that waits for a CPU does not end others' slices; its vCPU is told once. */
static void test_waits_once(void)
{
    open_guest(&one, policies[4]);
    sleep_for(&one, PERIOD);
    TAP_EQ(hv_timer_queue_next(&one.queue).v, HV_NS_NEVER.v);
    sleep_for(&one, 7 * PERIOD);
    look(&one);
    TAP_EQ(count(&one.vpt.counters.fired), 8);
    TAP_OK(hv_timer_queue_next(&one.queue).v != HV_NS_NEVER.v);
    close_guest(&one);
}

/* The registers of a source that ticks are written again: as they were, or otherwise. */
static void test_rewritten(void)
{
    open_guest(&one, policies[4]);
    sleep_for(&one, 50 * PERIOD + PERIOD / 2);
    look(&one);
    TAP_EQ(count(&one.vpt.pending), 49);
    /* Each time the tick that was issued is taken, and the others wait on. */
    for (unsigned i = 0; i < 5; i++) {
        hv_vpt_start(&one.vpt, (hv_ns){now_of(&one) + PERIOD}, PERIOD);
        TAP_EQ(count(&one.vpt.pending), 49);
        hv_vpt_start_grid(&one.vpt, now_of(&one) - PERIOD / 3, PERIOD, (uint32_t)HV_NS_PER_S);
        TAP_EQ(count(&one.vpt.pending), 49);
        hv_vpt_check(&one.vpt);
    }
    run_for(&one, 20 * PERIOD);
    TAP_EQ(count(&one.vpt.counters.fired), 70);
    TAP_OK(one.taken >= 39 && one.taken <= 42);
    TAP_OK(one.shortest_ns >= PERIOD / 2 - 20 * HV_NS_PER_US);
    /* Held for a moment, in which nothing comes. */
    one.shortest_ns = UINT64_MAX;
    TAP_OK(count(&one.vpt.pending) > 20);
    hv_vpt_hold(&one.vpt);
    hv_vpt_hold(&one.vpt);
    hv_clock_advance(&one.clock, 5 * PERIOD);
    look(&one);
    TAP_EQ(hv_timer_queue_next(&one.queue).v, HV_NS_NEVER.v);
    TAP_OK(count(&one.vpt.pending) > 20);
    hv_vpt_start(&one.vpt, (hv_ns){now_of(&one) + PERIOD}, PERIOD);
    run_for(&one, 60 * PERIOD);
    TAP_EQ(count(&one.vpt.pending), 0);
    TAP_EQ(count(&one.vpt.counters.fired), 130);
    TAP_EQ(one.taken, 130);
    TAP_EQ(count(&one.vpt.counters.discarded), 0);
    /* Another period, and an end, give up what waits. */
    sleep_for(&one, 50 * PERIOD);
    look(&one);
    TAP_OK(count(&one.vpt.pending) > 40);
    hv_vpt_start(&one.vpt, (hv_ns){now_of(&one) + PERIOD}, 2 * PERIOD);
    TAP_EQ(count(&one.vpt.pending), 0);
    sleep_for(&one, 50 * PERIOD);
    look(&one);
    hv_vpt_hold(&one.vpt);
    TAP_OK(count(&one.vpt.pending) > 20);
    hv_vpt_stop(&one.vpt);
    TAP_EQ(count(&one.vpt.pending), 0);
    hv_vpt_check(&one.vpt);
    close_guest(&one);
}

/* Started anew each time, its first tick near: no faster than the floor all the same. */
static void test_no_way_round_the_floor(void)
{
    open_guest(&one, policies[0]);
    for (unsigned i = 0; i < 1000; i++) {
        hv_vpt_start(&one.vpt, (hv_ns){now_of(&one) + 1}, HV_VPT_PERIOD_FLOOR_NS);
        run_for(&one, 10 * HV_NS_PER_US);
        hv_vpt_stop(&one.vpt);
    }
    TAP_OK(one.taken > 90 && one.taken <= 101);
    TAP_OK(one.shortest_ns >= HV_VPT_PERIOD_FLOOR_NS);
    close_guest(&one);
}

/* The edge was lost, because its wire was masked: it is raised again with the next tick. */
static void test_lost_edge(void)
{
    open_guest(&one, policies[4]);
    sleep_for(&one, PERIOD);
    hv_vpt_update(one.set, 0);
    TAP_OK(one.raised);
    one.raised = false; /* nobody takes it */
    run_for(&one, 3 * PERIOD);
    TAP_OK(one.taken > 0);
    close_guest(&one);
}

/* "vpt.save-restore": the same ticks from there on. */
static void test_record(void)
{
    for (unsigned round = 0; round < 200; round++) {
        struct hv_vpt_policy policy = policies[tap_rng() % HV_ARRAY_LEN(policies)];
        struct hv_vpt_record record;
        unsigned before;

        open_guest(&one, policy);
        for (unsigned i = 0; i < 5; i++) {
            sleep_for(&one, tap_rng() % (20 * PERIOD));
            run_for(&one, tap_rng() % (3 * PERIOD));
        }
        hv_vpt_save(&one.vpt, (hv_ns){now_of(&one)}, &record);
        if (hv_vpt_record_check(HV_VPT_RTC, &record, true)) {
            tap_fail(__FILE__, __LINE__, "own record refused: %s",
                     hv_vpt_record_check(HV_VPT_RTC, &record, true));
        }
        open_guest(&two, policies[0]);
        hv_clock_advance(&two.clock, now_of(&one) - now_of(&two));
        hv_vpt_start_grid(&two.vpt, BEGIN, PERIOD, (uint32_t)HV_NS_PER_S);
        hv_vpt_load(&two.vpt, (hv_ns){now_of(&two)}, &record);
        before = one.taken;
        run_for(&one, 15 * PERIOD);
        run_for(&two, 15 * PERIOD);
        TAP_EQ(two.taken, one.taken - before);
        TAP_EQ(two.last_ns, one.last_ns);
        TAP_EQ(count(&two.vpt.pending), count(&one.vpt.pending));
        close_guest(&one);
        close_guest(&two);
    }
}

static void test_impossible_records(void)
{
    static const struct {
        const char *field;
        struct hv_vpt_record record;
        bool stopped;
    } rows[] = {
        {"vpt.policy", {.policy = 4}, false},
        {"vpt.policy", {.policy = HV_TICK_CATCHUP, .slew_per_cent = 100}, false},
        {"vpt.awaits", {.awaits = 2, .pending = 2}, false},
        {"vpt.awaits", {.awaited_late_ns = 1}, false},
        {"vpt.discarded_last", {.discarded_last = 1}, false},
        {"vpt.pending", {.awaits = 1}, false},
        {"vpt.pending", {.pending = 1}, false},
        {"vpt.pending", {.policy = HV_TICK_DELAY, .pending = UINT64_C(1) << 40}, false},
        {"vpt.pending", {.policy = HV_TICK_DELAY, .pending = 2, .awaits = 1}, true},
        {"vpt.next_issue_ns", {.next_issue_ns = -5}, false},
        {"vpt.held_ticks", {.policy = HV_TICK_DELAY, .held_ticks = 1193}, true},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        TAP_STR(hv_vpt_record_check(HV_VPT_RTC, &rows[i].record, !rows[i].stopped), rows[i].field);
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"vpt.policy.merge", test_merge},
        {"vpt.policy.catchup", test_catchup},
        {"vpt.policy.discard", test_discard},
        {"vpt.policy.delay", test_delay},
        {"vpt.slew-bound", test_slew_bound},
        {"vpt.blocked-keeps", test_waits_once},
        {"vpt.lost-edge", test_lost_edge},
        {"vpt.rewritten", test_rewritten},
        {"vpt.period-floor", test_no_way_round_the_floor},
        {"vpt.save-restore", test_record},
        {"vpt.impossible-records", test_impossible_records},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
