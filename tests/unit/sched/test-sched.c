/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sched/sched: states, placing and picking; wake and retire against a slice, by script. */
#include "sched/sched.h"

#include "lib/fake-entity.h"
#include "lib/threads.h"
#include "sched/sched-private.h"

static struct hv_clock sim;
static struct hv_sched *sched;
static struct fake_entity fakes[6];
static _Atomic uint32_t retired;

static bool idle(unsigned worker)
{
    return hv_load_seq(&sched->workers[worker].bell.mode) == HV_DOORBELL_MODE_ASLEEP &&
           hv_load_seq(&sched->queues.queue[worker].idle) == 1;
}

/* Workers asleep, all of them: from here on, who runs what is no accident. */
static bool start(unsigned workers)
{
    uint64_t patience = threads_patience();

    retired = 0;
    hv_clock_init_simulated(&sim, (hv_ns){1000});
    hv_race_begin();
    if (fake_sched_create(workers, &sim, NULL, &sched) != 0) {
        return false;
    }
    for (unsigned i = 0; i < workers; i++) {
        while (!idle(i)) {
            if (!threads_patient(patience)) {
                return false;
            }
        }
    }
    return true;
}

static void end(void)
{
    hv_race_end();
    hv_sched_destroy(sched);
}

static enum hv_sched_state state_of(struct fake_entity *fake)
{
    struct hv_runqueue *home = hv_load_seq(&fake->entity.home);
    enum hv_sched_state state;

    hv_lock_take(&home->lock);
    state = fake->entity.state;
    hv_lock_drop(&home->lock);
    return state;
}

static void test_run_and_block(void)
{
    TAP_OK(start(1));
    fake_entity_init(&fakes[0], sched, 0, 0);
    TAP_EQ(state_of(&fakes[0]), HV_SCHED_STATE_BLOCKED);
    for (unsigned i = 1; i <= 20; i++) {
        hv_sched_wake(&fakes[0].entity);
        TAP_AWAIT(hv_load_seq(&fakes[0].runs) >= i &&
                  state_of(&fakes[0]) == HV_SCHED_STATE_BLOCKED);
    }
    TAP_EQ(fakes[0].runs, 20);
    TAP_EQ(fakes[0].entity.counters.switches, 20);
    hv_sched_retire(sched, &fakes[0].entity);
    TAP_EQ(state_of(&fakes[0]), HV_SCHED_STATE_RETIRED);
    /* Retired is final, and retiring twice is nothing. */
    hv_sched_wake(&fakes[0].entity);
    hv_sched_retire(sched, &fakes[0].entity);
    TAP_AWAIT(idle(0));
    TAP_EQ(fakes[0].runs, 20);
    end();
}

static void test_yield(void)
{
    TAP_OK(start(1));
    for (unsigned i = 0; i < 3; i++) {
        fake_entity_init(&fakes[i], sched, 0, 0);
        fakes[i].yields = 50;
    }
    for (unsigned i = 0; i < 3; i++) {
        hv_sched_wake(&fakes[i].entity);
    }
    for (unsigned i = 0; i < 3; i++) {
        TAP_AWAIT(state_of(&fakes[i]) == HV_SCHED_STATE_BLOCKED);
        TAP_EQ(fakes[i].runs, 51);
        hv_sched_retire(sched, &fakes[i].entity);
    }
    end();
}

/* Stop worker @home's thread in a run of fakes[@index], under the number @index + 1. */
static bool occupy(unsigned index, unsigned home)
{
    fake_entity_init(&fakes[index], sched, home, index + 1);
    hv_race_stop(index + 1, "fake.run", 0);
    hv_sched_wake(&fakes[index].entity);
    return hv_race_await(index + 1, "fake.run");
}

static void test_wake_running(void)
{
    TAP_OK(start(1));
    TAP_OK(occupy(0, 0));
    /* Two wakes in one run are one more run. */
    hv_sched_wake(&fakes[0].entity);
    hv_sched_wake(&fakes[0].entity);
    hv_race_release(1, "fake.run");
    TAP_AWAIT(state_of(&fakes[0]) == HV_SCHED_STATE_BLOCKED);
    TAP_EQ(fakes[0].runs, 2);
    hv_sched_retire(sched, &fakes[0].entity);
    end();
}

/* Invariant 2: `run` has said BLOCK, and the worker is on its way to note it. */
static void test_wake_blocking(void)
{
    TAP_OK(start(1));
    TAP_OK(occupy(0, 0));
    hv_race_stop(1, "sched.put-back", 0);
    hv_race_release(1, "fake.run");
    TAP_OK(hv_race_await(1, "sched.put-back"));
    hv_sched_wake(&fakes[0].entity);
    hv_race_release(1, "sched.put-back");
    TAP_AWAIT(hv_load_seq(&fakes[0].runs) == 2);
    TAP_AWAIT(state_of(&fakes[0]) == HV_SCHED_STATE_BLOCKED);
    hv_sched_retire(sched, &fakes[0].entity);
    end();
}

static enum hv_sched_verdict run_and_halt(void *context, struct hv_worker *worker, hv_ns slice_end)
{
    (void)fake_entity_run(context, worker, slice_end);
    return HV_SCHED_HALT;
}

