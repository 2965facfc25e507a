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

    if (hv_vpt_expire(&guest->vpt)) {
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
        hv_vpt_accept(&guest->vpt, 0);
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

/* "vpt.policy.*": fired is what was due, and all of it is somewhere. */
static void test_laws(void)
{
    for (size_t k = 0; k < HV_ARRAY_LEN(policies); k++) {
        const struct hv_vpt_counters *counters = &one.vpt.counters;

        open_guest(&one, policies[k]);
        for (unsigned i = 0; i < 2000; i++) {
            if (tap_rng() % 3 == 0) {
                sleep_for(&one, tap_rng() % (tap_rng() % 16 ? 3 * PERIOD : 100 * PERIOD));
            } else {
                run_for(&one, tap_rng() % (2 * PERIOD));
            }
            look(&one);
            TAP_EQ(count(&counters->fired), (now_of(&one) - BEGIN) / PERIOD);
        }
        TAP_EQ(count(&counters->accepted), one.taken);
        TAP_OK(one.taken > 0);
        if (policies[k].limit_ns) {
            TAP_OK(count(&counters->discarded) > 0);
            TAP_OK(count(&counters->backlog_max) <= policies[k].limit_ns / PERIOD);
        } else if (policies[k].kind >= HV_TICK_DELAY) {
            TAP_EQ(count(&counters->accepted) + count(&one.vpt.pending), count(&counters->fired));
        }
        close_guest(&one);
    }
}

/* A guest that is late for each tick has some of them all the same. */
static void test_discard_never_all(void)
{
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
    open_guest(&one, policies[2]);
    sleep_for(&one, 50 * PERIOD);
    run_for(&one, 20 * PERIOD);
    TAP_OK(one.taken >= 19 && one.taken <= 21);
    TAP_EQ(count(&one.vpt.pending), 70 - one.taken);
    close_guest(&one);
}

/* "vpt.slew-bound": twice as fast, no faster, and in time again after as long as it was late. */
static void test_catchup(void)
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
        hv_vpt_save(&one.vpt, &record);
        if (hv_vpt_record_check(HV_VPT_RTC, &record)) {
            tap_fail(__FILE__, __LINE__, "own record refused: %s",
                     hv_vpt_record_check(HV_VPT_RTC, &record));
        }
        open_guest(&two, policies[0]);
        hv_clock_advance(&two.clock, now_of(&one) - now_of(&two));
        hv_vpt_start_grid(&two.vpt, BEGIN, PERIOD, (uint32_t)HV_NS_PER_S);
        hv_vpt_load(&two.vpt, &record);
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
    } rows[] = {
        {"vpt.policy", {.policy = 4}},
        {"vpt.policy", {.policy = HV_TICK_CATCHUP, .slew_per_cent = 100}},
        {"vpt.awaits", {.awaits = 2, .pending = 2}},
        {"vpt.awaits", {.awaited_late_ns = 1}},
        {"vpt.discarded_last", {.discarded_last = 1}},
        {"vpt.pending", {.awaits = 1}},
        {"vpt.pending", {.pending = 1}},
        {"vpt.pending", {.policy = HV_TICK_DELAY, .pending = UINT64_C(1) << 40}},
        {"vpt.next_issue_ns", {.next_issue_ns = -5}},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        TAP_STR(hv_vpt_record_check(HV_VPT_RTC, &rows[i].record), rows[i].field);
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"vpt.policy.laws", test_laws},         {"vpt.policy.discard", test_discard_never_all},
        {"vpt.policy.delay", test_delay},       {"vpt.slew-bound", test_catchup},
        {"vpt.blocked-keeps", test_waits_once}, {"vpt.lost-edge", test_lost_edge},
        {"vpt.save-restore", test_record},      {"vpt.impossible-records", test_impossible_records},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
