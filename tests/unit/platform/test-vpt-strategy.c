/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Timers that fire while they move from vCPU to vCPU: by script, and many times at once; under each
 * right strategy, and under the wrong ones, which the same scripts catch.
 */
#include "lib/threads.h"
#include "lib/vpt-counted.h"
#include "lib/vpt-wrong.h"
#include "sync/race.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define VCPUS 3u

static struct hv_clock clock_now;
static struct hv_doorbell bell;
static struct hv_timer_queue queue;
static struct hv_vpt_set *set;
static struct hv_vpt vpt;
static pthread_mutex_t device = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t fired, seen;
static _Atomic uint32_t kicked, moved, ending;
static _Atomic uint32_t firer; /* thread id of who fires */

/* A vCPU that is not kicked does not look. */
static void kick(void *context, unsigned vcpu)
{
    (void)context;
    hv_or_seq(&kicked, 1u << vcpu);
}

static void expired(void *context)
{
    (void)context;
    hv_store_seq(&seen, hv_load_seq(&fired));
}

static bool open_set(const struct hv_vpt_strategy *strategy)
{
    struct hv_timer_queue *queues[VCPUS] = {&queue, &queue, &queue};
    const struct hv_vpt_set_config config = {
        .vcpus = VCPUS, .queues = queues, .kick = kick, .strategy = strategy};

    hv_clock_init_simulated(&clock_now, (hv_ns){1000});
    hv_doorbell_init(&bell);
    hv_store_seq(&fired, 0);
    hv_store_seq(&seen, 0);
    hv_store_seq(&moved, 0);
    hv_store_seq(&kicked, 0);
    hv_store_seq(&ending, 0);
    hv_timer_queue_init(&queue, &clock_now, &bell, 0);
    if (hv_vpt_set_create(&config, &set) < 0) {
        return false;
    }
    hv_vpt_init(&vpt, set, HV_VPT_PIT, 0, expired, NULL);
    return true;
}

static void close_set(void)
{
    hv_vpt_finish(&vpt);
    hv_vpt_set_destroy(set);
    hv_timer_queue_finish(&queue);
}

/* As the queue does when it is due. */
static void fire(void)
{
    hv_add_seq(&fired, 1);
    vpt.timer.callback(&vpt.timer, vpt.timer.context);
}

static void update_kicked(unsigned vcpu)
{
    uint32_t bit = 1u << vcpu;

    if (hv_and_seq(&kicked, ~bit) & bit) {
        hv_vpt_update(set, vcpu);
    }
}

static void update_all(void)
{
    for (unsigned i = 0; i < VCPUS; i++) {
        update_kicked(i);
    }
}

/* In one list, pending nowhere, and no tick was lost. */
static bool whole(void)
{
    unsigned lists = 0;
    uint64_t bits = 0;

    update_all();
    for (unsigned i = 0; i < VCPUS; i++) {
        bits |= hv_load_seq(&set->vcpu[i]->pending);
        hv_list_for_each(node, &set->vcpu[i]->timers) {
            lists += node == &vpt.link;
        }
    }
    return lists == 1 && bits == 0 && hv_load_seq(&seen) == hv_load_seq(&fired);
}

static void fire_body(unsigned index, void *context)
{
    (void)index;
    (void)context;
    hv_race_name_thread(1);
    hv_store_seq(&firer, (uint32_t)gettid());
    fire();
}

static void move_body(unsigned index, void *context)
{
    (void)index;
    (void)context;
    hv_race_name_thread(2);
    hv_vpt_retarget(&vpt, 1);
    hv_store_seq(&moved, 1);
}

