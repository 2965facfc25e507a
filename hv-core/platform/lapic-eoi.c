/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The local APIC's end of interrupt (SDM 3A 11.8.5), and the same by a byte in guest memory.
 *
 * When an edge-triggered interrupt goes in service and nothing else is requested or in service, its
 * end concerns nobody now: the byte's bit 0 is set, which offers the guest to say by clearing it that
 * it is done. The offer is settled, one way or the other, before anything depends on it:
 *
 *     none --acknowledge, alone--> offered --bit found clear--> none, the interrupt has ended
 *                                          --bit found set---> none, a write to EOI will come
 *
 * By the vCPU before it looks at, or changes, what is in service; and when another interrupt is
 * requested, which asks for that by `attention`. So a request is never kept waiting for an interrupt
 * that has ended. Source: Linux, Documentation/virt/kvm/x86/msr.rst, MSR_KVM_PV_EOI_EN.
 */
#include "platform/lapic-private.h"

#include <string.h>

#define LAPIC_EOI_OFFER UINT8_C(1)

static bool lapic_none(const uint32_t vectors[8])
{
    return lapic_highest(vectors) < 0;
}

bool lapic_settle_eoi_locked(struct hv_lapic *lapic)
{
    if (HV_LIKELY(!lapic->eoi_offered)) {
        return false;
    }
    lapic->eoi_offered = false;
    if (!(hv_area_swap1(&lapic->eoi_area, 0, 0) & LAPIC_EOI_OFFER)) {
        /* As an edge, which it was when it was offered: nobody else waits to hear of it. */
        (void)lapic_vector_clear(lapic->isr, (uint8_t)lapic_highest(lapic->isr));
        hv_count(&lapic->counters.memory_eois, 1);
    }
    return true;
}

void lapic_offer_eoi_locked(struct hv_lapic *lapic, uint8_t vector)
{
    uint32_t in_service[8];

    if (!hv_area_pinned(&lapic->eoi_area) || (lapic->tmr[vector / 32] & 1u << (vector & 31)) ||
        !lapic_none(lapic->irr)) {
        return;
    }
    memcpy(in_service, lapic->isr, sizeof(in_service));
    (void)lapic_vector_clear(in_service, vector);
    if (lapic_none(in_service)) {
        hv_area_store1(&lapic->eoi_area, 0, LAPIC_EOI_OFFER);
        lapic->eoi_offered = true;
    }
}

bool hv_lapic_settle(struct hv_lapic *lapic)
{
    bool pending;

    hv_lock_take(&lapic->lock);
    (void)lapic_settle_eoi_locked(lapic);
    lapic_update_locked(lapic);
    pending = hv_load_relaxed(&lapic->attention) != 0;
    hv_lock_drop(&lapic->lock);
    return pending;
}

void hv_lapic_set_eoi_area(struct hv_lapic *lapic, const struct hv_area *area)
{
    struct hv_area old;

    hv_lock_take(&lapic->lock);
    if (lapic_settle_eoi_locked(lapic)) {
        lapic_update_locked(lapic);
    }
    old = lapic->eoi_area;
    lapic->eoi_area = *area;
    hv_lock_drop(&lapic->lock);
    hv_area_unpin(&old);
}

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
    (void)lapic_settle_eoi_locked(lapic);
    vector = lapic_eoi_locked(lapic);
    lapic_drop(lapic);
    if (vector >= 0) {
        hooks->eoi(hooks->context, (uint8_t)vector);
    }
}
