/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The PC that a machine boots on: all its devices, wired.
 *
 *     PIT ----- IRQ 0 --.                                    .--- local APIC 0 --- vCPU 0
 *     RTC ----- IRQ 8 --+-- 8259A pair --INTR--> LINT0 of 0  |
 *     UART ---- IRQ 4 --+                                    +--- local APIC 1 --- vCPU 1
 *     i8042 - IRQ 1, 12-+-- I/O APIC (IRQ 0 at pin 2) -msgs--+
 *     ACPI ---- IRQ 9 --'        |                           '--- …
 *     HPET -- IRQ 0, 8 or pins --'
 *
 * ISA interrupts reach both controllers; the guest masks one of them. The HPET's legacy replacement
 * cuts PIT and RTC off.
 *
 * Threads: as each device says. What is called with the machine stopped says so.
 */
#pragma once

#include "platform/acpi.h"
#include "platform/fwcfg.h"
#include "platform/hpet.h"
#include "platform/i8042.h"
#include "platform/ioapic.h"
#include "platform/lapic.h"
#include "platform/pic.h"
#include "platform/pit.h"
#include "platform/pv.h"
#include "platform/rtc.h"
#include "platform/testdev.h"
#include "platform/uart.h"
#include "time/guest-clock.h"

#include <hv/domain.h>

#define HV_PLATFORM_RECORD_VERSION 3

/*
 * What the platform asks of the machine. kick, init, sipi, nmi and look ring a doorbell at most: locks up
 * to HV_RANK_LAPIC may be held. The others are called with no lock held, on a vCPU's thread.
 */
struct hv_platform_ops {
    /** An interrupt has become deliverable. */
    void (*kick)(void *context, unsigned vcpu);
    /** vCPU @from, on whose thread this is called, sends an interrupt to another. May be NULL. */
    void (*ipi)(void *context, unsigned from, unsigned to);
    /** INIT: when the vCPU takes it, it calls hv_platform_init_cpu(). */
    void (*init)(void *context, unsigned vcpu);
    void (*sipi)(void *context, unsigned vcpu, uint8_t vector);
    void (*nmi)(void *context, unsigned vcpu);
    /** The moment at which the vCPU's TSC reaches @tsc. NULL: its TSC is hv_platform_tsc(). */
    hv_ns (*tsc_moment)(void *context, unsigned vcpu, uint64_t tsc);
    /** The vCPU's TSC less hv_platform_tsc(), modulo 2^64. On its thread, or while it does not run. */
    uint64_t (*tsc_offset)(void *context, unsigned vcpu);
    /** Make it leave the guest: it is to call hv_pv_settle() before its next instruction. */
    void (*look)(void *context, unsigned vcpu);
    void (*poweroff)(void *context);
    void (*reset)(void *context);
    void (*debug_exit)(void *context, uint32_t code);
};

struct hv_platform_config {
    struct hv_bus *bus;           /* borrowed; the devices add themselves to it */
    const struct hv_clock *clock; /* borrowed: the host's, or a simulated one */
    uint64_t start_ns;            /* what the machine's own shows at first */
    enum hv_clock_policy clock_policy;
    enum hv_rtc_track rtc_track;
    unsigned timers_absent;                 /* enum hv_timer_part: PIT, RTC, HPET count here */
    struct hv_timer_queue *const *queues;   /* one for each vCPU: where its timers fire at first */
    const struct hv_vpt_strategy *strategy; /* NULL: the product's (platform/vpt-strategy.h) */
    unsigned vcpus;                         /* 1 to HV_MAX_VCPUS */
    uint64_t memory_bytes;                  /* what fw_cfg tells */
    bool testdev;                           /* with fw_cfg and the test devices */
    uint32_t pv_features;                   /* enum hv_pv_feature; 0: no such interface */
    struct hv_memory *memory;               /* borrowed; NULL where there are no pv_features */
    uint64_t tsc_khz;
    const struct hv_platform_ops *ops; /* borrowed */
    void *ops_context;
    const struct hv_console_ops *console; /* borrowed; NULL: none */
    void *console_context;
    struct hv_log_limit *log_limit; /* borrowed */
};

