/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Interrupt messages: who is meant, and what arrives (SDM 3A 11.6, 11.11). */
#include "platform/lapic-private.h"

#include <errno.h>

/* MSI address and data (11.11.1, 11.11.2). */
enum lapic_msi {
    LAPIC_MSI_LOGICAL = 1u << 2,
    LAPIC_MSI_DESTINATION_SHIFT = 12,
    LAPIC_MSI_DELIVERY_SHIFT = 8,
    LAPIC_MSI_LEVEL = 1u << 15,
};

#define LAPIC_MSI_BASE UINT64_C(0xfee)

/* 11.6.2.2, 11.12.10: does the logical destination name this one? */
static bool lapic_matches_logical(const struct hv_lapic *lapic, uint32_t destination)
{
    uint32_t ldr = hv_load_relaxed(&lapic->ldr);
    uint32_t logical = ldr >> 24;

    if (lapic_x2apic(lapic)) {
        return ldr >> 16 == destination >> 16 && (ldr & destination & 0xffff);
    }
    if (destination > 0xff) {
        return false;
    }
    if (hv_load_relaxed(&lapic->dfr) >> 28 == 0) { /* cluster model */
        return logical >> 4 == destination >> 4 && (logical & destination & 0xf);
    }
    return logical & destination;
}

static bool lapic_matches(const struct hv_lapic *lapic, const struct hv_interrupt *interrupt)
{
    uint32_t id = hv_load_relaxed(&lapic->id);

    if (!lapic_enabled(lapic)) {
        return false;
    }
    if (interrupt->broadcast) {
        return true;
    }
    if (interrupt->logical) {
        return lapic_matches_logical(lapic, interrupt->destination);
    }
    return interrupt->destination == (lapic_x2apic(lapic) ? id : id >> 24);
}

static void lapic_deliver(struct hv_lapic *lapic, const struct hv_interrupt *interrupt)
{
    enum hv_delivery delivery = (enum hv_delivery)interrupt->delivery;
    const struct hv_lapic_hooks *hooks = &lapic->set->hooks;

    if (interrupt->sender && interrupt->sender != lapic && hooks->ipi) {
        hooks->ipi(hooks->context, interrupt->sender->index, lapic->index);
    }
    hv_lock_take(&lapic->lock);
    /* 11.4.7.2: disabled by software, it takes INIT, NMI, SMI and SIPI only; and ExtINT, whose
     * vector is the 8259A's. */
    if (delivery > HV_DELIVERY_LOWEST || lapic_software_enabled(lapic)) {
        lapic_accept_locked(lapic, delivery, interrupt->vector, interrupt->level);
    }
    lapic_drop(lapic);
}

/*
 * 11.6.2.4: the processor of the lowest priority among those named; equals take turns. Priorities
 * are read without locks: the choice is a hint, any of them is right.
 */
static struct hv_lapic *lapic_lowest(struct hv_lapics *lapics, const struct hv_interrupt *interrupt)
{
    unsigned turn = hv_add_relaxed(&lapics->turn, 1) % lapics->count;
    struct hv_lapic *best = NULL;
    uint32_t best_class = UINT32_MAX;

    for (unsigned i = 0; i < lapics->count; i++) {
        struct hv_lapic *lapic = &lapics->lapic[(turn + i) % lapics->count];
        uint32_t class = hv_load_relaxed(&lapic->ppr) >> 4;

        if (class < best_class && lapic_software_enabled(lapic) &&
            lapic_matches(lapic, interrupt)) {
            best = lapic;
            best_class = class;
        }
    }
    return best;
}

bool hv_lapics_send(struct hv_lapics *lapics, const struct hv_interrupt *interrupt)
{
    bool any = false;

    if (interrupt->delivery == HV_DELIVERY_LOWEST) {
        struct hv_lapic *lapic = lapic_lowest(lapics, interrupt);

        if (lapic) {
            lapic_deliver(lapic, interrupt);
        }
        return lapic;
    }
    for (unsigned i = 0; i < lapics->count; i++) {
        if (lapic_matches(&lapics->lapic[i], interrupt)) {
            lapic_deliver(&lapics->lapic[i], interrupt);
            any = true;
        }
    }
    return any;
}

bool hv_lapics_requested(struct hv_lapics *lapics, const struct hv_interrupt *interrupt)
{
    bool requested = false;

    for (unsigned i = 0; !requested && i < lapics->count; i++) {
        struct hv_lapic *lapic = &lapics->lapic[i];

        if (lapic_matches(lapic, interrupt)) {
            hv_lock_take(&lapic->lock);
            requested = lapic->irr[interrupt->vector / 32] & 1u << (interrupt->vector & 31);
            hv_lock_drop(&lapic->lock);
        }
    }
    return requested;
}

/* The id that physical destinations name it by; UINT32_MAX while it is switched off. */
static uint32_t lapic_present_id(const struct hv_lapic *lapic)
{
    uint32_t id = hv_load_relaxed(&lapic->id);

    if (!lapic_enabled(lapic)) {
        return UINT32_MAX;
    }
    return lapic_x2apic(lapic) ? id : id >> 24;
}

int hv_lapics_find(const struct hv_lapics *lapics, uint32_t id)
{
    for (unsigned i = 0; i < lapics->count; i++) {
        if (lapic_present_id(&lapics->lapic[i]) == id) {
            return (int)i;
        }
    }
    return -ENOENT;
}

