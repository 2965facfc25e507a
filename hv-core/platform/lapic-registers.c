/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The local APIC's registers, as xAPIC memory and x2APIC MSRs share them (SDM 3A table 11-1). */
#include "platform/lapic-private.h"

#include <string.h>

uint32_t lapic_lvt_writable(enum hv_lapic_lvt entry)
{
    switch (entry) {
    case HV_LAPIC_LVT_TIMER: /* vector, mask, mode */
        return LAPIC_LVT_VECTOR | LAPIC_LVT_MASKED | 3u << LAPIC_LVT_TIMER_SHIFT;
    case HV_LAPIC_LVT_THERMAL:
    case HV_LAPIC_LVT_PMC:
        return LAPIC_LVT_VECTOR | LAPIC_LVT_MASKED | 7u << LAPIC_LVT_DELIVERY_SHIFT;
    case HV_LAPIC_LVT_LINT0:
    case HV_LAPIC_LVT_LINT1:
        return LAPIC_LVT_VECTOR | LAPIC_LVT_MASKED | 7u << LAPIC_LVT_DELIVERY_SHIFT |
               LAPIC_LVT_POLARITY | LAPIC_LVT_LEVEL;
    case HV_LAPIC_LVT_ERROR:
        return LAPIC_LVT_VECTOR | LAPIC_LVT_MASKED;
    case HV_LAPIC_LVT_COUNT:
        break;
    }
    return 0;
}

uint32_t lapic_x2apic_ldr(uint32_t id)
{
    return (id >> 4) << 16 | 1u << (id & 15);
}

/* 11.4.7.1. The divisor and counts are zero, so that the timer stands. */
void lapic_clear_locked(struct hv_lapic *lapic)
{
    bool x2apic = lapic_x2apic(lapic);

    (void)lapic_settle_eoi_locked(lapic);
    hv_store_relaxed(&lapic->svr, 0xff);
    hv_store_relaxed(&lapic->dfr, UINT32_MAX);
    hv_store_relaxed(&lapic->ldr, x2apic ? lapic_x2apic_ldr(lapic->index) : 0);
    memset(lapic->irr, 0, sizeof(lapic->irr));
    memset(lapic->isr, 0, sizeof(lapic->isr));
    memset(lapic->tmr, 0, sizeof(lapic->tmr));
    for (unsigned i = 0; i < HV_LAPIC_LVT_COUNT; i++) {
        lapic->lvt[i] = LAPIC_LVT_MASKED;
    }
    lapic->esr = 0;
    lapic->esr_pending = 0;
    lapic->icr = 0;
    lapic->divide = 0;
    lapic->initial_count = 0;
    lapic->extint_message = false;
    lapic->timer_counting = false;
    lapic->tsc_deadline = 0;
    hv_vpt_reset(&lapic->timer);
}

/* ISR, TMR and IRR are 8 registers each, 16 bytes apart. */
static const uint32_t *lapic_vectors_at(const struct hv_lapic *lapic, uint32_t offset)
{
    switch (offset & ~0x7fu) {
    case LAPIC_ISR & ~0x7f:
        return &lapic->isr[(offset - LAPIC_ISR) / 16];
    case LAPIC_TMR & ~0x7f:
        return &lapic->tmr[(offset - LAPIC_TMR) / 16];
    case LAPIC_IRR & ~0x7f:
        return &lapic->irr[(offset - LAPIC_IRR) / 16];
    default:
        return NULL;
    }
}

/* LVT entries stand one after another; true and *entry_out when @offset is one. */
static bool lapic_lvt_at(uint32_t offset, enum hv_lapic_lvt *entry_out)
{
    uint32_t index = (offset - LAPIC_LVT) / 16;

    *entry_out = (enum hv_lapic_lvt)index;
    return offset >= LAPIC_LVT && index < HV_LAPIC_LVT_COUNT;
}

static bool lapic_read_locked(struct hv_lapic *lapic, uint32_t offset, uint32_t *value_out)
    HV_REQUIRES(&lapic->lock)
{
    const uint32_t *vectors = lapic_vectors_at(lapic, offset);
    enum hv_lapic_lvt entry;

    if (vectors) {
        *value_out = *vectors;
        return true;
    }
    if (lapic_lvt_at(offset, &entry)) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): callers pass a register that exists */
        *value_out = lapic->lvt[entry];
        return true;
    }
    switch (offset) {
    case LAPIC_ID:
        *value_out = hv_load_relaxed(&lapic->id);
        return true;
    case LAPIC_VERSION:
        *value_out = LAPIC_VERSION_VALUE;
        return true;
    case LAPIC_TPR:
        *value_out = lapic->tpr;
        return true;
    case LAPIC_PPR:
    case LAPIC_APR: /* 11.6.2.4: no bus to arbitrate on */
        *value_out = hv_load_relaxed(&lapic->ppr);
        return true;
    case LAPIC_LDR:
        *value_out = hv_load_relaxed(&lapic->ldr);
        return true;
    case LAPIC_DFR:
        *value_out = hv_load_relaxed(&lapic->dfr);
        return true;
    case LAPIC_SVR:
        *value_out = hv_load_relaxed(&lapic->svr);
        return true;
    case LAPIC_ESR:
        *value_out = lapic->esr;
        return true;
    case LAPIC_ICR_LOW:
        *value_out = (uint32_t)lapic->icr;
        return true;
    case LAPIC_ICR_HIGH:
        *value_out = (uint32_t)(lapic->icr >> 32);
        return true;
    case LAPIC_INITIAL:
        *value_out = lapic->initial_count;
        return true;
    case LAPIC_CURRENT:
        *value_out = lapic_timer_current_locked(lapic);
        return true;
    case LAPIC_DIVIDE:
        *value_out = lapic->divide;
        return true;
    default: /* EOI and self-IPI are write-only */
        *value_out = 0;
        return false;
    }
}

