/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The local APICs of a machine: registers in both presentations (xAPIC memory, x2APIC MSRs),
 * priorities, delivery between them, and the timer.
 *
 *     disabled --APIC_BASE EN--> xAPIC --APIC_BASE EN, EXTD--> x2APIC
 *     xAPIC, x2APIC --APIC_BASE 0--> disabled
 *
 * Invariants, under a local APIC's lock:
 *   (1) `attention` says exactly whether hv_lapic_acknowledge() would find something, so that the
 *       run loop need not take the lock to know;
 *   (2) a vector stands in IRR or ISR only if it is 16 or above;
 *   (3) the hook `kick` follows each change of `attention` from clear to set;
 *   (4) while an end of interrupt is offered in memory, ISR holds one vector, an edge-triggered one.
 *
 * Threads: registers are reached by their own vCPU (memory, MSRs, CR8), requests come from any
 * thread. One lock each, HV_RANK_LAPIC; no two are ever held at once. What others read to match a
 * destination is atomic.
 * Source: SDM 3A chapter 11 (2023: "Advanced programmable interrupt controller").
 */
#pragma once

#include "base/clock.h"
#include "cpu/policy.h"
#include "mem/area.h"
#include "platform/record.h"
#include "platform/irq.h"
#include "platform/vpt.h"
#include "sync/lock.h"

#define HV_LAPIC_RECORD_VERSION 1
/* What the timer counts at divisor 1: the crystal that CPUID tells of. */
#define HV_LAPIC_TICK_NS        (HV_NS_PER_S / HV_APIC_TIMER_HZ)
#define HV_LAPIC_DEFAULT_BASE   UINT64_C(0xfee00000)

/* Delivery modes (SDM 3A 11.5.1, figure 11-12; 11.11.2), of LVT, ICR, MSI and I/O APIC alike. */
enum hv_delivery {
    HV_DELIVERY_FIXED = 0,
    HV_DELIVERY_LOWEST = 1,
    HV_DELIVERY_SMI = 2,
    HV_DELIVERY_NMI = 4,
    HV_DELIVERY_INIT = 5,
    HV_DELIVERY_STARTUP = 6,
    HV_DELIVERY_EXTINT = 7,
};

struct hv_lapic;

/* One interrupt on its way to local APICs. */
struct hv_interrupt {
    uint32_t destination; /* APIC id or logical destination */
    uint8_t vector;
    uint8_t delivery; /* enum hv_delivery */
    bool logical;
    bool broadcast;                /* the destination is all ones in the sender's width */
    bool level;                    /* level-triggered: its EOI is told to the I/O APIC */
    const struct hv_lapic *sender; /* NULL: a device */
};

enum hv_lapic_lvt {
    HV_LAPIC_LVT_TIMER,
    HV_LAPIC_LVT_THERMAL,
    HV_LAPIC_LVT_PMC,
    HV_LAPIC_LVT_LINT0,
    HV_LAPIC_LVT_LINT1,
    HV_LAPIC_LVT_ERROR,
    HV_LAPIC_LVT_COUNT,
};

/*
 * What the local APICs ask of the machine. kick, nmi, init and sipi ring a doorbell at most: they
 * may be called under locks up to HV_RANK_LAPIC. The others are called with no lock held.
 */
struct hv_lapic_hooks {
    /** An interrupt has become deliverable. */
    void (*kick)(void *context, uint32_t vcpu);
    /** vCPU @from, on whose thread this is called, sends an interrupt to another. May be NULL. */
    void (*ipi)(void *context, uint32_t from, uint32_t to);
    void (*nmi)(void *context, uint32_t vcpu);
    /** INIT: the vCPU itself calls hv_lapic_init_signal() when it takes it. */
    void (*init)(void *context, uint32_t vcpu);
    void (*sipi)(void *context, uint32_t vcpu, uint8_t vector);
    /** EOI of a level-triggered interrupt. */
    void (*eoi)(void *context, uint8_t vector);
    /** The 8259A's acknowledge cycle. */
    struct hv_taken (*acknowledge_extint)(void *context);
    /** The moment at which the vCPU's time-stamp counter reaches @tsc; past ones are fine. */
    hv_ns (*tsc_moment)(void *context, uint32_t vcpu, uint64_t tsc);
    void *context;
};

