/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sched/worker: start and stop, failures, timers of idle and of busy workers, slices in a guest. */
#include "sched/sched.h"

#include <errno.h>

#include "base/alloc.h"
#include "lib/fake-entity.h"
#include "lib/threads.h"
#include "mem/arena.h"
#include "mem/heap.h"

static struct hv_clock sim, host;
static struct hv_sched *sched;

static void start_clocks(void)
{
    hv_clock_init_simulated(&sim, (hv_ns){1000});
    hv_clock_init_host(&host);
}

static void test_create(void)
{
    start_clocks();
    TAP_EQ(fake_sched_create(0, &host, NULL, &sched), -EINVAL);
    TAP_OK(!sched);
    TAP_EQ(fake_sched_create(HV_SCHED_MAX_WORKERS + 1, &host, NULL, &sched), -EINVAL);
    for (unsigned workers = 1; workers <= 4; workers++) {
        TAP_EQ(fake_sched_create(workers, &host, NULL, &sched), 0);
        TAP_EQ(hv_sched_workers(sched), workers);
        TAP_OK(hv_sched_timer_queue(sched, 1) == hv_sched_timer_queue(sched, 1 + workers));
        hv_sched_destroy(sched);
    }
    hv_sched_destroy(NULL);
}

static void test_no_memory(void)
{
    int64_t live = hv_alloc_live();
    int error = -ENOMEM;
    uint64_t nth = 0;

    start_clocks();
    while (error < 0) {
        hv_alloc_fail_at(++nth);
        error = fake_sched_create(3, &host, NULL, &sched);
        TAP_OK(error == 0 || error == -ENOMEM);
        TAP_OK(error == 0 || (!sched && hv_alloc_live() == live));
    }
    hv_alloc_fail_at(0);
    /* The scheduler, the run queues, the deadline thread: each failed once. */
    TAP_EQ(nth, 4);
    hv_sched_destroy(sched);
    TAP_EQ(hv_alloc_live(), live);
}

static void count_up(struct hv_timer *timer, void *context)
{
    (void)timer;
    hv_add_seq((_Atomic uint32_t *)context, 1);
}

static void make_timer(struct hv_timer *timer, unsigned index, hv_timer_callback *callback,
                       void *context)
{
    hv_timer_init(timer, hv_sched_timer_queue(sched, index), callback, context, HV_RANK_VPT);
}

/* A worker that sleeps is woken by its timer, on either clock. */
static void test_idle_timer(void)
{
    _Atomic uint32_t count = 0;
    struct hv_timer timer;

    start_clocks();
    TAP_EQ(fake_sched_create(2, &host, NULL, &sched), 0);
    make_timer(&timer, 1, count_up, (void *)&count);
    for (uint32_t i = 1; i <= 20; i++) {
        hv_timer_arm(&timer, hv_ns_add(hv_clock_now(&host), 50000));
        TAP_AWAIT(hv_load_seq(&count) == i);
    }
    hv_timer_finish(&timer);
    hv_sched_destroy(sched);

    TAP_EQ(fake_sched_create(2, &sim, NULL, &sched), 0);
    make_timer(&timer, 1, count_up, (void *)&count);
    hv_timer_arm(&timer, (hv_ns){5000});
    hv_clock_advance(&sim, 3999);
    hv_sched_clock_moved(sched);
    hv_clock_advance(&sim, 1);
    hv_sched_clock_moved(sched);
    TAP_AWAIT(hv_load_seq(&count) == 21);
    hv_timer_finish(&timer);
    hv_sched_destroy(sched);
}

/* ---- a fake engine: polls the bell as block edges do ---- */

struct guest {
    struct hv_sched_entity entity;
    struct hv_doorbell bell;
    struct hv_timer timer;
    _Atomic uint32_t in_guest, slices, fired, exits;
    hv_ns deadline; /* as the last entry was told */
};