/* It is moved while its callback is between locking and unlocking. */
static void move_amid_fire(const struct hv_vpt_strategy *strategy, bool awaits_move)
{
    struct threads firing, moving;

    TAP_OK(open_set(strategy));
    hv_race_begin();
    hv_race_stop(1, "vpt.fire.pending", 0);
    threads_start(&firing, 1, fire_body, NULL);
    TAP_OK(hv_race_await(1, "vpt.fire.pending"));
    threads_start(&moving, 1, move_body, NULL);
    if (awaits_move) {
        TAP_AWAIT(hv_load_seq(&moved));
    }
    hv_race_end();
    threads_join(&firing);
    threads_join(&moving);
    TAP_OK(whole());
    TAP_EQ(hv_load_seq(&vpt.vcpu) == set->vcpu[1], 1);
    close_set();
}

static void legacy_child(void)
{
    move_amid_fire(&vpt_legacy, true);
}

static void test_xsa336(void)
{
    if (!HV_CONFIG_RACE_POINTS) {
        tap_skip("this build has no race points");
        return;
    }
    for (unsigned i = 0; i < HV_VPT_STRATEGIES && !tap_failed(); i++) {
        move_amid_fire(hv_vpt_strategies[i], false);
        if (tap_failed()) {
            tap_note("strategy %s", hv_vpt_strategies[i]->name);
        }
    }
    TAP_DIES(legacy_child, SIGABRT, "platform.tm");
}

/* It is moved between the callback's look at where it is and its locking that. */
static bool moved_before_lock(const struct hv_vpt_strategy *strategy, const char *point)
{
    struct threads firing;
    bool good;

    if (!open_set(strategy)) {
        return false;
    }
    hv_race_begin();
    hv_race_stop(1, point, 0);
    threads_start(&firing, 1, fire_body, NULL);
    good = hv_race_await(1, point);
    hv_vpt_retarget(&vpt, 1);
    hv_race_end();
    threads_join(&firing);
    /* A vCPU in whose list it is not finds no tick, and forgets that there was one. */
    good = whole() && good;
    close_set();
    return good;
}

static void test_remember_only(void)
{
    if (!HV_CONFIG_RACE_POINTS) {
        tap_skip("this build has no race points");
        return;
    }
    TAP_OK(moved_before_lock(&hv_vpt_pend, "vpt.lock.read"));
    TAP_OK(!moved_before_lock(&vpt_remember_only, "vpt-wrong.lock.read"));
}

/* Of /proc/self/task: 'S' is a thread that sleeps. */
static char state_of(long thread)
{
    char path[64], text[256] = "";
    const char *end;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/task/%ld/stat", thread);
    file = fopen(path, "r");
    if (!file) {
        return '?';
    }
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    end = strrchr(text, ')'); /* the name before it may hold anything */
    return end && end[1] == ' ' ? end[2] : '?';
}

/* The timer is in nobody's list, and its callback finds it there: thread 1 goes on from that look. */
static void fire_amid_move(const struct hv_vpt_strategy *strategy, struct threads *firing,
                           struct threads *moving)
{
    TAP_OK(open_set(strategy));
    hv_race_begin();
    hv_race_stop(2, "vpt.move.between", 0);
    threads_start(moving, 1, move_body, NULL);
    TAP_OK(hv_race_await(2, "vpt.move.between"));
    hv_race_stop(1, "vpt.lock.read", 1); /* its next look, should there be one */
    hv_race_stop(1, "vpt-wrong.lock.spin", 100);
    threads_start(firing, 1, fire_body, NULL);
}

static void finish_move(struct threads *firing, struct threads *moving)
{
    hv_race_end();
    threads_join(firing);
    threads_join(moving);
    TAP_OK(hv_load_seq(&set->vcpu[1]->pending) != 0);
    TAP_OK(whole());
    close_set();
}

/*
 * A callback that finds it in nobody's list sleeps until it is in one: on the futex of the event that
 * it is, and without a second look before the mover has signalled that.
 */
