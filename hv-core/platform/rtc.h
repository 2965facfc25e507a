/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The MC146818 real-time clock and its battery-backed memory.
 *
 * The ten clock registers are the state; they are moved on by whole seconds when somebody looks
 * (rtc-calendar.c). "Update in progress" follows from the clock alone, so that a late timer never
 * makes it last longer.
 *
 *     |<------------------------- one second ------------------------->|
 *     |   registers may be read                     | 244 µs | 1984 µs |
 *     |                                             UIP set            registers change, UF, AF
 *
 * Threads: any; one lock, HV_RANK_DEVICE, over index and data, so that two vCPUs that race for the
 * ports get each other's bytes but never a byte outside the memory (Xen's XSA-503).
 * Source: Motorola MC146818 data sheet (1984); 82371SB (PIIX3) 2.5.6 for the ports; register 32h is
 * the century by ACPI 6.5, 5.2.9 (FADT).
 */
#pragma once

#include "platform/bus.h"
#include "platform/irq.h"
#include "platform/record.h"
#include "platform/vpt.h"

#define HV_RTC_BYTES          128
#define HV_RTC_CENTURY        0x32
#define HV_RTC_RECORD_VERSION 2

struct hv_rtc {
    struct hv_lock lock; /* HV_RANK_DEVICE */
    /* Set at creation. */
    const struct hv_clock *clock;
    struct hv_irq_line irq;
    /* Guarded by &lock. */
    uint8_t index;
    uint8_t memory[HV_RTC_BYTES]; /* registers 0 to 13, then battery-backed bytes */
    uint64_t second_ns;           /* when the registers changed last (modulo 2^64) */
    uint64_t divider_ns;          /* when the divider chain started: the periodic grid */
    uint64_t periodic_seen;       /* ticks of the grid that register C knows of */
    uint64_t wall_apart_ns;       /* the host's wall clock less `clock`, as it is reckoned with */
    struct hv_vpt periodic;       /* PIE */
    struct hv_vpt update;         /* UIE or AIE: at the end of each second */
};

struct hv_rtc_record {
    uint32_t version;
    uint8_t index, reserved[3];
    uint64_t second_elapsed_ns, divider_elapsed_ns, periodic_seen, wall_apart_ns;
    uint8_t memory[HV_RTC_BYTES];
    struct hv_vpt_record periodic;
};

/** Make it on ports 70h and 71h, at the host's time in UTC. @irq is IRQ 8. As hv_pit_init(). */
HV_MUST_CHECK int hv_rtc_init(struct hv_rtc *rtc, struct hv_bus *bus, const struct hv_clock *clock,
                              struct hv_vpt_set *timers, const struct hv_irq_line *irq);
void hv_rtc_finish(struct hv_rtc *rtc);
/** RESET pin: interrupts off; time and memory stay (data sheet, "RESET"). */
void hv_rtc_reset(struct hv_rtc *rtc);

/**
 * The host's wall clock and the machine's have come apart: show as much more, or less, as that. What the
 * guest has set it to counts. No lock held.
 */
void hv_rtc_follow_wall(struct hv_rtc *rtc);

/** vCPU @vcpu has taken IRQ 8. No lock held. */
void hv_rtc_accepted(struct hv_rtc *rtc, unsigned vcpu);

void hv_rtc_save(struct hv_rtc *rtc, struct hv_rtc_record *record_out);
const char *hv_rtc_check(const struct hv_rtc_record *record);
void hv_rtc_load(struct hv_rtc *rtc, const struct hv_rtc_record *record);
