/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Register bits of the local APIC, and what its files share. */
#pragma once

#include "platform/lapic.h"

#include "base/bits.h"
#include "platform/tick.h"

/* Register offsets in the xAPIC page (SDM 3A table 11-1). As MSRs: 800h + offset / 16. */
enum lapic_register {
    LAPIC_ID = 0x020,
    LAPIC_VERSION = 0x030,
    LAPIC_TPR = 0x080,
    LAPIC_APR = 0x090,
    LAPIC_PPR = 0x0a0,
    LAPIC_EOI = 0x0b0,
    LAPIC_RRD = 0x0c0,
    LAPIC_LDR = 0x0d0,
    LAPIC_DFR = 0x0e0,
    LAPIC_SVR = 0x0f0,
    LAPIC_ISR = 0x100,
    LAPIC_TMR = 0x180,
    LAPIC_IRR = 0x200,
    LAPIC_ESR = 0x280,
    LAPIC_ICR_LOW = 0x300,
    LAPIC_ICR_HIGH = 0x310,
    LAPIC_LVT = 0x320, /* timer, thermal, PMC, LINT0, LINT1, error */
    LAPIC_INITIAL = 0x380,
    LAPIC_CURRENT = 0x390,
    LAPIC_DIVIDE = 0x3e0,
    LAPIC_SELF_IPI = 0x3f0, /* x2APIC only */
};

#define LAPIC_MSR_BASE         0x01bu /* IA32_APIC_BASE */
#define LAPIC_MSR_TSC_DEADLINE 0x6e0u
#define LAPIC_MSR_FIRST        0x800u
#define LAPIC_MSR_LAST         0x8ffu

/* 11.4.8: version 14h, six LVT entries, EOI broadcasts can be suppressed. */
#define LAPIC_VERSION_VALUE    (0x14u | (HV_LAPIC_LVT_COUNT - 1u) << 16 | 1u << 24)

enum lapic_base {
    LAPIC_BASE_BSP = 1u << 8,
    LAPIC_BASE_EXTD = 1u << 10,
    LAPIC_BASE_EN = 1u << 11,
};

enum lapic_svr {
    LAPIC_SVR_ENABLE = 1u << 8,
    LAPIC_SVR_NO_BROADCAST = 1u << 12,
    LAPIC_SVR_MASK = 0x13ff, /* 11.9, figure 11-23; focus checking is kept, and means nothing */
};

enum lapic_lvt_bit {
    LAPIC_LVT_VECTOR = 0xff,
    LAPIC_LVT_DELIVERY_SHIFT = 8,
    LAPIC_LVT_STATUS = 1u << 12, /* delivery status, read-only: always idle */
    LAPIC_LVT_POLARITY = 1u << 13,
    LAPIC_LVT_REMOTE_IRR = 1u << 14,
    LAPIC_LVT_LEVEL = 1u << 15,
    LAPIC_LVT_MASKED = 1u << 16,
    LAPIC_LVT_TIMER_SHIFT = 17,
};

enum lapic_timer_mode {
    LAPIC_TIMER_ONE_SHOT,
    LAPIC_TIMER_PERIODIC,
    LAPIC_TIMER_TSC_DEADLINE,
    LAPIC_TIMER_RESERVED,
};

enum lapic_icr {
    LAPIC_ICR_VECTOR = 0xff,
    LAPIC_ICR_DELIVERY_SHIFT = 8,
    LAPIC_ICR_LOGICAL = 1u << 11,
    LAPIC_ICR_ASSERT = 1u << 14,
    LAPIC_ICR_LEVEL = 1u << 15,
    LAPIC_ICR_SHORTHAND_SHIFT = 18,
    LAPIC_ICR_MASK = 0xccfff, /* 11.6.1: what software can set; delivery status is always idle */
};

enum lapic_shorthand {
    LAPIC_SHORTHAND_NONE,
    LAPIC_SHORTHAND_SELF,
    LAPIC_SHORTHAND_ALL,
    LAPIC_SHORTHAND_OTHERS,
};

