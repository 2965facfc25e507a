/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The interrupt controllers of a rig, as a guest programs them. */
#pragma once

#include "unit/platform/rig.h"

/* Local APIC registers of a vCPU, in memory at the usual place. */

static inline uint32_t rig_apic_read(struct rig *rig, unsigned vcpu, uint32_t offset)
{
    return (uint32_t)rig_access_read(rig, HV_BUS_MMIO, vcpu, HV_LAPIC_DEFAULT_BASE + offset, 4);
}

static inline void rig_apic_write(struct rig *rig, unsigned vcpu, uint32_t offset, uint32_t value)
{
    rig_access_write(rig, HV_BUS_MMIO, vcpu, HV_LAPIC_DEFAULT_BASE + offset, 4, value);
}

/** Enable a vCPU's local APIC by SVR, as every guest does first. */
static inline void rig_apic_enable(struct rig *rig, unsigned vcpu)
{
    rig_apic_write(rig, vcpu, 0xf0, 0x1ff);
}

/** Write entry @pin of the I/O APIC. */
static inline void rig_ioapic_write(struct rig *rig, unsigned pin, uint64_t entry)
{
    rig_mmio_write(rig, HV_IOAPIC_BASE, 4, 0x10 + pin * 2 + 1);
    rig_mmio_write(rig, HV_IOAPIC_BASE + 0x10, 4, entry >> 32);
    rig_mmio_write(rig, HV_IOAPIC_BASE, 4, 0x10 + pin * 2);
    rig_mmio_write(rig, HV_IOAPIC_BASE + 0x10, 4, entry & UINT32_MAX);
}

static inline uint64_t rig_ioapic_read(struct rig *rig, unsigned pin)
{
    uint64_t high;

    rig_mmio_write(rig, HV_IOAPIC_BASE, 4, 0x10 + pin * 2 + 1);
    high = rig_mmio_read(rig, HV_IOAPIC_BASE + 0x10, 4);
    rig_mmio_write(rig, HV_IOAPIC_BASE, 4, 0x10 + pin * 2);
    return high << 32 | rig_mmio_read(rig, HV_IOAPIC_BASE + 0x10, 4);
}

/** The vector that a vCPU would take now; -1 for none. It goes in service. */
static inline int rig_take(struct rig *rig, unsigned vcpu)
{
    if (!hv_platform_interrupt_pending(&rig->platform, vcpu)) {
        return -1;
    }
    return hv_platform_interrupt_acknowledge(&rig->platform, vcpu);
}

static inline void rig_eoi(struct rig *rig, unsigned vcpu)
{
    rig_apic_write(rig, vcpu, 0xb0, 0);
}

/** Initialise the first or second 8259A (0, 1) as PCs do, for vectors 30h or 38h on, unmasked. */
static inline void rig_pic_start(struct rig *rig, unsigned which, bool auto_eoi)
{
    uint16_t port = which ? 0xa0 : 0x20;

    rig_outb(rig, port, 0x11);
    rig_outb(rig, port + 1, (uint8_t)(0x30 + 8 * which));
    rig_outb(rig, port + 1, which ? 0x02 : 0x04);
    rig_outb(rig, port + 1, auto_eoi ? 0x03 : 0x01);
    rig_outb(rig, port + 1, 0x00);
}
