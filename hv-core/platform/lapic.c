/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The local APIC's core: requests, priorities, acknowledge, local sources, life. */
#include "platform/lapic-private.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

/* Does the 8259A's request reach the processor? With the APIC disabled, LINT0 is INTR (11.4.3). */
static bool lapic_extint(const struct hv_lapic *lapic)
{
    uint32_t lvt = lapic->lvt[HV_LAPIC_LVT_LINT0];

    if (!lapic_enabled(lapic)) {
        return lapic->lint0_high;
    }
    return lapic->extint_message || (lapic->lint0_high && !(lvt & LAPIC_LVT_MASKED) &&
                                     lapic_lvt_delivery(lvt) == HV_DELIVERY_EXTINT);
}

bool lapic_update_locked(struct hv_lapic *lapic)
{
    int request = lapic_highest(lapic->irr);
    int service = lapic_highest(lapic->isr);
    uint32_t before = hv_load_relaxed(&lapic->attention);
    uint32_t attention = 0;
    uint32_t ppr = lapic->tpr;

    /* 11.8.3.1: the higher class of TPR and ISR; the subclass only when it is TPR's. */
    if (service >= 0 && ((uint32_t)service & 0xf0) > (ppr & 0xf0)) {
        ppr = (uint32_t)service & 0xf0;
    }
    hv_store_relaxed(&lapic->ppr, ppr);
    if (request >= 0 && ((uint32_t)request & 0xf0) > (ppr & 0xf0) && lapic_enabled(lapic) &&
        lapic_software_enabled(lapic)) {
        attention |= LAPIC_ATTENTION_VECTOR;
    }
    if (lapic_extint(lapic)) {
        attention |= LAPIC_ATTENTION_EXTINT;
    }
    if (request >= 0 && lapic->eoi_offered) {
        attention |= HV_LAPIC_ATTENTION_SETTLE;
    }
    hv_store_release(&lapic->attention, attention); /* pairs with hv_lapic_pending() */
    return attention && !before;
}

void lapic_drop(struct hv_lapic *lapic)
{
    bool changed = lapic_update_locked(lapic);

    hv_lock_drop(&lapic->lock);
    if (changed) {
        lapic->set->hooks.kick(lapic->set->hooks.context, lapic->index);
    }
}

static void lapic_error_locked(struct hv_lapic *lapic, uint32_t error) HV_REQUIRES(&lapic->lock)
{
    uint32_t lvt = lapic->lvt[HV_LAPIC_LVT_ERROR];

    lapic->esr_pending |= error;
    /* An illegal vector here is an error of its own, and must not be one for ever. */
    if (!(lvt & LAPIC_LVT_MASKED) && (lvt & LAPIC_LVT_VECTOR) >= LAPIC_LOWEST_VECTOR) {
        lapic_request_locked(lapic, (uint8_t)lvt, false);
    }
}

void lapic_error(struct hv_lapic *lapic, uint32_t error)
{
    hv_lock_take(&lapic->lock);
    lapic_error_locked(lapic, error);
    lapic_drop(lapic);
}

void lapic_request_locked(struct hv_lapic *lapic, uint8_t vector, bool level)
{
    if (vector < LAPIC_LOWEST_VECTOR) {
        lapic_error_locked(lapic, LAPIC_ESR_RECEIVE_VECTOR);
        return;
    }
    if (lapic_vector_set(lapic->irr, vector)) {
        hv_count(&lapic->counters.merged, 1);
    } else {
        hv_count(&lapic->counters.accepted, 1);
    }
    /* 11.8.4: TMR tells at acceptance whether EOI is to be broadcast. */
    if (level) {
        (void)lapic_vector_set(lapic->tmr, vector);
    } else {
        (void)lapic_vector_clear(lapic->tmr, vector);
    }
}

void lapic_accept_locked(struct hv_lapic *lapic, enum hv_delivery delivery, uint8_t vector,
                         bool level)
{
    const struct hv_lapic_hooks *hooks = &lapic->set->hooks;

    switch (delivery) {
    case HV_DELIVERY_FIXED:
    case HV_DELIVERY_LOWEST:
        lapic_request_locked(lapic, vector, level);
        break;
    case HV_DELIVERY_NMI:
        hooks->nmi(hooks->context, lapic->index);
        break;
    case HV_DELIVERY_INIT:
        hooks->init(hooks->context, lapic->index);
        break;
    case HV_DELIVERY_STARTUP:
        hooks->sipi(hooks->context, lapic->index, vector);
        break;
    case HV_DELIVERY_EXTINT:
        lapic->extint_message = true;
        break;
    case HV_DELIVERY_SMI: /* there is no SMM */
        break;
    }
}

