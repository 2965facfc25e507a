/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * vCPUs that send each other interrupts, devices that raise wires and timers that fire, all at
 * once: nothing sent may be lost, and no kick may be missed. Meant for ThreadSanitizer as well.
 */
#include "platform/platform.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "lib/tap.h"

#define THREADS 4u
#define ROUNDS  1500u
#define VECTOR  0x40u /* plus the sender */
#define PIN     20u

struct arena {
    struct hv_clock clock;
    struct hv_doorbell bell;
    struct hv_timer_queue queue;
    struct hv_bus bus;
    struct hv_platform platform;
    struct hv_log_limit log_limit;
    _Atomic uint64_t kicks[THREADS], nmis[THREADS];
    _Atomic uint32_t acknowledged[THREADS][THREADS]; /* [receiver][sender] */
    _Atomic uint32_t stop;
    _Atomic uint32_t level_taken, timers_taken;
};

static struct arena arena;

static void arena_kick(void *context, unsigned vcpu)
{
    hv_add_relaxed(&((struct arena *)context)->kicks[vcpu], 1);
}

static void arena_nmi(void *context, unsigned vcpu)
{
    hv_add_relaxed(&((struct arena *)context)->nmis[vcpu], 1);
}

static void arena_sipi(void *context, unsigned vcpu, uint8_t vector)
{
    (void)context;
    (void)vcpu;
    (void)vector;
}

static void arena_nothing(void *context)
{
    (void)context;
}

static void arena_exit(void *context, uint32_t code)
{
    (void)context;
    (void)code;
}

static const struct hv_platform_ops arena_ops = {
    .kick = arena_kick,
    .init = arena_nmi,
    .nmi = arena_nmi,
    .sipi = arena_sipi,
    .poweroff = arena_nothing,
    .reset = arena_nothing,
    .debug_exit = arena_exit,
};

static bool arena_make(void)
{
    struct hv_timer_queue *queues[THREADS];
    struct hv_platform_config config = {
        .bus = &arena.bus,
        .clock = &arena.clock,
        .queues = queues,
        .vcpus = THREADS,
        .testdev = true,
        .ops = &arena_ops,
        .ops_context = &arena,
        .log_limit = &arena.log_limit,
    };

    memset(&arena, 0, sizeof(arena));
    hv_clock_init_host(&arena.clock);
    hv_doorbell_init(&arena.bell);
    hv_bus_init(&arena.bus);
    for (unsigned i = 0; i < THREADS; i++) {
        queues[i] = &arena.queue;
    }
    hv_timer_queue_init(&arena.queue, &arena.clock, &arena.bell, 0);
    return hv_platform_init(&arena.platform, &config) == 0;
}

static void arena_finish(void)
{
    hv_platform_finish(&arena.platform);
    hv_timer_queue_finish(&arena.queue);
}

static void mmio_write(unsigned vcpu, uint64_t address, uint32_t value)
{
    if (hv_bus_write(&arena.bus, HV_BUS_MMIO, vcpu, address, 4, value) != 0) {
        tap_fail(__FILE__, __LINE__, "write to %#" PRIx64, address);
    }
}

static void apic_write(unsigned vcpu, uint32_t offset, uint32_t value)
{
    mmio_write(vcpu, HV_LAPIC_DEFAULT_BASE + offset, value);
}

/* Take what is there, as the run loop does: look at the word first. Returns whether there was. */
static bool serve(unsigned vcpu)
{
    int vector;

    if (!hv_platform_interrupt_pending(&arena.platform, vcpu)) {
        return false;
    }
    vector = hv_platform_interrupt_acknowledge(&arena.platform, vcpu);
    if (vector < 0) {
        return false;
    }
    if (vector >= (int)VECTOR && vector < (int)(VECTOR + THREADS)) {
        hv_add_seq(&arena.acknowledged[vcpu][(unsigned)vector - VECTOR], 1);
    } else if (vector == 0x60) {
        /* The level-triggered one: quiet its device, then end it. */
        hv_platform_set_gsi(&arena.platform, PIN, false);
        hv_add_seq(&arena.level_taken, 1);
    } else if (vector == 0xee) {
        hv_add_seq(&arena.timers_taken, 1);
    }
    apic_write(vcpu, 0xb0, 0);
    return true;
}

