/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The 8254 interval timer of a PC: channel 0 is the tick on IRQ 0, channel 1 once refreshed memory,
 * channel 2 sounds the speaker; with port 61h, which gates channel 2.
 *
 * A counter is worked out from the clock when it is looked at (pit-counter.c); only channel 0 has a
 * timer, for its interrupt.
 *
 * Threads: any; one lock, HV_RANK_DEVICE.
 * Source: Intel 8254 data sheet (231164-005); 82371SB (PIIX3) 2.5.5 for port 61h.
 */
#pragma once

#include "platform/bus.h"
#include "platform/irq.h"
#include "platform/record.h"
#include "platform/vpt.h"

#define HV_PIT_HZ             1193182u
#define HV_PIT_CHANNELS       3
#define HV_PIT_RECORD_VERSION 1

enum hv_pit_mode {
    HV_PIT_MODE_TERMINAL_COUNT,
    HV_PIT_MODE_ONE_SHOT,
    HV_PIT_MODE_RATE,
    HV_PIT_MODE_SQUARE,
    HV_PIT_MODE_STROBE,
    HV_PIT_MODE_HARD_STROBE,
};

/* How the two bytes of a count go through the one port (control word RW1, RW0). */
enum hv_pit_access {
    HV_PIT_ACCESS_LATCH, /* no access: the counter latch command */
    HV_PIT_ACCESS_LOW,
    HV_PIT_ACCESS_HIGH,
    HV_PIT_ACCESS_BOTH, /* low, then high */
};

struct hv_pit_counter {
    uint8_t mode;   /* enum hv_pit_mode */
    uint8_t access; /* enum hv_pit_access, not LATCH */
    bool bcd;
    bool gate;
    bool write_high; /* the next byte written is the high one */
    bool read_high;
    uint8_t write_low;     /* the low byte, until the high one comes */
    uint8_t latched_bytes; /* of the latched count, still to be read */
    uint16_t latch;
    bool status_latched;
    uint8_t status;
    /* Clocks that a whole count takes, 1 to 65536 (10000 in BCD); 0 until one is written. */
    uint32_t count;
    uint32_t next_count; /* takes over at the end of a cycle, or at the next trigger; 0 for none */
    uint64_t next_at;    /* periodic modes: clocks since the load at which it does */
    bool counting;       /* the count is loaded (and triggered, in modes 1 and 5) */
    /* Clocks since the load: those since @start_ns (modulo 2^64), or @held while the gate stops. */
    uint64_t start_ns;
    uint64_t held;
};

struct hv_pit {
    struct hv_lock lock; /* HV_RANK_DEVICE */
    /* Set at creation. */
    const struct hv_clock *clock;
    struct hv_irq_line irq;
    /* Guarded by &lock. */
    struct hv_pit_counter counter[HV_PIT_CHANNELS];
    uint8_t port61; /* the writable bits */
    bool irq_done;  /* modes 0 and 4: channel 0 has reached its end */
    struct hv_vpt timer;
};

struct hv_pit_counter_record {
    uint64_t elapsed_ns, held, next_at;
    uint32_t count, next_count;
    uint16_t latch;
    uint8_t mode, access, bcd, gate, write_high, read_high, write_low, latched_bytes;
    uint8_t status_latched, status, counting, reserved[3];
};

struct hv_pit_record {
    uint32_t version;
    uint8_t port61, irq_done, reserved[2];
    struct hv_pit_counter_record counter[HV_PIT_CHANNELS];
    struct hv_vpt_record timer;
};

/** Make it on ports 40h to 43h and 61h. @irq is IRQ 0. Errors of hv_bus_add(); -ENOMEM. */
HV_MUST_CHECK int hv_pit_init(struct hv_pit *pit, struct hv_bus *bus, const struct hv_clock *clock,
                              struct hv_vpt_set *timers, const struct hv_irq_line *irq);
void hv_pit_finish(struct hv_pit *pit);
/** Power-up state: no counter counts until it is programmed. */
void hv_pit_reset(struct hv_pit *pit);

/** vCPU @vcpu has taken IRQ 0. No lock held. */
void hv_pit_accepted(struct hv_pit *pit, unsigned vcpu);

void hv_pit_save(struct hv_pit *pit, struct hv_pit_record *record_out);
const char *hv_pit_check(const struct hv_pit_record *record);
void hv_pit_load(struct hv_pit *pit, const struct hv_pit_record *record);