/*
 * Whether a local source gets through, and as what. By its LVT entry; while the APIC is switched off,
 * LINT1 is the processor's own NMI pin (11.4.3).
 */
static bool lapic_local_open(const struct hv_lapic *lapic, enum hv_lapic_lvt source,
                             enum hv_delivery *delivery_out) HV_REQUIRES(&lapic->lock)
{
    uint32_t lvt = lapic->lvt[source];

    if (!lapic_enabled(lapic)) {
        *delivery_out = HV_DELIVERY_NMI;
        return source == HV_LAPIC_LVT_LINT1;
    }
    *delivery_out = lapic_lvt_delivery(lvt);
    /* Reserved in LVT entries (11.5.1). */
    return !(lvt & LAPIC_LVT_MASKED) && *delivery_out != HV_DELIVERY_LOWEST &&
           *delivery_out != HV_DELIVERY_STARTUP;
}

static void lapic_local_locked(struct hv_lapic *lapic, enum hv_lapic_lvt source)
    HV_REQUIRES(&lapic->lock)
{
    enum hv_delivery delivery;

    if (lapic_local_open(lapic, source, &delivery)) {
        lapic_accept_locked(lapic, delivery, (uint8_t)lapic->lvt[source], false);
    }
}

void hv_lapic_raise(struct hv_lapic *lapic, enum hv_lapic_lvt source)
{
    hv_lock_take(&lapic->lock);
    lapic_local_locked(lapic, source);
    lapic_drop(lapic);
}

void lapic_lint0_locked(struct hv_lapic *lapic)
{
    uint32_t lvt = lapic->lvt[HV_LAPIC_LVT_LINT0];

    if (lapic->lint0_high && !(lvt & LAPIC_LVT_MASKED) && (lvt & LAPIC_LVT_LEVEL) &&
        !(lvt & LAPIC_LVT_REMOTE_IRR) && lapic_lvt_delivery(lvt) == HV_DELIVERY_FIXED) {
        lapic->lvt[HV_LAPIC_LVT_LINT0] |= LAPIC_LVT_REMOTE_IRR;
        lapic_request_locked(lapic, (uint8_t)lvt, true);
    }
}

void hv_lapic_set_lint0(struct hv_lapic *lapic, bool high)
{
    uint32_t lvt;
    bool rises;

    hv_lock_take(&lapic->lock);
    lvt = lapic->lvt[HV_LAPIC_LVT_LINT0];
    rises = high && !lapic->lint0_high;
    lapic->lint0_high = high;
    if (lapic_lvt_delivery(lvt) == HV_DELIVERY_FIXED && (lvt & LAPIC_LVT_LEVEL)) {
        lapic_lint0_locked(lapic);
    } else if (rises && lapic_lvt_delivery(lvt) != HV_DELIVERY_EXTINT) {
        /* ExtINT follows the wire by itself; the other modes want its edge. */
        lapic_local_locked(lapic, HV_LAPIC_LVT_LINT0);
    }
    lapic_drop(lapic);
}

bool hv_lapic_local_rouses(struct hv_lapic *lapic, enum hv_lapic_lvt source, uint64_t nmi_vcpus)
{
    enum hv_delivery delivery;
    bool open;

    hv_lock_take(&lapic->lock);
    open = lapic_local_open(lapic, source, &delivery);
    hv_lock_drop(&lapic->lock);
    return open && lapic_rouses(lapic, delivery, nmi_vcpus);
}

struct hv_taken hv_lapic_acknowledge(struct hv_lapic *lapic)
{
    const struct hv_lapic_hooks *hooks = &lapic->set->hooks;
    uint32_t attention;
    int vector = -1;

