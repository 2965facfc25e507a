/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The HPET: a 64-bit counter of 100 MHz and three comparators.
 *
 * A comparator's next match is kept as a value of the whole 64-bit counter, also in 32-bit mode:
 * what a write meant is decided when it is written, and a match that was missed, because the guest
 * was late or its machine was saved meanwhile, comes at once instead of a wrap (43 s) later.
 *
 * Threads: any; one lock, HV_RANK_DEVICE.
 * Source: IA-PC HPET specification 1.0a.
 */
#pragma once

#include "platform/bus.h"
#include "platform/irq.h"
#include "platform/record.h"
#include "platform/vpt.h"

#define HV_HPET_BASE           UINT64_C(0xfed00000)
#define HV_HPET_TICK_NS        10u
#define HV_HPET_TIMERS         3u
#define HV_HPET_RECORD_VERSION 1
/* I/O APIC pins that comparators may be routed to: 20 to 23, which nothing else uses. */
#define HV_HPET_ROUTES         0x00f00000u

struct hv_hpet;

struct hv_hpet_timer {
    /* Set at creation. */
    struct hv_hpet *hpet;
    unsigned index;
    /* Guarded by the HPET's lock. */
    uint32_t config;     /* the writable bits of the low word */
    uint64_t comparator; /* as last written, or accumulated by periods */
    uint64_t period;     /* as last written in periodic mode */
    uint64_t match;      /* the 64-bit counter value of the next match */
    bool armed;          /* a match is to come */
    bool asserted;       /* level-triggered: this timer holds its wire high */
    struct hv_vpt vpt;
};

struct hv_hpet {
    struct hv_lock lock; /* HV_RANK_DEVICE */
    /* Set at creation. */
    const struct hv_clock *clock;
    struct hv_irq_line legacy[2]; /* IRQ 0 and IRQ 8, in legacy replacement mode */
    struct hv_irq_line pin;       /* an I/O APIC pin: its number is each timer's route */
    /* Atomic: written under &lock; says whether PIT and RTC are cut off from their interrupts. */
    _Atomic bool replaces;
    /* Guarded by &lock. */
    hv_ns now; /* the moment that all is as of, since the lock was taken: hpet_take() */
    uint64_t config, status;
    uint64_t counter;  /* while stopped; else its value at @start_ns */
    uint64_t start_ns; /* modulo 2^64 */
    struct hv_hpet_timer timer[HV_HPET_TIMERS];
};

struct hv_hpet_timer_record {
    uint64_t comparator, period, match;
    uint64_t remaining_ns; /* to the next interrupt; UINT64_MAX when none is waited for */
    uint32_t config;
    uint8_t armed, asserted, reserved[2];
    struct hv_vpt_record vpt;
};

struct hv_hpet_record {
    uint32_t version, reserved;
    uint64_t config, status, counter, phase_ns;
    struct hv_hpet_timer_record timer[HV_HPET_TIMERS];
};

/** Make it at HV_HPET_BASE, stopped. @legacy are IRQ 0 and IRQ 8. As hv_pit_init(). */
HV_MUST_CHECK int hv_hpet_init(struct hv_hpet *hpet, struct hv_bus *bus,
                               const struct hv_clock *clock, struct hv_vpt_set *timers,
                               const struct hv_irq_line legacy[2], const struct hv_irq_line *pin);
void hv_hpet_finish(struct hv_hpet *hpet);
void hv_hpet_reset(struct hv_hpet *hpet);

/** Legacy replacement: IRQ 0 and IRQ 8 come from here, not from PIT and RTC. Any thread. */
static inline bool hv_hpet_replaces_legacy(const struct hv_hpet *hpet)
{
    return hv_load_relaxed(&hpet->replaces);
}

/** The interrupt that timer @index raises now: an ISA interrupt or an I/O APIC pin. No lock held. */
unsigned hv_hpet_gsi(struct hv_hpet *hpet, unsigned index);
/** A vCPU has taken it. No lock held. */
void hv_hpet_accepted(struct hv_hpet *hpet, unsigned index, unsigned vcpu);

void hv_hpet_save(struct hv_hpet *hpet, struct hv_hpet_record *record_out);
const char *hv_hpet_check(const struct hv_hpet_record *record);
void hv_hpet_load(struct hv_hpet *hpet, const struct hv_hpet_record *record);