/* The same between the decision to halt and the halt; the kick is no less for coming twice. */
static void test_kick_halting(void)
{
    TAP_OK(start(1));
    fake_entity_init(&fakes[0], sched, 0, 1);
    fakes[0].entity.run = run_and_halt;
    hv_race_stop(1, "sched.put-back", 0);
    hv_sched_wake(&fakes[0].entity);
    TAP_OK(hv_race_await(1, "sched.put-back"));
    TAP_EQ(state_of(&fakes[0]), HV_SCHED_STATE_RUNNING);
    TAP_OK(!fakes[0].entity.ready);
    hv_sched_wake(&fakes[0].entity);
    hv_sched_wake(&fakes[0].entity);
    hv_race_release(1, "sched.put-back");
    TAP_AWAIT(hv_load_seq(&fakes[0].runs) == 2);
    TAP_AWAIT(state_of(&fakes[0]) == HV_SCHED_STATE_BLOCKED);
    TAP_EQ(fakes[0].runs, 2);
    hv_sched_retire(sched, &fakes[0].entity);
    end();
}

/* Home is busy and another worker sleeps: it goes there. */
static void test_placing(void)
{
    TAP_OK(start(2));
    TAP_OK(occupy(0, 0));
    TAP_AWAIT(idle(1));
    fake_entity_init(&fakes[1], sched, 0, 0);
    hv_sched_wake(&fakes[1].entity);
    TAP_AWAIT(hv_load_seq(&fakes[1].runs) == 1);
    TAP_EQ(fakes[1].last_worker, 1);
    TAP_AWAIT(state_of(&fakes[1]) == HV_SCHED_STATE_BLOCKED);
    TAP_EQ(fakes[1].entity.counters.migrations, 1);
    hv_race_end();
    hv_sched_retire(sched, &fakes[0].entity);
    hv_sched_retire(sched, &fakes[1].entity);
    end();
}

/* Both are busy: it waits at home, and whoever is free first takes it. */
static void test_stealing(void)
{
    TAP_OK(start(2));
    TAP_OK(occupy(0, 0));
    TAP_OK(occupy(1, 1));
    fake_entity_init(&fakes[2], sched, 0, 0);
    hv_sched_wake(&fakes[2].entity);
    TAP_EQ(state_of(&fakes[2]), HV_SCHED_STATE_READY);
    TAP_EQ(sched->queues.queue[0].waiting, 1);
    hv_race_release(2, "fake.run");
    TAP_AWAIT(hv_load_seq(&fakes[2].runs) == 1);
    TAP_EQ(fakes[2].last_worker, 1);
    TAP_EQ(hv_sched_stolen(sched, 1), 1);
    TAP_EQ(sched->queues.queue[0].waiting, 0);
    hv_race_end();
    for (unsigned i = 0; i < 3; i++) {
        hv_sched_retire(sched, &fakes[i].entity);
    }
    end();
}

static void test_retire_ready(void)
{
    TAP_OK(start(1));
    TAP_OK(occupy(0, 0));
    fake_entity_init(&fakes[1], sched, 0, 0);
    hv_sched_wake(&fakes[1].entity);
    TAP_EQ(state_of(&fakes[1]), HV_SCHED_STATE_READY);
    hv_sched_retire(sched, &fakes[1].entity);
    TAP_EQ(sched->queues.queue[0].waiting, 0);
    hv_race_end();
    hv_sched_retire(sched, &fakes[0].entity);
    TAP_EQ(fakes[1].runs, 0);
    end();
}

static void retire_named(unsigned index, void *context)
{
    struct fake_entity *fake = context;

    hv_race_name_thread(10 + index);
    hv_sched_retire(sched, &fake->entity);
    hv_add_seq(&retired, 1 + hv_load_seq(&fake->inside));
}

/* Invariant 3, with two who wait, and a `run` that would go on for ever. */
static void test_retire_running(void)
{
    struct threads threads;

    TAP_OK(start(1));
    TAP_OK(occupy(0, 0));
    hv_store_seq(&fakes[0].yields, UINT32_MAX);
    hv_race_stop(10, "sched.retire.waits", 0);
    hv_race_stop(11, "sched.retire.waits", 0);
    threads_start(&threads, 2, retire_named, &fakes[0]);
    TAP_OK(hv_race_await(10, "sched.retire.waits"));
    TAP_OK(hv_race_await(11, "sched.retire.waits"));
    TAP_EQ(retired, 0);
    /* It was asked to stop. */
    TAP_EQ(fakes[0].bell.requests, HV_REQUEST_STOP);
    hv_race_release(11, "sched.retire.waits");
    hv_race_release(1, "fake.run");
    TAP_AWAIT(hv_load_seq(&retired) >= 1);
    hv_race_end();
    threads_join(&threads);
    TAP_EQ(retired, 2);
    TAP_EQ(fakes[0].runs, 1);
    TAP_EQ(state_of(&fakes[0]), HV_SCHED_STATE_RETIRED);
    end();
}

static void wake_named(unsigned index, void *context)
{
    hv_race_name_thread(10 + index);
    hv_sched_wake(&((struct fake_entity *)context)->entity);
}