struct hv_lapic_counters {
    _Atomic uint64_t accepted; /* requests that set a bit of IRR */
    _Atomic uint64_t merged;   /* requests for a vector that was requested already */
    _Atomic uint64_t acknowledged, ipis;
    _Atomic uint64_t memory_eois; /* ends of interrupt said in memory (lapic-eoi.c) */
};

/* A bit of `attention`: an interrupt is requested, and that in service may have ended in memory. */
#define HV_LAPIC_ATTENTION_SETTLE (1u << 2)

struct HV_ALIGNED(HV_CACHE_LINE) hv_lapic {
    /* Atomic: bits of enum lapic_attention; written under &lock, read by the run loop. */
    _Atomic uint32_t attention;
    /* Atomic: what senders match against; written under &lock by the own vCPU. */
    _Atomic uint64_t base; /* IA32_APIC_BASE */
    _Atomic uint32_t id;   /* as APIC ID register of the mode: xAPIC in bits 31:24 */
    _Atomic uint32_t ldr, dfr, svr, ppr;
    /* Set at creation. */
    struct hv_lapics *set;
    uint32_t index; /* vCPU, and initial x2APIC id */
    struct hv_lock lock HV_ALIGNED(HV_CACHE_LINE);
    /* Guarded by &lock. */
    uint32_t irr[8], isr[8], tmr[8];
    uint32_t lvt[HV_LAPIC_LVT_COUNT];
    uint32_t tpr, esr, esr_pending, divide, initial_count;
    uint64_t icr;
    bool lint0_high;
    bool extint_message; /* an ExtINT message came and is not acknowledged */
    /* The timer: counting since @timer_start_ns (modulo 2^64), or armed by the TSC. */
    bool timer_counting;
    uint64_t timer_start_ns;
    uint64_t tsc_deadline;
    struct hv_vpt timer;
    /* Where the guest may say in memory that it has ended an interrupt, and whether it may now. */
    struct hv_area eoi_area;
    bool eoi_offered;
    struct hv_lapic_counters counters;
};

struct hv_lapics {
    /* Set at creation. */
    struct hv_lapic *lapic;
    unsigned count;
    unsigned phys_bits; /* MAXPHYADDR: bits of APIC_BASE that exist */
    const struct hv_clock *clock;
    struct hv_lapic_hooks hooks;
    /* Atomic: where the search of lowest-priority delivery starts among equals. */
    _Atomic uint32_t turn;
};

struct hv_lapics_config {
    unsigned vcpus, phys_bits;
    const struct hv_clock *clock;
    struct hv_vpt_set *timers; /* borrowed */
    const struct hv_lapic_hooks *hooks;
};

struct hv_lapic_record {
    uint32_t version, id;
    uint64_t base, icr, timer_elapsed_ns, tsc_deadline;
    uint32_t ldr, dfr, svr, tpr, esr, esr_pending, divide, initial_count;
    uint32_t irr[8], isr[8], tmr[8], lvt[HV_LAPIC_LVT_COUNT];
    uint8_t lint0_high, extint_message, timer_counting, reserved[5];
    struct hv_vpt_record timer;
};

/** Make @config->vcpus local APICs in power-up state. -ENOMEM. */
HV_MUST_CHECK int hv_lapics_init(struct hv_lapics *lapics, const struct hv_lapics_config *config);
/** Timers are stopped, callbacks waited for. Zeroed memory is accepted. */
void hv_lapics_finish(struct hv_lapics *lapics);
/** Power-up state of all of them; the bootstrap processor's LINT0 is a virtual wire to the 8259A
 * (MP specification 1.4, 3.6.2.2), as firmware leaves it. */
void hv_lapics_reset(struct hv_lapics *lapics);
/** INIT reached this vCPU (SDM 3A 11.4.7.3): all but id and APIC_BASE as at power-up. */
void hv_lapic_init_signal(struct hv_lapic *lapic);

/** Deliver to all that match. Returns whether any did. A lock of HV_RANK_IRQ_CHIP may be held. */
bool hv_lapics_send(struct hv_lapics *lapics, const struct hv_interrupt *interrupt);
/** Does any that matches hold @interrupt's vector, requested and not taken? As for hv_lapics_send(). */
bool hv_lapics_requested(struct hv_lapics *lapics, const struct hv_interrupt *interrupt);
/** The vCPU whose local APIC is switched on and has @id at present; -ENOENT. Any thread, no lock. */
int hv_lapics_find(const struct hv_lapics *lapics, uint32_t id);
/**
 * Let vCPU @sender, on whose thread this is, send what @icr says, but for its destination, to those
 * whose ids are the set bits of two words of
 * @width bits (at most 64) each, counted from @first.
 *
 * Returns how many there were, or -EINVAL for a logical destination or a shorthand. The sender's
 * thread, no lock held.
 */
