/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The two doors to a local APIC's registers, memory and MSRs, and IA32_APIC_BASE between them. */
#include "platform/lapic-private.h"

#include <errno.h>

#include "cpu/state.h"

#define LAPIC_PAGE UINT64_C(0x1000)

bool hv_lapic_claims(const struct hv_lapic *lapic, uint64_t address)
{
    uint64_t base = hv_load_relaxed(&lapic->base);

    return (base & (LAPIC_BASE_EN | LAPIC_BASE_EXTD)) == LAPIC_BASE_EN &&
           (address ^ base) < LAPIC_PAGE;
}

/* Registers are 32 bits wide at multiples of 16; what lies between is undefined (11.4.1): zero. */
uint64_t hv_lapic_mmio_read(struct hv_lapic *lapic, uint64_t offset, unsigned bytes)
{
    uint32_t lane = offset & 15;
    uint32_t value;

    if (lane >= 4) {
        return 0;
    }
    if (!lapic_register_read(lapic, (uint32_t)offset & 0xff0, &value)) {
        lapic_error(lapic, LAPIC_ESR_REGISTER);
    }
    return hv_bytes_get(value, lane, bytes);
}

void hv_lapic_mmio_write(struct hv_lapic *lapic, uint64_t offset, unsigned bytes, uint64_t value)
{
    /* Only aligned 32-bit writes are architectural; of a wider one the low half counts. */
    if ((offset & 15) || bytes < 4) {
        return;
    }
    if (!lapic_register_write(lapic, (uint32_t)offset & 0xff0, (uint32_t)value)) {
        lapic_error(lapic, LAPIC_ESR_REGISTER);
    }
}

/* Transitions of figure 11-27 and the reserved bits (11.4.4); false for #GP. */
static bool lapic_base_legal(const struct hv_lapic *lapic, uint64_t value)
{
    uint64_t reserved = 0x2ff | ~((UINT64_C(1) << lapic->set->phys_bits) - 1);
    uint64_t old = hv_load_relaxed(&lapic->base) & (LAPIC_BASE_EN | LAPIC_BASE_EXTD);
    uint64_t new = value &(LAPIC_BASE_EN | LAPIC_BASE_EXTD);

    if ((value & reserved) || new == LAPIC_BASE_EXTD) {
        return false;
    }
    if (old == (LAPIC_BASE_EN | LAPIC_BASE_EXTD)) {
        return new != LAPIC_BASE_EN;
    }
    return old || new != (LAPIC_BASE_EN | LAPIC_BASE_EXTD);
}

static int lapic_base_write(struct hv_lapic *lapic, uint64_t value)
{
    uint64_t old, change;

    if (!lapic_base_legal(lapic, value)) {
        return HV_FAULTED;
    }
    hv_lock_take(&lapic->lock);
    old = hv_load_relaxed(&lapic->base);
    change = old ^ value;
    hv_store_relaxed(&lapic->base, value);
    if (change & LAPIC_BASE_EN) {
        /* 11.4.3: to be enabled again is to be powered up. CR8 belongs to the processor. */
        hv_store_relaxed(&lapic->id, lapic->index << 24);
        lapic_clear_locked(lapic);
    } else if (change & LAPIC_BASE_EXTD) {
        /* 11.12.5.1: the state is kept but for id, LDR and the upper half of ICR. */
        hv_store_relaxed(&lapic->id, lapic->index);
        hv_store_relaxed(&lapic->ldr, lapic_x2apic_ldr(lapic->index));
        lapic->icr &= UINT32_MAX;
    }
    lapic_drop(lapic);
    return 0;
}

static int lapic_x2apic_read(struct hv_lapic *lapic, uint32_t offset, uint64_t *value_out)
{
    uint32_t low, high;

    switch (offset) {
    case LAPIC_ICR_LOW: /* table 11-6: one 64-bit register */
        (void)lapic_register_read(lapic, LAPIC_ICR_LOW, &low);
        (void)lapic_register_read(lapic, LAPIC_ICR_HIGH, &high);
        *value_out = (uint64_t)high << 32 | low;
        return 0;
    case LAPIC_ICR_HIGH:
    case LAPIC_DFR:
    case LAPIC_APR:
    case LAPIC_RRD: /* not in x2APIC mode */
        return HV_FAULTED;
    default:
        if (!lapic_register_read(lapic, offset, &low)) {
            return HV_FAULTED;
        }
        *value_out = low;
        return 0;
    }
}