/* A vCPU: sends to the next one, waits until that has taken it, and serves meanwhile. */
static void *vcpu_thread(void *argument)
{
    unsigned vcpu = (unsigned)(uintptr_t)argument;
    unsigned target = (vcpu + 1) % THREADS;

    apic_write(vcpu, 0x3e0, 0xb);
    apic_write(vcpu, 0x320, 0x200ee);
    apic_write(vcpu, 0x380, 10000); /* 400 µs */
    for (unsigned i = 0; i < ROUNDS; i++) {
        apic_write(vcpu, 0x310, target << 24);
        apic_write(vcpu, 0x300, 0x4000 | (VECTOR + vcpu));
        hv_platform_cr8_write(&arena.platform, vcpu, i % 3);
        while (hv_load_seq(&arena.acknowledged[target][vcpu]) <= i) {
            if (!serve(vcpu)) {
                sched_yield();
            }
        }
    }
    /* Others may still send here. */
    while (hv_load_seq(&arena.acknowledged[vcpu][(vcpu + THREADS - 1) % THREADS]) < ROUNDS) {
        if (!serve(vcpu)) {
            sched_yield();
        }
    }
    apic_write(vcpu, 0x320, 0x100ee);
    return NULL;
}

/* The outside: wires, messages, NMIs, and the worker's timers. */
static void *device_thread(void *argument)
{
    (void)argument;
    for (unsigned i = 0; !hv_load_seq(&arena.stop); i++) {
        hv_platform_set_gsi(&arena.platform, PIN, true);
        hv_platform_msi(&arena.platform, 0xfee00000 | (i % THREADS) << 12, 0x4000 | 0x70);
        hv_platform_msi(&arena.platform, 0xfee01000, 0x0400);
        hv_platform_set_gsi(&arena.platform, i % 16, i & 16);
        hv_timer_queue_run(&arena.queue, hv_clock_now(&arena.clock));
        sched_yield();
    }
    return NULL;
}

static void test_all_at_once(void)
{
    pthread_t threads[THREADS], device;

    TAP_OK(arena_make());
    for (unsigned i = 0; i < THREADS; i++) {
        apic_write(i, 0xf0, 0x1ff); /* before anybody sends: a disabled one takes nothing */
    }
    mmio_write(0, HV_IOAPIC_BASE, 0x10 + PIN * 2);
    mmio_write(0, HV_IOAPIC_BASE + 0x10, 0x8060); /* level, to vCPU 0 */
    for (unsigned i = 0; i < THREADS; i++) {
        TAP_EQ(pthread_create(&threads[i], NULL, vcpu_thread, (void *)(uintptr_t)i), 0);
    }
    TAP_EQ(pthread_create(&device, NULL, device_thread, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    hv_store_seq(&arena.stop, 1);
    pthread_join(device, NULL);
    for (unsigned i = 0; i < THREADS; i++) {
        TAP_EQ(hv_load_seq(&arena.acknowledged[(i + 1) % THREADS][i]), ROUNDS);
        TAP_OK(hv_load_seq(&arena.kicks[i]) > 0);
    }
    TAP_OK(hv_load_seq(&arena.level_taken) > 0);
    TAP_OK(hv_load_seq(&arena.nmis[1]) > 0);
    arena_finish();
}

/* Statistics and a pause while everything runs: no lock is missing, nothing stands still. */
static void *churn_thread(void *argument)
{
    unsigned vcpu = (unsigned)(uintptr_t)argument;

    apic_write(vcpu, 0xf0, 0x1ff);
    apic_write(vcpu, 0x320, 0x200ee);
    while (!hv_load_seq(&arena.stop)) {
        apic_write(vcpu, 0x380, 10000);
        serve(vcpu);
        apic_write(vcpu, 0x380, 0);
        apic_write(vcpu, 0x300, 0xc4000 | (VECTOR + vcpu)); /* to all others */
    }
    return NULL;
}

static void test_watched(void)
{
    pthread_t threads[2];

    TAP_OK(arena_make());
    for (unsigned i = 0; i < 2; i++) {
        TAP_EQ(pthread_create(&threads[i], NULL, churn_thread, (void *)(uintptr_t)i), 0);
    }
    for (unsigned i = 0; i < 200; i++) {
        struct hv_platform_timer timer;

        for (unsigned j = 0; j < hv_platform_timers(&arena.platform); j++) {
            hv_platform_get_timer(&arena.platform, j, &timer);
        }
        hv_platform_pause(&arena.platform);
        hv_platform_resume(&arena.platform);
        hv_timer_queue_run(&arena.queue, hv_clock_now(&arena.clock));
    }
    hv_store_seq(&arena.stop, 1);
    for (unsigned i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    arena_finish();
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"platform.threads.all-at-once", test_all_at_once},
        {"platform.threads.watched", test_watched},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}