static void test_migrating(void)
{
    struct threads firing, moving;

    if (!HV_CONFIG_RACE_POINTS) {
        tap_skip("this build has no race points");
        return;
    }
    fire_amid_move(&hv_vpt_pend, &firing, &moving);
    TAP_AWAIT(hv_load_seq(&set->moved.waiters) == 1 && state_of(hv_load_seq(&firer)) == 'S');
    hv_race_release(2, "vpt.move.between");
    TAP_OK(hv_race_await(1, "vpt.lock.read"));
    TAP_OK(hv_load_seq(&vpt.vcpu) == set->vcpu[1]);
    finish_move(&firing, &moving);
    /* One that spins comes by again and again. */
    fire_amid_move(&vpt_spinning, &firing, &moving);
    TAP_OK(hv_race_await(1, "vpt-wrong.lock.spin"));
    finish_move(&firing, &moving);
}

/* "vpt.after-unlock": moved, and due again, after the exit path has chosen it. */
static void update_body(unsigned index, void *context)
{
    (void)index;
    (void)context;
    hv_race_name_thread(1);
    hv_vpt_update(set, 0);
}

static void test_after_unlock(void)
{
    struct threads updating;

    if (!HV_CONFIG_RACE_POINTS) {
        tap_skip("this build has no race points");
        return;
    }
    TAP_OK(open_set(&hv_vpt_pend));
    fire();
    hv_race_begin();
    hv_race_stop(1, "vpt.update.chosen", 0);
    threads_start(&updating, 1, update_body, NULL);
    TAP_OK(hv_race_await(1, "vpt.update.chosen"));
    hv_vpt_retarget(&vpt, 2);
    fire();
    hv_race_end();
    threads_join(&updating);
    TAP_OK(whole());
    close_set();
}

/* ---- beginning and end ---- */

static struct hv_timer_queue other_queue;
static struct hv_vpt young;

static void init_body(unsigned index, void *context)
{
    (void)index;
    (void)context;
    hv_race_name_thread(1);
    hv_vpt_init(&young, set, HV_VPT_RTC, 0, expired, NULL);
}

static bool listed(const struct hv_vpt *which)
{
    hv_list_for_each(node, &set->vcpu[0]->timers) {
        if (node == &which->link) {
            return true;
        }
    }
    return false;
}

/* Who goes through a vCPU's timers finds none that is not made yet, and forgets none that just was. */
static void test_publish_order(void)
{
    struct threads making;

    if (!HV_CONFIG_RACE_POINTS) {
        tap_skip("this build has no race points");
        return;
    }
    TAP_OK(open_set(&hv_vpt_pend));
    hv_timer_queue_init(&other_queue, &clock_now, &bell, 1);
    young = (struct hv_vpt){0};
    hv_race_begin();
    hv_race_stop(1, "vpt.init.made", 0);
    threads_start(&making, 1, init_body, NULL);
    TAP_OK(hv_race_await(1, "vpt.init.made"));
    /* Its vCPU moves to another worker, and looks: it takes all its timers with it. */
    TAP_OK(!listed(&young));
    hv_vpt_rehome(set, 0, &other_queue);
    hv_or_seq(&set->vcpu[0]->pending, hv_vpt_bit(&young));
    hv_vpt_update(set, 0);
    hv_race_end();
    threads_join(&making);
    TAP_OK(listed(&young));
    TAP_OK(hv_load_seq(&young.timer.queue) == &other_queue);
    TAP_OK(hv_load_seq(&vpt.timer.queue) == &other_queue);
    hv_vpt_finish(&young);
    TAP_OK(!listed(&young));
    close_set();
    hv_timer_queue_finish(&other_queue);
}

static void run_body(unsigned index, void *context)
{
    (void)index;
    (void)context;
    hv_race_name_thread(1);
    hv_timer_queue_run(&queue, hv_clock_now(&clock_now));
}

static void finish_body(unsigned index, void *context)
{
    (void)index;
    (void)context;
    hv_race_name_thread(2);
    hv_vpt_finish(&vpt);
    hv_store_seq(&moved, 1);
}

static void finish_under_lock(void)
{
    if (open_set(&hv_vpt_pend)) {
        hv_lock_take(&set->vcpu[0]->tm_lock);
        hv_vpt_finish(&vpt);
    }
}