static int lapic_x2apic_write_icr(struct hv_lapic *lapic, uint64_t value)
{
    if ((value & UINT32_MAX) & ~(uint64_t)LAPIC_ICR_MASK) {
        return HV_FAULTED;
    }
    hv_lock_take(&lapic->lock);
    lapic->icr = value;
    hv_lock_drop(&lapic->lock);
    lapic_send_icr(lapic, value);
    return 0;
}

static int lapic_x2apic_write(struct hv_lapic *lapic, uint32_t offset, uint64_t value)
{
    uint32_t writable;

    switch (offset) {
    case LAPIC_ICR_LOW:
        return lapic_x2apic_write_icr(lapic, value);
    case LAPIC_EOI:
    case LAPIC_ESR: /* 11.12.1.2: only zero may be written */
        if (value != 0) {
            return HV_FAULTED;
        }
        break;
    case LAPIC_SELF_IPI: /* 11.12.11: vector in bits 7:0 */
        if (value & ~UINT64_C(0xff)) {
            return HV_FAULTED;
        }
        lapic_send_icr(lapic, value | LAPIC_SHORTHAND_SELF << LAPIC_ICR_SHORTHAND_SHIFT);
        return 0;
    default:
        writable = lapic_register_writable(offset);
        if (writable == 0 || (value & ~(uint64_t)writable)) {
            return HV_FAULTED;
        }
        break;
    }
    (void)lapic_register_write(lapic, offset, (uint32_t)value);
    return 0;
}

int hv_lapic_msr_read(struct hv_lapic *lapic, uint32_t index, uint64_t *value_out)
{
    *value_out = 0;
    if (index == LAPIC_MSR_BASE) {
        *value_out = hv_load_relaxed(&lapic->base);
        return 0;
    }
    if (index == LAPIC_MSR_TSC_DEADLINE) {
        hv_lock_take(&lapic->lock);
        (void)lapic_timer_settle_locked(lapic);
        *value_out = lapic->tsc_deadline;
        hv_lock_drop(&lapic->lock);
        return 0;
    }
    if (index < LAPIC_MSR_FIRST || index > LAPIC_MSR_LAST) {
        return -ENOENT;
    }
    if (!lapic_x2apic(lapic)) {
        return HV_FAULTED;
    }
    return lapic_x2apic_read(lapic, (index - LAPIC_MSR_FIRST) * 16, value_out);
}

static int lapic_deadline_write(struct hv_lapic *lapic, uint64_t tsc)
{
    const struct hv_lapic_hooks *hooks = &lapic->set->hooks;
    hv_ns moment = HV_NS_NEVER;

    if (tsc != 0) {
        moment = hooks->tsc_moment(hooks->context, lapic->index, tsc);
    }
    hv_lock_take(&lapic->lock);
    lapic_timer_write_deadline_locked(lapic, tsc, moment);
    lapic_drop(lapic);
    return 0;
}

int hv_lapic_msr_write(struct hv_lapic *lapic, uint32_t index, uint64_t value)
{
    if (index == LAPIC_MSR_BASE) {
        return lapic_base_write(lapic, value);
    }
    if (index == LAPIC_MSR_TSC_DEADLINE) {
        return lapic_deadline_write(lapic, value);
    }
    if (index < LAPIC_MSR_FIRST || index > LAPIC_MSR_LAST) {
        return -ENOENT;
    }
    if (!lapic_x2apic(lapic)) {
        return HV_FAULTED;
    }
    return lapic_x2apic_write(lapic, (index - LAPIC_MSR_FIRST) * 16, value);
}

void hv_lapic_tsc_changed(struct hv_lapic *lapic)
{
    uint64_t tsc;

    hv_lock_take(&lapic->lock);
    tsc = lapic->tsc_deadline;
    hv_lock_drop(&lapic->lock);
    if (tsc != 0) {
        (void)lapic_deadline_write(lapic, tsc);
    }
}