enum lapic_esr {
    LAPIC_ESR_SEND_VECTOR = 1u << 5,
    LAPIC_ESR_RECEIVE_VECTOR = 1u << 6,
    LAPIC_ESR_REGISTER = 1u << 7,
};

/* What makes hv_lapic_pending() true. */
enum lapic_attention {
    LAPIC_ATTENTION_VECTOR = 1u << 0, /* IRR above the processor priority */
    LAPIC_ATTENTION_EXTINT = 1u << 1, /* the 8259A is to be acknowledged */
    /* 1u << 2 is HV_LAPIC_ATTENTION_SETTLE */
};

#define LAPIC_LOWEST_VECTOR 16u
#define LAPIC_DIVIDE_MASK   0xbu

static inline bool lapic_enabled(const struct hv_lapic *lapic)
{
    return hv_load_relaxed(&lapic->base) & LAPIC_BASE_EN;
}

static inline bool lapic_x2apic(const struct hv_lapic *lapic)
{
    return hv_load_relaxed(&lapic->base) & LAPIC_BASE_EXTD;
}

static inline bool lapic_software_enabled(const struct hv_lapic *lapic)
{
    return hv_load_relaxed(&lapic->svr) & LAPIC_SVR_ENABLE;
}

static inline enum hv_delivery lapic_lvt_delivery(uint32_t lvt)
{
    return (enum hv_delivery)hv_bits(lvt, LAPIC_LVT_DELIVERY_SHIFT, 3);
}

static inline enum lapic_timer_mode lapic_timer_mode(const struct hv_lapic *lapic)
{
    return (enum lapic_timer_mode)hv_bits(lapic->lvt[HV_LAPIC_LVT_TIMER], LAPIC_LVT_TIMER_SHIFT, 2);
}

/** The highest vector set in IRR, ISR or TMR; -1 for none. */
static inline int lapic_highest(const uint32_t vectors[8])
{
    for (int i = 7; i >= 0; i--) {
        if (vectors[i]) {
            return i * 32 + 31 - __builtin_clz(vectors[i]);
        }
    }
    return -1;
}

/** Set, and clear, a vector; returns whether it was set. */
static inline bool lapic_vector_set(uint32_t vectors[8], uint8_t vector)
{
    uint32_t bit = 1u << (vector & 31);
    bool was = vectors[vector / 32] & bit;

    vectors[vector / 32] |= bit;
    return was;
}

static inline bool lapic_vector_clear(uint32_t vectors[8], uint8_t vector)
{
    uint32_t bit = 1u << (vector & 31);
    bool was = vectors[vector / 32] & bit;

    vectors[vector / 32] &= ~bit;
    return was;
}

/** Divide configuration (figure 11-10): bits 3, 1, 0 select 2, 4, … 128, and 1 for 111b. Returns
 * the power of two. */
static inline unsigned lapic_divide_shift(uint32_t divide)
{
    return (((divide & 3) | (divide >> 1 & 4)) + 1) & 7;
}

/** Length of @count in ns. */
static inline uint64_t lapic_count_ns(uint64_t count, uint32_t divide)
{
    return (count << lapic_divide_shift(divide)) * HV_LAPIC_TICK_NS;
}

/** Bits of an LVT entry that software can set (11.5.1, figure 11-8). */
uint32_t lapic_lvt_writable(enum hv_lapic_lvt entry);

/* lapic.c: priorities and requests. */

/** Work out PPR and `attention`. Returns true when it went from clear to set: kick then. */
bool lapic_update_locked(struct hv_lapic *lapic) HV_REQUIRES(&lapic->lock);
/** Let go of the lock after a change: update, and kick the vCPU if something became pending. */
void lapic_drop(struct hv_lapic *lapic) HV_RELEASES(&lapic->lock);
/** Set IRR and TMR for a vector, or note the error for one below 16. */
void lapic_request_locked(struct hv_lapic *lapic, uint8_t vector, bool level)
    HV_REQUIRES(&lapic->lock);