/* Bit @distance of the two words @ids, each of @width bits. */
static bool lapic_named(const uint64_t ids[2], uint64_t distance, unsigned width)
{
    return distance < 2 * width && (ids[distance / width] & HV_BIT(distance % width));
}

int hv_lapic_send_many(struct hv_lapic *sender, const uint64_t ids[2], unsigned width,
                       uint32_t first, uint64_t icr)
{
    struct hv_lapics *lapics = sender->set;
    const struct hv_interrupt interrupt = {
        .vector = (uint8_t)icr,
        .delivery = (uint8_t)hv_bits(icr, LAPIC_ICR_DELIVERY_SHIFT, 3),
        .sender = sender,
    };
    int reached = 0;

    if ((icr & LAPIC_ICR_LOGICAL) || hv_bits(icr, LAPIC_ICR_SHORTHAND_SHIFT, 2)) {
        return -EINVAL;
    }
    for (unsigned i = 0; i < lapics->count; i++) {
        struct hv_lapic *lapic = &lapics->lapic[i];
        uint32_t id = lapic_present_id(lapic);

        if (id != UINT32_MAX && id >= first && lapic_named(ids, id - first, width)) {
            lapic_deliver(lapic, &interrupt);
            reached++;
        }
    }
    return reached;
}

/* INIT starts the bootstrap processor and sends the others to wait for a SIPI (SDM 3A 8.4.2). */
bool lapic_rouses(const struct hv_lapic *lapic, enum hv_delivery delivery, uint64_t nmi_vcpus)
{
    if (delivery == HV_DELIVERY_INIT) {
        return hv_load_relaxed(&lapic->base) & LAPIC_BASE_BSP;
    }
    return delivery == HV_DELIVERY_NMI && (nmi_vcpus & HV_BIT(lapic->index));
}

bool hv_lapics_rouses(const struct hv_lapics *lapics, const struct hv_interrupt *interrupt,
                      uint64_t nmi_vcpus)
{
    for (unsigned i = 0; i < lapics->count; i++) {
        const struct hv_lapic *lapic = &lapics->lapic[i];

        if (lapic_matches(lapic, interrupt) &&
            lapic_rouses(lapic, (enum hv_delivery)interrupt->delivery, nmi_vcpus)) {
            return true;
        }
    }
    return false;
}

void hv_lapics_msi(struct hv_lapics *lapics, uint64_t address, uint32_t data)
{
    uint32_t destination = (uint32_t)(address >> LAPIC_MSI_DESTINATION_SHIFT) & 0xff;
    struct hv_interrupt interrupt = {
        .destination = destination,
        .broadcast = destination == 0xff,
        .logical = address & LAPIC_MSI_LOGICAL,
        .vector = (uint8_t)data,
        .delivery = (uint8_t)hv_bits(data, LAPIC_MSI_DELIVERY_SHIFT, 3),
        .level = data & LAPIC_MSI_LEVEL,
    };

    if (address >> 20 != LAPIC_MSI_BASE || interrupt.delivery == HV_DELIVERY_STARTUP) {
        return;
    }
    (void)hv_lapics_send(lapics, &interrupt);
}

void lapic_send_icr(struct hv_lapic *lapic, uint64_t icr)
{
    struct hv_lapics *lapics = lapic->set;
    uint32_t destination = (uint32_t)(icr >> (lapic_x2apic(lapic) ? 32 : 56));
    enum lapic_shorthand shorthand =
        (enum lapic_shorthand)hv_bits(icr, LAPIC_ICR_SHORTHAND_SHIFT, 2);
    struct hv_interrupt interrupt = {
        .destination = destination,
        .broadcast = destination == (lapic_x2apic(lapic) ? UINT32_MAX : 0xff),
        .logical = icr & LAPIC_ICR_LOGICAL,
        .vector = (uint8_t)icr,
        .delivery = (uint8_t)hv_bits(icr, LAPIC_ICR_DELIVERY_SHIFT, 3),
        .sender = lapic,
    };

    hv_count(&lapic->counters.ipis, 1);
    /* 11.6.1: INIT level de-assert only synchronised arbitration ids, long ago. */
    if (interrupt.delivery == HV_DELIVERY_INIT && (icr & LAPIC_ICR_LEVEL) &&
        !(icr & LAPIC_ICR_ASSERT)) {
        return;
    }
    /* 11.5.3, figure 11-9: an illegal vector is the sender's error as well. */
    if (interrupt.vector < LAPIC_LOWEST_VECTOR && interrupt.delivery <= HV_DELIVERY_LOWEST) {
        lapic_error(lapic, LAPIC_ESR_SEND_VECTOR);
    }
    switch (shorthand) {
    case LAPIC_SHORTHAND_NONE:
        (void)hv_lapics_send(lapics, &interrupt);
        return;
    case LAPIC_SHORTHAND_SELF:
        lapic_deliver(lapic, &interrupt);
        return;
    case LAPIC_SHORTHAND_ALL:
    case LAPIC_SHORTHAND_OTHERS:
        break;
    }
    for (unsigned i = 0; i < lapics->count; i++) {
        struct hv_lapic *target = &lapics->lapic[i];

        if (lapic_enabled(target) && (target != lapic || shorthand == LAPIC_SHORTHAND_ALL)) {
            lapic_deliver(target, &interrupt);
        }
    }
}