struct hv_platform {
    /* Set at creation. */
    struct hv_bus *bus;
    const struct hv_platform_ops *ops;
    void *ops_context;
    bool testing;           /* fwcfg and testdev exist */
    unsigned timers_absent; /* PIT, RTC, HPET: such a device is on a bus that nobody reaches */
    enum hv_rtc_track rtc_track;
    /* Atomic: the clock has moved against the host's, and timers are not yet set by that. Each exit reads
     * it, so it stands with what is hardly ever written. */
    _Atomic bool clock_moved;
    struct hv_guest_clock clock;
    /* Atomic: a bit for each device timer that has issued a tick which is not accepted yet. */
    _Atomic uint32_t awaited;
    struct hv_vpt_set *timers; /* owned */
    struct hv_lapics lapics;
    struct hv_pv pv;
    struct hv_pic pic;
    struct hv_ioapic ioapic;
    struct hv_pit pit;
    struct hv_rtc rtc;
    struct hv_hpet hpet;
    struct hv_acpi acpi;
    struct hv_uart uart;
    struct hv_i8042 i8042;
    struct hv_fwcfg fwcfg;
    struct hv_testdev testdev;
    struct hv_bus nowhere; /* of devices that are absent */
};

/* All of it; the tail of lapic[] behind `vcpus` is unused and zero. */
struct hv_platform_record {
    uint32_t version, vcpus;
    uint32_t testing, timers_absent;
    struct hv_guest_clock_record clock;
    struct hv_pic_record pic;
    struct hv_ioapic_record ioapic;
    struct hv_pit_record pit;
    struct hv_rtc_record rtc;
    struct hv_hpet_record hpet;
    struct hv_acpi_record acpi;
    struct hv_uart_record uart;
    struct hv_i8042_record i8042;
    struct hv_fwcfg_record fwcfg;
    struct hv_lapic_record lapic[HV_MAX_VCPUS];
    struct hv_pv_record pv;
    struct hv_testdev_record testdev;
};

/** The addresses, ports and interrupts; sizes of RAM are the caller's to fill. */
void hv_platform_fill_layout(struct hv_platform_layout *layout, unsigned vcpus,
                             unsigned timers_absent);

/** Make all devices in power-up state. -ENOMEM; nothing is half made. */
HV_MUST_CHECK int hv_platform_init(struct hv_platform *platform,
                                   const struct hv_platform_config *config);
/** No vCPU runs; waits for timers' callbacks. */
void hv_platform_finish(struct hv_platform *platform);

/** Power-up state. No vCPU runs. */
void hv_platform_reset(struct hv_platform *platform);
/** This vCPU takes an INIT: its local APIC's part, and areas it shares. On its thread. */
void hv_platform_init_cpu(struct hv_platform *platform, unsigned vcpu);

/**
 * Stop the machine's clock and timers, and let them go on. No vCPU runs, no lock held. If the clock's
 * policy has it that time passed, what fell due meanwhile is late by then. Guests who look are told.
 */
void hv_platform_pause(struct hv_platform *platform);
void hv_platform_resume(struct hv_platform *platform);
/** The machine has ended: its clock stands, and no timer fires any more, but for what is under way.
 * The pause that waits for that comes before the next resume. Any thread, any lock below LEAF. */
void hv_platform_halt(struct hv_platform *platform);

/** The host's wall clock may have been set: follow. Any thread, no lock held. */
void hv_platform_follow_wall(struct hv_platform *platform);
/** The clock has moved: set timers by it. Between a resume and the next pause. */
void hv_platform_rearm_timers(struct hv_platform *platform);

/** The same, when that is to be done. Costs one load. On a vCPU's thread, no lock held. */
static inline void hv_platform_settle_clock(struct hv_platform *platform)
{
    /* Who sets it kicks: what is not seen here is seen after that. */
    if (HV_UNLIKELY(hv_load_relaxed(&platform->clock_moved))) {
        hv_platform_rearm_timers(platform);
    }
}

/* The bootstrap of a vCPU's run: on its own thread. */

/** Have the vCPU's timers deliver what is due. One load when nothing is. */
static inline void hv_platform_update_timers(struct hv_platform *platform, unsigned vcpu)
{
    hv_vpt_update(platform->timers, vcpu);
}

/** It runs on another worker from now on, whose queue that is. */
static inline void hv_platform_rehome_timers(struct hv_platform *platform, unsigned vcpu,
                                             struct hv_timer_queue *queue)
{
    hv_vpt_rehome(platform->timers, vcpu, queue);
}