/* Placed on an idle worker, and retired in the moment when no lock is held. */
static void test_retire_placed(void)
{
    struct threads threads;

    TAP_OK(start(2));
    TAP_OK(occupy(0, 0));
    TAP_AWAIT(idle(1));
    fake_entity_init(&fakes[1], sched, 0, 0);
    hv_race_stop(10, "sched.wake.moved", 0);
    threads_start(&threads, 1, wake_named, &fakes[1]);
    TAP_OK(hv_race_await(10, "sched.wake.moved"));
    hv_sched_retire(sched, &fakes[1].entity);
    hv_race_end();
    threads_join(&threads);
    TAP_EQ(fakes[1].runs, 0);
    TAP_EQ(state_of(&fakes[1]), HV_SCHED_STATE_RETIRED);
    /* The claimed worker was rung all the same: it is idle again. */
    TAP_AWAIT(idle(1));
    hv_sched_retire(sched, &fakes[0].entity);
    end();
}

/* Invariant 4, seen by the worker: the wake comes when it has found nothing, and is not idle yet. */
static void test_wake_late(void)
{
    TAP_OK(start(1));
    TAP_OK(occupy(0, 0));
    hv_race_stop(1, "sched.worker.empty", 0);
    hv_race_release(1, "fake.run");
    TAP_OK(hv_race_await(1, "sched.worker.empty"));
    fake_entity_init(&fakes[1], sched, 0, 0);
    hv_sched_wake(&fakes[1].entity);
    TAP_EQ(sched->workers[0].bell.requests, 0);
    hv_race_end();
    TAP_AWAIT(hv_load_seq(&fakes[1].runs) == 1);
    hv_sched_retire(sched, &fakes[0].entity);
    hv_sched_retire(sched, &fakes[1].entity);
    end();
}

/* Invariant 4, seen by the wake: a worker falls asleep between its look at them and its push. */
static void test_wake_early(void)
{
    struct threads threads;

    TAP_OK(start(2));
    TAP_OK(occupy(0, 0));
    TAP_OK(occupy(1, 1));
    fake_entity_init(&fakes[2], sched, 0, 0);
    hv_race_stop(10, "sched.wake.placing", 0);
    threads_start(&threads, 1, wake_named, &fakes[2]);
    TAP_OK(hv_race_await(10, "sched.wake.placing"));
    hv_race_release(2, "fake.run");
    TAP_AWAIT(idle(1));
    hv_race_release(10, "sched.wake.placing");
    TAP_AWAIT(hv_load_seq(&fakes[2].runs) == 1);
    TAP_EQ(fakes[2].last_worker, 1);
    threads_join(&threads);
    hv_race_end();
    for (unsigned i = 0; i < 3; i++) {
        hv_sched_retire(sched, &fakes[i].entity);
    }
    end();
}

/* Two wakes of one entity, the first between its two locks: one run, nobody left claimed. */
static void test_wake_twice(void)
{
    struct threads threads;

    TAP_OK(start(3));
    TAP_OK(occupy(0, 0));
    TAP_AWAIT(idle(1) && idle(2));
    fake_entity_init(&fakes[1], sched, 0, 0);
    hv_race_stop(10, "sched.wake.moved", 0);
    threads_start(&threads, 1, wake_named, &fakes[1]);
    TAP_OK(hv_race_await(10, "sched.wake.moved"));
    hv_sched_wake(&fakes[1].entity);
    TAP_AWAIT(hv_load_seq(&fakes[1].runs) == 1 && state_of(&fakes[1]) == HV_SCHED_STATE_BLOCKED);
    hv_race_release(10, "sched.wake.moved");
    threads_join(&threads);
    /* The first wake found it blocked again, and so runs it again: late, but never lost. */
    TAP_AWAIT(state_of(&fakes[1]) == HV_SCHED_STATE_BLOCKED && idle(1) && idle(2));
    TAP_OK(hv_load_seq(&fakes[1].runs) <= 2);
    TAP_EQ(fakes[1].overlaps, 0);
    hv_race_end();
    hv_sched_retire(sched, &fakes[0].entity);
    hv_sched_retire(sched, &fakes[1].entity);
    end();
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"sched.sched.run-and-block", test_run_and_block},
        {"sched.sched.yield", test_yield},
        /* From here on by script. */
        {"sched.sched.wake-running", test_wake_running},
        {"sched.sched.wake-blocking", test_wake_blocking},
        {"pv.kick-lost.put-back", test_kick_halting},
        {"sched.sched.wake-twice", test_wake_twice},
        {"sched.sched.wake-late", test_wake_late},
        {"sched.sched.wake-early", test_wake_early},
        {"sched.sched.placing", test_placing},
        {"sched.sched.stealing", test_stealing},
        {"sched.sched.retire-ready", test_retire_ready},
        {"sched.sched.retire-running", test_retire_running},
        {"sched.sched.retire-placed", test_retire_placed},
    };
    return tap_run(argc, argv, cases, HV_CONFIG_RACE_POINTS ? HV_ARRAY_LEN(cases) : 2);
}