static void guest_main_loop(struct guest *guest, struct hv_worker *worker, hv_ns slice_end)
{
    hv_ns deadline = hv_worker_set_deadline(worker, &guest->bell, slice_end);

    hv_qsbr_offline(hv_worker_reader(worker));
    if (hv_doorbell_enter(&guest->bell) == 0) {
        guest->deadline = deadline;
        hv_store_seq(&guest->in_guest, 1);
        while (!hv_load_relaxed(&guest->bell.exit_request)) {
            threads_patient(0);
        }
        hv_store_seq(&guest->in_guest, 0);
        hv_doorbell_leave(&guest->bell);
    }
    hv_qsbr_online(hv_worker_reader(worker));
    hv_worker_clear_deadline(worker);
}

static enum hv_sched_verdict guest_run(void *context, struct hv_worker *worker, hv_ns slice_end)
{
    struct guest *guest = context;

    hv_add_seq(&guest->slices, 1);
    for (;;) {
        (void)hv_doorbell_take(&guest->bell);
        hv_worker_run_timers(worker);
        if (hv_sched_slice_over(worker, slice_end)) {
            return HV_SCHED_YIELD;
        }
        guest_main_loop(guest, worker, slice_end);
        hv_add_seq(&guest->exits, 1);
    }
}

static void guest_start(struct guest *guest, unsigned home)
{
    *guest = (struct guest){0};
    hv_doorbell_init(&guest->bell);
    guest->entity.run = guest_run;
    guest->entity.context = guest;
    guest->entity.bell = &guest->bell;
    HV_BUG_ON(hv_sched_entity_init(sched, &guest->entity, home) < 0);
    hv_sched_wake(&guest->entity);
}

/* Two guests that never leave by themselves share one worker: the deadline thread ends slices. */
static void test_slices(void)
{
    static struct guest guests[2];

    start_clocks();
    TAP_EQ(fake_sched_create(1, &host, NULL, &sched), 0);
    guest_start(&guests[0], 0);
    guest_start(&guests[1], 0);
    TAP_AWAIT(hv_load_seq(&guests[0].slices) >= 3 && hv_load_seq(&guests[1].slices) >= 3);
    hv_sched_retire(sched, &guests[0].entity);
    hv_sched_retire(sched, &guests[1].entity);
    TAP_OK(guests[0].entity.counters.run_ns > 0);
    TAP_OK(hv_sched_worker_counters(sched, 0)->switches >= 6);
    hv_sched_destroy(sched);
}

/* On a clock that stands, nothing but the arming of the timer can bring the guest out. */
static void test_timer_in_guest(void)
{
    static struct guest guest;

    start_clocks();
    TAP_EQ(fake_sched_create(1, &sim, NULL, &sched), 0);
    guest_start(&guest, 0);
    make_timer(&guest.timer, 0, count_up, (void *)&guest.fired);
    for (uint32_t i = 1; i <= 100; i++) {
        TAP_AWAIT(hv_load_seq(&guest.in_guest) == 1);
        hv_timer_arm(&guest.timer, (hv_ns){0});
        TAP_AWAIT(hv_load_seq(&guest.fired) == i);
    }
    TAP_EQ(guest.slices, 1);
    /* The next entry is told of the timer's deadline, when that is before the slice's end. */
    TAP_AWAIT(hv_load_seq(&guest.in_guest) == 1);
    hv_timer_arm(&guest.timer, (hv_ns){2000});
    TAP_AWAIT(hv_load_seq(&guest.exits) >= 101 && hv_load_seq(&guest.in_guest) == 1);
    hv_sched_retire(sched, &guest.entity);
    TAP_EQ(guest.deadline.v, 2000);
    hv_timer_finish(&guest.timer);
    hv_sched_destroy(sched);
}

/* Alone, it is left in peace; with another who waits, until the end of a slice. */
static void test_alone(void)
{
    static struct guest guests[2];

    start_clocks();
    TAP_EQ(fake_sched_create(1, &sim, NULL, &sched), 0);
    guest_start(&guests[0], 0);
    TAP_AWAIT(hv_load_seq(&guests[0].in_guest) == 1);
    guest_start(&guests[1], 0);
    TAP_AWAIT(hv_load_seq(&guests[0].exits) == 1 && hv_load_seq(&guests[0].in_guest) == 1);
    TAP_EQ(guests[0].slices, 1);
    hv_sched_retire(sched, &guests[0].entity);
    TAP_EQ(guests[0].deadline.v, 1000 + 3 * HV_NS_PER_MS);
    TAP_AWAIT(hv_load_seq(&guests[1].in_guest) == 1);
    hv_sched_retire(sched, &guests[1].entity);
    TAP_EQ(guests[1].deadline.v, 1000 + 100 * HV_NS_PER_MS);
    hv_sched_destroy(sched);
}

