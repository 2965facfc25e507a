/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Exclusive accesses: who is in a block keeps the exclusive one waiting, and is kept out by it.
 * vCPU 0 runs on the main thread, others on their own.
 */
#include "engine/soft/access.h"

#include <sched.h>

#include "lib/threads.h"
#include "soft-tables.h"

#define SCRATCH UINT64_C(0x50000)
/* A counter across a page's edge. */
#define SHARED  (SCRATCH + HV_PAGE_SIZE - 3)

struct crowd {
    struct guest *guest;
    _Atomic unsigned failures;
    _Atomic unsigned in_block;
    _Atomic unsigned alone;
    _Atomic unsigned arrived;
};

static struct guest *guest_with_vcpus(void)
{
    struct guest *guest = guest_create();

    for (unsigned i = 1; i < GUEST_VCPUS; i++) {
        guest_add_vcpu(guest, i);
    }
    for (unsigned i = 0; i < GUEST_VCPUS; i++) {
        guest_long_mode(guest, i);
        hv_doorbell_leave(&guest->bell[i]);
    }
    return guest;
}

/* A block's edge, as the interpreter has it. */
static void edge(struct hv_engine_vcpu *vcpu)
{
    if (hv_load_relaxed(&vcpu->bell->exit_request)) {
        soft_serve(vcpu, hv_doorbell_take(vcpu->bell));
        hv_doorbell_acknowledge(vcpu->bell);
    }
}

static void expect(struct crowd *crowd, bool condition)
{
    if (!condition) {
        hv_add_seq(&crowd->failures, 1);
    }
}

/* One locked increment, during which nobody may be in a block. */
static void increment_locked(struct hv_engine_vcpu *vcpu, struct crowd *crowd, unsigned yields)
{
    void *place;

    if (soft_rmw_begin(vcpu, SHARED, 8, true, &place)) {
        expect(crowd, false);
        return;
    }
    expect(crowd, hv_add_seq(&crowd->alone, 1) == 0);
    expect(crowd, hv_load_seq(&crowd->in_block) == 0);
    for (unsigned i = 0; i < yields; i++) {
        sched_yield();
    }
    hv_store_le(place, hv_load_le(place, 8) + 1, 8);
    hv_sub_seq(&crowd->alone, 1);
    expect(crowd, soft_rmw_commit(vcpu) == 0);
}

/* An increment by plain accesses: a block that no exclusive access may fall into. */
static void increment_plain(struct hv_engine_vcpu *vcpu, struct crowd *crowd, unsigned yields)
{
    uint64_t value;

    hv_add_seq(&crowd->in_block, 1);
    expect(crowd, hv_load_seq(&crowd->alone) == 0);
    expect(crowd, soft_read_slow(vcpu, SHARED, 8, &value) == 0);
    for (unsigned i = 0; i < yields; i++) {
        sched_yield();
    }
    expect(crowd, soft_write_slow(vcpu, SHARED, 8, value + 1) == 0);
    hv_sub_seq(&crowd->in_block, 1);
}

static void lock_once(unsigned index, void *context)
{
    struct crowd *crowd = context;
    struct hv_engine_vcpu *vcpu = &crowd->guest->vcpu[1];

    (void)index;
    guest_reenter(crowd->guest, 1);
    increment_locked(vcpu, crowd, 0);
    hv_store_seq(&crowd->arrived, 1);
    hv_doorbell_leave(vcpu->bell);
}

/* It waits for a block's end, however long that takes. */
static void test_waits_for_the_edge(void)
{
    struct guest *guest = guest_with_vcpus();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    struct crowd crowd = {.guest = guest, .in_block = 1};
    struct threads threads;

    guest_reenter(guest, 0);
    threads_start(&threads, 1, lock_once, &crowd);
    TAP_AWAIT(hv_load_seq(&vcpu->bell->requests) & HV_REQUEST_EXCLUSIVE);
    for (unsigned i = 0; i < 1000 && !hv_load_seq(&crowd.arrived); i++) {
        sched_yield();
    }
    TAP_EQ(hv_load_seq(&crowd.arrived), 0);
    hv_store_seq(&crowd.in_block, 0);
    edge(vcpu); /* parks until the other is done */
    TAP_AWAIT(hv_load_seq(&crowd.arrived));
    threads_join(&threads);
    TAP_EQ(hv_load_seq(&crowd.failures), 0);
    guest_destroy(guest);
}