bool lapic_register_read(struct hv_lapic *lapic, uint32_t offset, uint32_t *value_out)
{
    bool exists;

    hv_lock_take(&lapic->lock);
    if (lapic_settle_eoi_locked(lapic)) {
        lapic_update_locked(lapic);
    }
    exists = lapic_read_locked(lapic, offset, value_out);
    hv_lock_drop(&lapic->lock);
    return exists;
}

static void lapic_write_lvt_locked(struct hv_lapic *lapic, enum hv_lapic_lvt entry, uint32_t value)
    HV_REQUIRES(&lapic->lock)
{
    value &= lapic_lvt_writable(entry);
    /* 11.4.7.2: a software-disabled APIC keeps its entries masked. */
    if (!lapic_software_enabled(lapic)) {
        value |= LAPIC_LVT_MASKED;
    }
    if (entry == HV_LAPIC_LVT_TIMER) {
        lapic_timer_write_lvt_locked(lapic, value);
        return;
    }
    lapic->lvt[entry] = value | (lapic->lvt[entry] & LAPIC_LVT_REMOTE_IRR);
    if (entry == HV_LAPIC_LVT_LINT0) {
        if (!(value & LAPIC_LVT_LEVEL)) {
            lapic->lvt[entry] &= ~(uint32_t)LAPIC_LVT_REMOTE_IRR;
        }
        lapic_lint0_locked(lapic);
    }
}

static void lapic_write_svr_locked(struct hv_lapic *lapic, uint32_t value) HV_REQUIRES(&lapic->lock)
{
    hv_store_relaxed(&lapic->svr, value & LAPIC_SVR_MASK);
    if (!(value & LAPIC_SVR_ENABLE)) {
        for (unsigned i = 0; i < HV_LAPIC_LVT_COUNT; i++) {
            lapic->lvt[i] |= LAPIC_LVT_MASKED;
        }
    }
}

static bool lapic_write_locked(struct hv_lapic *lapic, uint32_t offset, uint32_t value)
    HV_REQUIRES(&lapic->lock)
{
    enum hv_lapic_lvt entry;

    if (lapic_lvt_at(offset, &entry)) {
        lapic_write_lvt_locked(lapic, entry, value);
        return true;
    }
    switch (offset) {
    case LAPIC_ID:
        hv_store_relaxed(&lapic->id, value & 0xff000000);
        return true;
    case LAPIC_TPR:
        lapic->tpr = value & 0xff;
        return true;
    case LAPIC_LDR:
        hv_store_relaxed(&lapic->ldr, value & 0xff000000);
        return true;
    case LAPIC_DFR: /* 11.6.2.2: model in the top four bits, the others are ones */
        hv_store_relaxed(&lapic->dfr, value | 0x0fffffff);
        return true;
    case LAPIC_SVR:
        lapic_write_svr_locked(lapic, value);
        return true;
    case LAPIC_ESR: /* 11.5.3: a write makes what has gathered readable */
        lapic->esr = lapic->esr_pending;
        lapic->esr_pending = 0;
        return true;
    case LAPIC_ICR_HIGH:
        lapic->icr = (lapic->icr & UINT32_MAX) | (uint64_t)(value & 0xff000000) << 32;
        return true;
    case LAPIC_INITIAL:
        lapic_timer_write_initial_locked(lapic, value);
        return true;
    case LAPIC_DIVIDE:
        lapic_timer_write_divide_locked(lapic, value);
        return true;
    case LAPIC_RRD: /* read-only, but no error to write on any processor */
    case LAPIC_APR:
    case LAPIC_PPR:
        return true;
    default:
        return false;
    }
}

bool lapic_register_write(struct hv_lapic *lapic, uint32_t offset, uint32_t value)
{
    uint64_t icr = 0;
    bool exists;

    if (offset == LAPIC_EOI) {
        lapic_eoi(lapic);
        return true;
    }
    hv_lock_take(&lapic->lock);
    (void)lapic_settle_eoi_locked(lapic);
    if (offset == LAPIC_ICR_LOW) {
        lapic->icr = (lapic->icr & ~(uint64_t)UINT32_MAX) | (value & LAPIC_ICR_MASK);
        icr = lapic->icr;
        exists = true;
    } else {
        exists = lapic_write_locked(lapic, offset, value);
    }
    lapic_drop(lapic);
    if (offset == LAPIC_ICR_LOW) {
        lapic_send_icr(lapic, icr);
    }
    return exists;
}

uint32_t lapic_register_writable(uint32_t offset)
{
    enum hv_lapic_lvt entry;

    if (lapic_lvt_at(offset, &entry)) {
        /* The read-only bits are no reserved ones: a value that was read can be written back. */
        return lapic_lvt_writable(entry) | LAPIC_LVT_STATUS | LAPIC_LVT_REMOTE_IRR;
    }
    switch (offset) {
    case LAPIC_TPR:
        return 0xff;
    case LAPIC_SVR:
        return LAPIC_SVR_MASK;
    case LAPIC_INITIAL:
        return UINT32_MAX;
    case LAPIC_DIVIDE:
        return LAPIC_DIVIDE_MASK;
    default:
        return 0;
    }
}