/** What arrives, from a message or an LVT entry. Requests, and the others by the machine's hooks. */
void lapic_accept_locked(struct hv_lapic *lapic, enum hv_delivery delivery, uint8_t vector,
                         bool level) HV_REQUIRES(&lapic->lock);
/** Note an error, and raise its interrupt if it is not masked. */
void lapic_error(struct hv_lapic *lapic, uint32_t error);
/** LINT0's wire or entry has changed: in fixed mode, level-triggered, it may request. */
void lapic_lint0_locked(struct hv_lapic *lapic) HV_REQUIRES(&lapic->lock);

/* lapic-eoi.c */

/**
 * Find out whether the guest has ended, in memory, the interrupt it may end so. vCPU's thread.
 *
 * Returns true when ISR may have changed: an update follows. Nobody needs to be kicked for that: if
 * anything is requested, the vCPU has been.
 */
bool lapic_settle_eoi_locked(struct hv_lapic *lapic) HV_REQUIRES(&lapic->lock);
/** @vector has gone in service: let its end be said in memory, if that is as good. */
void lapic_offer_eoi_locked(struct hv_lapic *lapic, uint8_t vector) HV_REQUIRES(&lapic->lock);
/** End of interrupt: the highest vector goes out of service. No lock held. */
void lapic_eoi(struct hv_lapic *lapic);

/* lapic-registers.c: the registers, whichever way they are reached. */

/** Power-up state but for base, id, TPR and the wire. */
void lapic_clear_locked(struct hv_lapic *lapic) HV_REQUIRES(&lapic->lock);
/** Register at @offset of the xAPIC page. False when there is none, or it cannot be read. */
bool lapic_register_read(struct hv_lapic *lapic, uint32_t offset, uint32_t *value_out);
/** False when there is none, or it cannot be written. Reserved bits are ignored. No lock held. */
bool lapic_register_write(struct hv_lapic *lapic, uint32_t offset, uint32_t value);
/** x2APIC: bits of @value that may be set in the register; 0 for one that cannot be written. */
uint32_t lapic_register_writable(uint32_t offset);
/** The logical id that x2APIC mode derives (11.12.10.2). */
uint32_t lapic_x2apic_ldr(uint32_t id);

/* lapic-deliver.c */

/** As hv_lapics_rouses(), of an interrupt that is this one's. */
bool lapic_rouses(const struct hv_lapic *lapic, enum hv_delivery delivery, uint64_t nmi_vcpus);
/** Send what ICR holds. No lock held. */
void lapic_send_icr(struct hv_lapic *lapic, uint64_t icr);

/* lapic-timer.c */

void lapic_timer_expired(void *context);
/** Deliver a tick that is overdue. Returns the moment that it went by. */
hv_ns lapic_timer_settle_locked(struct hv_lapic *lapic) HV_REQUIRES(&lapic->lock);
void lapic_timer_write_lvt_locked(struct hv_lapic *lapic, uint32_t value) HV_REQUIRES(&lapic->lock);
void lapic_timer_write_initial_locked(struct hv_lapic *lapic, uint32_t value)
    HV_REQUIRES(&lapic->lock);
void lapic_timer_write_divide_locked(struct hv_lapic *lapic, uint32_t value)
    HV_REQUIRES(&lapic->lock);
uint32_t lapic_timer_current_locked(const struct hv_lapic *lapic) HV_REQUIRES(&lapic->lock);
/** IA32_TSC_DEADLINE := @tsc, which is reached at @moment. */
void lapic_timer_write_deadline_locked(struct hv_lapic *lapic, uint64_t tsc, hv_ns moment)
    HV_REQUIRES(&lapic->lock);
/** Arm the timer for what the registers say. */
void lapic_timer_arm_locked(struct hv_lapic *lapic) HV_REQUIRES(&lapic->lock);