/* It does not wait for one who is OUTSIDE. */
static void test_passes_who_is_outside(void)
{
    struct guest *guest = guest_with_vcpus();
    struct crowd crowd = {.guest = guest};

    threads_run(1, lock_once, &crowd);
    TAP_EQ(hv_load_seq(&crowd.arrived), 1);
    TAP_EQ(hv_load_seq(&crowd.failures), 0);
    guest_destroy(guest);
}

static void enter_once(unsigned index, void *context)
{
    struct crowd *crowd = context;
    struct hv_engine_vcpu *vcpu = &crowd->guest->vcpu[1];

    (void)index;
    /* A run loop that does not know the request: entry itself must see to it. */
    (void)hv_doorbell_take(vcpu->bell);
    expect(crowd, soft_enter(vcpu) == 0);
    expect(crowd, hv_load_seq(&crowd->alone) == 0);
    hv_store_seq(&crowd->arrived, 1);
    hv_doorbell_leave(vcpu->bell);
}

/* Nobody enters into it. */
static void test_keeps_out(void)
{
    struct guest *guest = guest_with_vcpus();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    struct crowd crowd = {.guest = guest};
    struct threads threads;
    void *place;

    guest_reenter(guest, 0);
    TAP_EQ(soft_rmw_begin(vcpu, SHARED, 8, true, &place), 0);
    hv_store_seq(&crowd.alone, 1);
    threads_start(&threads, 1, enter_once, &crowd);
    TAP_AWAIT(hv_load_seq(&guest->domain.exclusive.parked) & HV_BIT(1));
    TAP_EQ(hv_load_seq(&crowd.arrived), 0);
    hv_store_seq(&crowd.alone, 0);
    TAP_EQ(soft_rmw_commit(vcpu), 0);
    TAP_AWAIT(hv_load_seq(&crowd.arrived));
    threads_join(&threads);
    TAP_EQ(hv_load_seq(&crowd.failures), 0);
    guest_destroy(guest);
}

/*
 * Two vCPUs increment the counter under LOCK, a third by plain accesses: no increment is lost only
 * when blocks and exclusive accesses exclude each other, and none waits for ever only when two that
 * begin at once do.
 */
#define ROUNDS 500u

static void run_vcpu(unsigned index, void *context)
{
    struct crowd *crowd = context;
    struct hv_engine_vcpu *vcpu = &crowd->guest->vcpu[index];

    guest_reenter(crowd->guest, index);
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (index < 2) {
            increment_locked(vcpu, crowd, i % 8 == 0);
        } else {
            increment_plain(vcpu, crowd, i % 2);
        }
        edge(vcpu);
        if (i % 16 == 15) {
            guest_reenter(crowd->guest, index);
        }
    }
    hv_doorbell_leave(vcpu->bell);
}

static void test_crowd(void)
{
    struct guest *guest = guest_with_vcpus();
    struct crowd crowd = {.guest = guest};
    uint64_t value;

    threads_run(GUEST_VCPUS, run_vcpu, &crowd);
    TAP_EQ(hv_load_seq(&crowd.failures), 0);
    guest_reenter(guest, 0);
    TAP_EQ(soft_read_slow(&guest->vcpu[0], SHARED, 8, &value), 0);
    TAP_EQ(value, GUEST_VCPUS * ROUNDS);
    guest_destroy(guest);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.exclusive.waits-for-the-edge", test_waits_for_the_edge},
        {"engine.exclusive.passes-who-is-outside", test_passes_who_is_outside},
        {"engine.exclusive.keeps-out", test_keeps_out},
        {"engine.exclusive.crowd", test_crowd},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