/* An end amid its callback, which holds the vCPU's lock, waits for it: then it is nowhere. */
static void test_kill_sync(void)
{
    struct threads running, ending_it;

    if (!HV_CONFIG_RACE_POINTS) {
        tap_skip("this build has no race points");
        return;
    }
    for (unsigned i = 0; i < HV_VPT_STRATEGIES; i++) {
        TAP_OK(open_set(hv_vpt_strategies[i]));
        hv_vpt_start(&vpt, (hv_ns){1000}, 0);
        hv_race_begin();
        hv_race_stop(1, "vpt.fire.pending", 0);
        hv_race_stop(2, "timer.kill.waits", 0);
        threads_start(&running, 1, run_body, NULL);
        TAP_OK(hv_race_await(1, "vpt.fire.pending"));
        threads_start(&ending_it, 1, finish_body, NULL);
        TAP_OK(hv_race_await(2, "timer.kill.waits"));
        TAP_EQ(hv_load_seq(&moved), 0);
        hv_race_end();
        threads_join(&running);
        threads_join(&ending_it);
        TAP_EQ(hv_load_seq(&moved), 1);
        TAP_OK(!listed(&vpt));
        TAP_EQ(hv_load_seq(&set->vcpu[0]->pending), 0);
        close_set();
    }
    if (HV_CONFIG_RANKS) {
        TAP_DIES(finish_under_lock, SIGABRT, "a timer's callback (rank 40)");
    }
}

/* ---- all at once ---- */

static void storm_body(unsigned index, void *context)
{
    unsigned rounds = *(const unsigned *)context;
    uint64_t state = 99;

    if (index == 0) {
        for (unsigned i = 0; i < rounds; i++) {
            fire();
        }
        hv_add_seq(&ending, 1);
    } else if (index == 1) {
        for (unsigned i = 0; i < rounds; i++) {
            state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
            pthread_mutex_lock(&device);
            hv_vpt_retarget(&vpt, (unsigned)(state >> 40) % VCPUS);
            pthread_mutex_unlock(&device);
        }
        hv_add_seq(&ending, 1);
    } else {
        while (hv_load_seq(&ending) < 2) {
            update_kicked(index - 2);
            threads_patient(0);
        }
    }
}

static void test_retry_storm(void)
{
    unsigned rounds = threads_rounds(3000);

    for (unsigned i = 0; i < HV_VPT_STRATEGIES; i++) {
        TAP_OK(open_set(hv_vpt_strategies[i]));
        threads_run(2 + VCPUS, storm_body, &rounds);
        TAP_OK(whole());
        TAP_OK(hv_load_relaxed(&vpt.counters.retargets) > 0);
        close_set();
        if (tap_failed()) {
            tap_note("strategy %s", hv_vpt_strategies[i]->name);
            return;
        }
    }
}

/* Lines that go from vCPU to vCPU, and atomic operations, at an exit for which nothing is due. */
static void test_coherence(void)
{
    static const struct {
        const char *name;
        double transfers, rmw;
    } rows[] = {
        {"pend", 0, 0},   {"retry", 0, 2},    {"mid", 0, 2},
        {"xsa336", 2, 4}, {"pertimer", 0, 2}, {"brlock", 0, 2},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        struct vpt_counted counted;

        TAP_OK(open_set(vpt_counted_strategy(rows[i].name)));
        counted = vpt_count_exits(set, 10);
        close_set();
        if (counted.transfers != rows[i].transfers || counted.rmw != rows[i].rmw) {
            tap_fail(__FILE__, __LINE__, "%s: %g transfers, %g read-modify-writes", rows[i].name,
                     counted.transfers, counted.rmw);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"vpt.xsa336", test_xsa336},
        {"vpt.remember-only", test_remember_only},
        {"vpt.migrating", test_migrating},
        {"vpt.after-unlock", test_after_unlock},
        {"vpt.publish-order", test_publish_order},
        {"vpt.kill-sync", test_kill_sync},
        {"vpt.retry-storm", test_retry_storm},
        {"vpt.coherence", test_coherence},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