    hv_lock_take(&lapic->lock);
    if (lapic_settle_eoi_locked(lapic)) {
        lapic_update_locked(lapic);
    }
    attention = hv_load_relaxed(&lapic->attention);
    if (attention & LAPIC_ATTENTION_VECTOR) {
        vector = lapic_highest(lapic->irr);
        (void)lapic_vector_clear(lapic->irr, (uint8_t)vector);
        (void)lapic_vector_set(lapic->isr, (uint8_t)vector);
        lapic_offer_eoi_locked(lapic, (uint8_t)vector);
        hv_count(&lapic->counters.acknowledged, 1);
        if ((uint8_t)vector == (uint8_t)lapic->lvt[HV_LAPIC_LVT_TIMER]) {
            hv_vpt_accept(&lapic->timer, lapic->index, NULL);
        }
    } else if (attention & LAPIC_ATTENTION_EXTINT) {
        lapic->extint_message = false;
    }
    /* No kick: the vCPU is the caller, and looks again. */
    lapic_update_locked(lapic);
    hv_lock_drop(&lapic->lock);
    if (vector < 0 && (attention & LAPIC_ATTENTION_EXTINT)) {
        return hooks->acknowledge_extint(hooks->context);
    }
    return (struct hv_taken){.vector = vector, .irq = -1};
}

uint64_t hv_lapic_cr8_read(const struct hv_lapic *lapic)
{
    /* Only its own vCPU, the caller, writes TPR. */
    return lapic->tpr >> 4;
}

void hv_lapic_cr8_write(struct hv_lapic *lapic, uint64_t value)
{
    hv_lock_take(&lapic->lock);
    lapic->tpr = (uint32_t)(value & 0xf) << 4;
    lapic_drop(lapic);
}

void hv_lapic_init_signal(struct hv_lapic *lapic)
{
    hv_lock_take(&lapic->lock);
    lapic->tpr = 0;
    lapic_clear_locked(lapic);
    lapic_update_locked(lapic);
    hv_lock_drop(&lapic->lock);
}

static void lapic_reset(struct hv_lapic *lapic)
{
    bool bootstrap = lapic->index == 0;

    hv_lock_take(&lapic->lock);
    hv_store_relaxed(&lapic->base, HV_LAPIC_DEFAULT_BASE | LAPIC_BASE_EN |
                                       (bootstrap ? (uint64_t)LAPIC_BASE_BSP : 0));
    hv_store_relaxed(&lapic->id, lapic->index << 24);
    lapic->tpr = 0;
    lapic_clear_locked(lapic);
    if (bootstrap) {
        lapic->lvt[HV_LAPIC_LVT_LINT0] = HV_DELIVERY_EXTINT << LAPIC_LVT_DELIVERY_SHIFT;
    }
    lapic_update_locked(lapic);
    hv_lock_drop(&lapic->lock);
}

void hv_lapics_reset(struct hv_lapics *lapics)
{
    for (unsigned i = 0; i < lapics->count; i++) {
        lapic_reset(&lapics->lapic[i]);
    }
}

int hv_lapics_init(struct hv_lapics *lapics, const struct hv_lapics_config *config)
{
    size_t bytes = config->vcpus * sizeof(struct hv_lapic);

    memset(lapics, 0, sizeof(*lapics));
    lapics->phys_bits = config->phys_bits;
    lapics->clock = config->clock;
    lapics->hooks = *config->hooks;
    lapics->lapic = hv_alloc_aligned(_Alignof(struct hv_lapic), bytes);
    if (!lapics->lapic) {
        return -ENOMEM;
    }
    for (unsigned i = 0; i < config->vcpus; i++) {
        struct hv_lapic *lapic = &lapics->lapic[i];

        lapic->set = lapics;
        lapic->index = i;
        hv_lock_init(&lapic->lock, HV_RANK_LAPIC, "platform.lapic", i);
        hv_vpt_init(&lapic->timer, config->timers, HV_VPT_LAPIC, i, lapic_timer_expired, lapic);
    }
    lapics->count = config->vcpus;
    hv_lapics_reset(lapics);
    return 0;
}

void hv_lapics_finish(struct hv_lapics *lapics)
{
    for (unsigned i = 0; i < lapics->count; i++) {
        hv_vpt_finish(&lapics->lapic[i].timer);
        hv_lock_finish(&lapics->lapic[i].lock);
    }
    hv_free(lapics->lapic);
    lapics->lapic = NULL;
    lapics->count = 0;
}
