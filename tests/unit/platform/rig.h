/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A whole platform under a simulated clock, for the tests of its devices: what the devices ask of
 * the machine is counted, time moves only by rig_advance(), which fires the timers on the way.
 */
#pragma once

#include <limits.h>
#include <string.h>

#include "lib/tap.h"
#include "platform/platform.h"

#define RIG_VCPUS         4u
#define RIG_CONSOLE_BYTES 8192u

struct rig {
    struct hv_clock clock;
    struct hv_doorbell bell;
    struct hv_timer_queue queue;
    struct hv_timer_queue *queues[HV_MAX_VCPUS];
    struct hv_bus bus;
    struct hv_platform platform;
    struct hv_log_limit log_limit;
    struct hv_console_ops console;
    /* What was asked of the machine. */
    unsigned kicks[HV_MAX_VCPUS], inits[HV_MAX_VCPUS], nmis[HV_MAX_VCPUS], sipis[HV_MAX_VCPUS];
    unsigned looks[HV_MAX_VCPUS];
    uint8_t sipi_vector;
    unsigned poweroffs, resets, exits;
    uint32_t exit_code;
    uint64_t tsc_offset;
    uint64_t tsc_apart[HV_MAX_VCPUS]; /* of one vCPU, beyond that */
    /* The console's sink: takes at most `room` more bytes. */
    size_t room;
    size_t written;
    uint8_t output[RIG_CONSOLE_BYTES];
};

/* For tests of areas that the guest shares, set before the rig is made. */
static struct hv_memory *rig_memory;
static uint32_t rig_pv_features;
/* For tests of time that passes while the machine does not run, and of what it may lack. */
static enum hv_clock_policy rig_clock_policy;
static enum hv_rtc_track rig_rtc_track;
static unsigned rig_timers_absent;

static void rig_kick(void *context, unsigned vcpu)
{
    ((struct rig *)context)->kicks[vcpu]++;
}

static void rig_init_signal(void *context, unsigned vcpu)
{
    ((struct rig *)context)->inits[vcpu]++;
}

static void rig_nmi(void *context, unsigned vcpu)
{
    ((struct rig *)context)->nmis[vcpu]++;
}

static void rig_sipi(void *context, unsigned vcpu, uint8_t vector)
{
    struct rig *rig = context;

    rig->sipis[vcpu]++;
    rig->sipi_vector = vector;
}

static hv_ns rig_tsc_moment(void *context, unsigned vcpu, uint64_t tsc)
{
    (void)vcpu;
    return (hv_ns){tsc - ((struct rig *)context)->tsc_offset};
}

static uint64_t rig_tsc_offset(void *context, unsigned vcpu)
{
    const struct rig *rig = context;

    return rig->tsc_offset + rig->tsc_apart[vcpu];
}

static void rig_look(void *context, unsigned vcpu)
{
    ((struct rig *)context)->looks[vcpu]++;
}

static void rig_poweroff(void *context)
{
    hv_lock_check_none("poweroff");
    ((struct rig *)context)->poweroffs++;
}

static void rig_reset(void *context)
{
    hv_lock_check_none("reset");
    ((struct rig *)context)->resets++;
}

static void rig_debug_exit(void *context, uint32_t code)
{
    struct rig *rig = context;

    hv_lock_check_none("debug exit");
    rig->exits++;
    rig->exit_code = code;
}

static size_t rig_console_write(void *context, const uint8_t *data, size_t bytes)
{
    struct rig *rig = context;
    size_t taken = bytes < rig->room ? bytes : rig->room;

    hv_lock_check_none("console");
    if (taken > RIG_CONSOLE_BYTES - rig->written) {
        taken = RIG_CONSOLE_BYTES - rig->written;
    }
    memcpy(rig->output + rig->written, data, taken);
    rig->written += taken;
    rig->room -= taken;
    return taken;
}

static const struct hv_platform_ops rig_ops = {
    .kick = rig_kick,
    .init = rig_init_signal,
    .sipi = rig_sipi,
    .nmi = rig_nmi,
    .tsc_moment = rig_tsc_moment,
    .tsc_offset = rig_tsc_offset,
    .look = rig_look,
    .poweroff = rig_poweroff,
    .reset = rig_reset,
    .debug_exit = rig_debug_exit,
};

/** Make a platform of @vcpus whose clock stands at @start. */
static inline int rig_make(struct rig *rig, unsigned vcpus, hv_ns start)
{
    struct hv_platform_config config = {
        .bus = &rig->bus,
        .clock = &rig->clock,
        .start_ns = start.v, /* the machine's clock and the host's show the same */
        .clock_policy = rig_clock_policy,
        .rtc_track = rig_rtc_track,
        .timers_absent = rig_timers_absent,
        .queues = rig->queues,
        .vcpus = vcpus,
        .memory_bytes = 64 * HV_MIB,
        .testdev = true,
        .pv_features = rig_pv_features,
        .memory = rig_memory,
        .tsc_khz = 1000000,
        .ops = &rig_ops,
        .ops_context = rig,
        .console = &rig->console,
        .console_context = rig,
        .log_limit = &rig->log_limit,
    };
    int error;

    memset(rig, 0, sizeof(*rig));
    hv_clock_init_simulated(&rig->clock, start);
    hv_doorbell_init(&rig->bell);
    hv_bus_init(&rig->bus);
    rig->console.write = rig_console_write;
    rig->room = SIZE_MAX;
    hv_timer_queue_init(&rig->queue, &rig->clock, &rig->bell, 0);
    for (unsigned i = 0; i < vcpus; i++) {
        rig->queues[i] = &rig->queue;
    }
    error = hv_platform_init(&rig->platform, &config);
    if (error) {
        hv_timer_queue_finish(&rig->queue);
    }
    return error;
}