/* ---- grace periods ---- */

struct block {
    struct hv_qsbr_call call;
    _Atomic uint32_t freed;
};

static void note_freed(struct hv_qsbr_call *call)
{
    hv_store_seq(&HV_CONTAINER_OF(call, struct block, call)->freed, 1);
}

/* Neither a sleeping worker nor one in a guest holds up a grace period. */
static void test_grace_periods(void)
{
    static struct guest guest;
    struct block block = {.freed = 0};

    start_clocks();
    TAP_EQ(fake_sched_create(2, &sim, NULL, &sched), 0);
    guest_start(&guest, 0);
    TAP_AWAIT(hv_load_seq(&guest.in_guest) == 1);
    hv_qsbr_synchronize(hv_sched_qsbr(sched));
    /* Workers run what is due between slices. */
    hv_qsbr_call(hv_sched_qsbr(sched), &block.call, note_freed);
    hv_sched_clock_moved(sched);
    TAP_AWAIT(hv_load_seq(&block.freed) == 1);
    hv_sched_retire(sched, &guest.entity);
    hv_sched_destroy(sched);
}

/* Allocates a frame and frees it, once. */
static struct user {
    struct hv_sched_entity entity;
    struct hv_doorbell bell;
    struct hv_arena *arena;
    _Atomic uint32_t done;
    int err;
} user;

static enum hv_sched_verdict use_heap(void *context, struct hv_worker *worker, hv_ns slice_end)
{
    struct hv_heap *heap = hv_arena_heap(user.arena);
    hv_mfn mfn;

    (void)context;
    (void)worker;
    (void)slice_end;
    user.err = hv_heap_claim(heap, 1);
    if (!user.err) {
        user.err = hv_heap_alloc_frame(heap, 1, &mfn);
    }
    if (!user.err) {
        hv_frame_put(user.arena, mfn);
    }
    hv_store_seq(&user.done, 1);
    return HV_SCHED_BLOCK;
}

/* Workers keep magazines of the heap's frames, and have given them back when they are gone. */
static void test_heap(void)
{
    const struct hv_arena_config config = {HV_BACKING_KIND_NONE, HV_EXTENT_SIZE};
    struct hv_heap_info info;

    start_clocks();
    user = (struct user){0};
    TAP_EQ(hv_arena_create(&config, &user.arena), 0);
    TAP_EQ(fake_sched_create(2, &host, hv_arena_heap(user.arena), &sched), 0);
    hv_doorbell_init(&user.bell);
    user.entity.run = use_heap;
    user.entity.bell = &user.bell;
    TAP_EQ(hv_sched_entity_init(sched, &user.entity, 0), 0);
    hv_sched_wake(&user.entity);
    TAP_AWAIT(hv_load_seq(&user.done));
    hv_sched_retire(sched, &user.entity);
    TAP_EQ(user.err, 0);
    hv_heap_get_info(hv_arena_heap(user.arena), &info);
    TAP_OK(info.magazine_frames > 0);
    TAP_EQ(info.free_frames, info.total_frames);
    hv_sched_destroy(sched);
    hv_heap_get_info(hv_arena_heap(user.arena), &info);
    TAP_EQ(info.magazine_frames, 0);
    TAP_EQ(info.free_frames, info.total_frames);
    TAP_EQ(info.claimed_frames, 0);
    hv_arena_destroy(user.arena);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"sched.worker.create", test_create},
        {"sched.worker.no-memory", test_no_memory},
        {"sched.worker.idle-timer", test_idle_timer},
        {"sched.worker.slices", test_slices},
        {"sched.worker.timer-in-guest", test_timer_in_guest},
        {"sched.worker.alone", test_alone},
        {"sched.worker.grace-periods", test_grace_periods},
        {"sched.worker.heap", test_heap},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