HV_MUST_CHECK int hv_lapic_send_many(struct hv_lapic *sender, const uint64_t ids[2], unsigned width,
                                     uint32_t first, uint64_t icr);
/** Would @interrupt start a halted vCPU whose interrupts are off? An NMI does one of @nmi_vcpus (a
 * bit each), INIT the bootstrap processor. No lock. */
bool hv_lapics_rouses(const struct hv_lapics *lapics, const struct hv_interrupt *interrupt,
                      uint64_t nmi_vcpus);
/** The same of an edge at a local source. No lock held. */
bool hv_lapic_local_rouses(struct hv_lapic *lapic, enum hv_lapic_lvt source, uint64_t nmi_vcpus);
/** A write of @data to @address, 0xfeexxxxx (SDM 3A 11.11). Others are ignored. */
void hv_lapics_msi(struct hv_lapics *lapics, uint64_t address, uint32_t data);
/** Raise a local interrupt source other than the timer, once (an edge). */
void hv_lapic_raise(struct hv_lapic *lapic, enum hv_lapic_lvt source);
/** Drive the wire into LINT0: the 8259A's INTR. A lock of HV_RANK_IRQ_CHIP may be held. */
void hv_lapic_set_lint0(struct hv_lapic *lapic, bool high);

/** Learn how the interrupt in service stands, and then whether there is one for the processor. */
bool hv_lapic_settle(struct hv_lapic *lapic);

/** Is there an interrupt for the processor? vCPU's thread, no lock held; pairs with the stores of lapic_update(). */
static inline bool hv_lapic_pending(struct hv_lapic *lapic)
{
    uint32_t attention = hv_load_acquire(&lapic->attention);

    return HV_UNLIKELY(attention & HV_LAPIC_ATTENTION_SETTLE) ? hv_lapic_settle(lapic)
                                                              : attention != 0;
}

/**
 * Take over @area, of one byte, for ends of interrupt in memory; one that is not pinned: from now on
 * there are none. The area before is unpinned. vCPU's thread.
 */
void hv_lapic_set_eoi_area(struct hv_lapic *lapic, const struct hv_area *area);

/** Take the most urgent interrupt. vCPU's thread. */
struct hv_taken hv_lapic_acknowledge(struct hv_lapic *lapic);

/** Task priority, CR8 bits 3:0. vCPU's thread. */
uint64_t hv_lapic_cr8_read(const struct hv_lapic *lapic);
void hv_lapic_cr8_write(struct hv_lapic *lapic, uint64_t value);

/** Registers in memory, when the mode is xAPIC: @offset in the page at APIC_BASE. */
uint64_t hv_lapic_mmio_read(struct hv_lapic *lapic, uint64_t offset, unsigned bytes);
void hv_lapic_mmio_write(struct hv_lapic *lapic, uint64_t offset, unsigned bytes, uint64_t value);
/** True when this vCPU's local APIC answers at @address. */
bool hv_lapic_claims(const struct hv_lapic *lapic, uint64_t address);

/** IA32_APIC_BASE, IA32_TSC_DEADLINE, 800h to 8ffh. 0; HV_FAULTED for #GP; -ENOENT for others. */
HV_MUST_CHECK int hv_lapic_msr_read(struct hv_lapic *lapic, uint32_t index, uint64_t *value_out);
HV_MUST_CHECK int hv_lapic_msr_write(struct hv_lapic *lapic, uint32_t index, uint64_t value);

/** The vCPU's time-stamp counter was set: find the deadline's moment anew. */
void hv_lapic_tsc_changed(struct hv_lapic *lapic);

void hv_lapic_save(struct hv_lapic *lapic, struct hv_lapic_record *record_out);
const char *hv_lapic_check(const struct hv_lapic_record *record, unsigned phys_bits);
/** The vCPU's TSC is in place already. */
void hv_lapic_load(struct hv_lapic *lapic, const struct hv_lapic_record *record);