static inline void rig_finish(struct rig *rig)
{
    hv_platform_finish(&rig->platform);
    hv_timer_queue_finish(&rig->queue);
}

/** One platform for a test program's cases, made anew. It is large, so it is no local. */
static inline struct rig *rig_new(void)
{
    static struct rig rig;
    static bool made;

    if (made) {
        rig_finish(&rig);
    }
    made = rig_make(&rig, RIG_VCPUS, (hv_ns){1000 * HV_NS_PER_S}) == 0;
    return made ? &rig : NULL;
}

/* What is due fires, and the vCPUs come to it. */
static inline void rig_run_timers(struct rig *rig)
{
    hv_timer_queue_run(&rig->queue, hv_clock_now(&rig->clock));
    for (unsigned i = 0; i < RIG_VCPUS; i++) {
        hv_platform_update_timers(&rig->platform, i);
    }
}

/**
 * Move the clock on, stopping at each deadline on the way. Returns how often the worker looked for
 * timers: it gives up after @most times, since a storm would not end. @each, which may be NULL, is what the guest does after each.
 */
static inline unsigned rig_looks(struct rig *rig, uint64_t span_ns, unsigned most,
                                 void (*each)(struct rig *rig))
{
    hv_ns end = hv_ns_add(hv_clock_now(&rig->clock), span_ns);
    unsigned looks = 0;

    while (!hv_ns_before(end, hv_timer_queue_next(&rig->queue)) && looks < most) {
        hv_ns now = hv_clock_now(&rig->clock);
        hv_ns next = hv_timer_queue_next(&rig->queue);

        hv_clock_advance(&rig->clock, hv_ns_before(now, next) ? next.v - now.v : 0);
        rig_run_timers(rig);
        looks++;
        if (each) {
            each(rig);
        }
    }
    if (looks < most) {
        hv_clock_advance(&rig->clock, end.v - hv_clock_now(&rig->clock).v);
    }
    return looks;
}

/** Move the clock on, stopping at each deadline on the way. */
static inline void rig_advance(struct rig *rig, uint64_t span_ns)
{
    (void)rig_looks(rig, span_ns, UINT_MAX, NULL);
}

/** Let @span_ns pass without a worker: timers fire late, all at its end. */
static inline void rig_sleep(struct rig *rig, uint64_t span_ns)
{
    hv_clock_advance(&rig->clock, span_ns);
    rig_run_timers(rig);
}

static inline uint64_t rig_access_read(struct rig *rig, enum hv_bus_space space, unsigned vcpu,
                                       uint64_t address, unsigned bytes)
{
    uint64_t value;

    return hv_bus_read(&rig->bus, space, vcpu, address, bytes, &value) == 0 ? value : UINT64_MAX;
}

static inline void rig_access_write(struct rig *rig, enum hv_bus_space space, unsigned vcpu,
                                    uint64_t address, unsigned bytes, uint64_t value)
{
    if (hv_bus_write(&rig->bus, space, vcpu, address, bytes, value) != 0) {
        tap_fail(__FILE__, __LINE__, "write to %#" PRIx64 " failed", address);
    }
}

static inline uint8_t rig_inb(struct rig *rig, uint16_t port)
{
    return (uint8_t)rig_access_read(rig, HV_BUS_PORT, 0, port, 1);
}

static inline uint16_t rig_inw(struct rig *rig, uint16_t port)
{
    return (uint16_t)rig_access_read(rig, HV_BUS_PORT, 0, port, 2);
}

static inline uint32_t rig_inl(struct rig *rig, uint16_t port)
{
    return (uint32_t)rig_access_read(rig, HV_BUS_PORT, 0, port, 4);
}

static inline void rig_outb(struct rig *rig, uint16_t port, uint8_t value)
{
    rig_access_write(rig, HV_BUS_PORT, 0, port, 1, value);
}

static inline void rig_outw(struct rig *rig, uint16_t port, uint16_t value)
{
    rig_access_write(rig, HV_BUS_PORT, 0, port, 2, value);
}

static inline void rig_outl(struct rig *rig, uint16_t port, uint32_t value)
{
    rig_access_write(rig, HV_BUS_PORT, 0, port, 4, value);
}

static inline uint64_t rig_mmio_read(struct rig *rig, uint64_t address, unsigned bytes)
{
    return rig_access_read(rig, HV_BUS_MMIO, 0, address, bytes);
}

static inline void rig_mmio_write(struct rig *rig, uint64_t address, unsigned bytes, uint64_t value)
{
    rig_access_write(rig, HV_BUS_MMIO, 0, address, bytes, value);
}