/** An interrupt waits for this vCPU. Costs one load. */
static inline bool hv_platform_interrupt_pending(struct hv_platform *platform, unsigned vcpu)
{
    return hv_lapic_pending(&platform->lapics.lapic[vcpu]);
}

/** Take it: its vector, or -1 when it has gone. */
int hv_platform_interrupt_acknowledge(struct hv_platform *platform, unsigned vcpu);

/**
 * All vCPUs wait with interrupts off, those of @nmi_vcpus (a bit each) not for an NMI's handler to end
 * nor for a SIPI: may the machine start one of them, by itself or because somebody outside acts on
 * its serial port or power button? False: what is not posted yet never comes. No lock held.
 */
bool hv_platform_may_rouse(struct hv_platform *platform, uint64_t nmi_vcpus);

uint64_t hv_platform_cr8_read(struct hv_platform *platform, unsigned vcpu);
void hv_platform_cr8_write(struct hv_platform *platform, unsigned vcpu, uint64_t value);
/** IA32_APIC_BASE, IA32_TSC_DEADLINE, x2APIC, KVM's. 0; HV_FAULTED for #GP; -ENOENT for others. */
HV_MUST_CHECK int hv_platform_msr_read(struct hv_platform *platform, unsigned vcpu, uint32_t index,
                                       uint64_t *value_out);
HV_MUST_CHECK int hv_platform_msr_write(struct hv_platform *platform, unsigned vcpu, uint32_t index,
                                        uint64_t value);
/** The counter that TSCs are offsets to: nanoseconds of the machine's clock. */
uint64_t hv_platform_tsc(const struct hv_platform *platform);
/** The vCPU's TSC offset has changed: its deadline comes at another moment. */
void hv_platform_tsc_changed(struct hv_platform *platform, unsigned vcpu);

/* From outside: any thread. */

void hv_platform_press_power(struct hv_platform *platform);
/** The NMI button: LINT1 of every local APIC, as the guest has set it; masked until it has. */
void hv_platform_press_nmi(struct hv_platform *platform);
/** Drive a global system interrupt; below 16 ISA interrupts, which the 8259A sees as well. */
void hv_platform_set_gsi(struct hv_platform *platform, unsigned gsi, bool high);
/** A message-signalled interrupt. */
void hv_platform_msi(struct hv_platform *platform, uint64_t address, uint32_t data);
size_t hv_platform_console_input(struct hv_platform *platform, const uint8_t *data, size_t bytes);
void hv_platform_console_writable(struct hv_platform *platform);

/** The machine was made without the device that @source is part of. Any thread, any lock. */
bool hv_platform_lacks(const struct hv_platform *platform, enum hv_vpt_source source);

/**
 * Change what becomes of missed ticks of all timers of @source (of all local APICs). From the next tick
 * on; the policy is one that hv_vpt_policy_check() allows. Any thread, no lock held.
 */
void hv_platform_set_tick_policy(struct hv_platform *platform, enum hv_vpt_source source,
                                 const struct hv_vpt_policy *policy);

/* Statistics of virtual timers, timer.<i>.* (no lock is taken). */
struct hv_platform_timer {
    char name[16]; /* pit0, rtc, hpet0 … hpet2, pm, lapic0 … */
    unsigned vcpu, irq;
    const char *policy;
    bool armed;
    uint64_t period_ns, fired, issued, accepted, merged, discarded, masked_skips, retargets,
        period_clamped, pending, backlog_max;
    /* Acceptance after the due time, and its change from tick to tick, in ns. */
    uint64_t late_p50, late_p99, late_max, jitter_p50, jitter_p99;
};

unsigned hv_platform_timers(const struct hv_platform *platform);
/** @index is below hv_platform_timers(). */
void hv_platform_get_timer(const struct hv_platform *platform, unsigned index,
                           struct hv_platform_timer *timer_out);

/** The machine is stopped and its platform paused. */
void hv_platform_save(struct hv_platform *platform, struct hv_platform_record *record_out);
/**
 * Take over a record; the vCPUs' TSCs are in place.
 *
 * Returns 0; -EPROTO with the name of the field in *field_out when no machine of this shape can be
 * in that state: nothing is changed then.
 */
HV_MUST_CHECK int hv_platform_load(struct hv_platform *platform,
                                   const struct hv_platform_record *record, const char **field_out);
