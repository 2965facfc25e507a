/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The local APIC's end of interrupt (SDM 3A 11.8.5). */
#include "platform/lapic-private.h"

/* 11.8.5: out of service, and told to whom it concerns. Returns the vector to broadcast, or -1. */
static int lapic_eoi_locked(struct hv_lapic *lapic) HV_REQUIRES(&lapic->lock)
{
    int vector = lapic_highest(lapic->isr);
    uint32_t lint0 = lapic->lvt[HV_LAPIC_LVT_LINT0];

    if (vector < 0) {
        return -1;
    }
    (void)lapic_vector_clear(lapic->isr, (uint8_t)vector);
    if (!(lapic->tmr[vector / 32] & 1u << (vector & 31))) {
        return -1;
    }
    if ((lint0 & LAPIC_LVT_REMOTE_IRR) && (int)(lint0 & LAPIC_LVT_VECTOR) == vector) {
        lapic->lvt[HV_LAPIC_LVT_LINT0] &= ~(uint32_t)LAPIC_LVT_REMOTE_IRR;
        lapic_lint0_locked(lapic);
    }
    return hv_load_relaxed(&lapic->svr) & LAPIC_SVR_NO_BROADCAST ? -1 : vector;
}

void lapic_eoi(struct hv_lapic *lapic)
{
    const struct hv_lapic_hooks *hooks = &lapic->set->hooks;
    int vector;

    hv_lock_take(&lapic->lock);
    vector = lapic_eoi_locked(lapic);
    lapic_drop(lapic);
    if (vector >= 0) {
        hooks->eoi(hooks->context, (uint8_t)vector);
    }
}
