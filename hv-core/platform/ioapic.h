/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The I/O APIC: 24 pins to interrupt messages.
 *
 *     edge pin: rising wire, not masked --> message          (masked: the edge is lost)
 *     level pin: wire high, not masked, remote IRR clear --> message, remote IRR set
 *     remote IRR --EOI of the vector, or the pin made edge-triggered--> clear
 *
 * Wires carry "asserted": the polarity bits are kept and mean nothing.
 *
 * Threads: any; one lock, HV_RANK_IRQ_CHIP. Messages are sent with it held.
 * Source: Intel 82093AA data sheet (290566-001); the EOI register and version 20h from the ICH
 * family's integrated I/O APIC.
 */
#pragma once

#include "platform/bus.h"
#include "platform/lapic.h"
#include "platform/record.h"

#define HV_IOAPIC_PINS           24u
#define HV_IOAPIC_BASE           UINT64_C(0xfec00000)
#define HV_IOAPIC_RECORD_VERSION 1

struct hv_ioapic_counters {
    _Atomic uint64_t messages, eois, lost; /* lost: edges of masked pins */
};

struct hv_ioapic {
    struct hv_lock lock; /* HV_RANK_IRQ_CHIP */
    /* Set at creation. */
    struct hv_lapics *lapics;
    /* Guarded by &lock. */
    uint8_t index;
    uint32_t id;    /* bits 27:24 */
    uint32_t lines; /* the wires as they are driven */
    uint64_t entry[HV_IOAPIC_PINS];
    struct hv_ioapic_counters counters;
};

struct hv_ioapic_record {
    uint32_t version, index, id, lines;
    uint64_t entry[HV_IOAPIC_PINS];
};

/** Make it at HV_IOAPIC_BASE, all pins masked. Errors of hv_bus_add(). @lapics is borrowed. */
HV_MUST_CHECK int hv_ioapic_init(struct hv_ioapic *ioapic, struct hv_bus *bus,
                                 struct hv_lapics *lapics);
void hv_ioapic_finish(struct hv_ioapic *ioapic);
/** Power-up state; wires keep their level. */
void hv_ioapic_reset(struct hv_ioapic *ioapic);

/** Drive @pin, below HV_IOAPIC_PINS (others are ignored). A device lock may be held. */
void hv_ioapic_set(struct hv_ioapic *ioapic, unsigned pin, bool high);
/** What @pin sends when it is raised; false: it is masked. */
bool hv_ioapic_message(struct hv_ioapic *ioapic, unsigned pin, struct hv_interrupt *interrupt_out);
/** The vector of @pin's messages, or -1: masked, or none that carries one. */
int hv_ioapic_vector(struct hv_ioapic *ioapic, unsigned pin);
/** A local APIC's EOI broadcast. */
void hv_ioapic_eoi(struct hv_ioapic *ioapic, uint8_t vector);

void hv_ioapic_save(struct hv_ioapic *ioapic, struct hv_ioapic_record *record_out);
const char *hv_ioapic_check(const struct hv_ioapic_record *record);
void hv_ioapic_load(struct hv_ioapic *ioapic, const struct hv_ioapic_record *record);
