/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Whether a machine whose vCPUs all wait with interrupts off can go on by itself: something is left
 * that moves a wire, and that wire leads to a vCPU by a way that RFLAGS.IF does not close.
 *
 *     moves a wire    PIT, RTC, HPET, PM timer while armed; from outside: serial input, the power
 *                     and NMI buttons
 *     is open         I/O APIC pins, the 8259A through LINT0, LINT1, in NMI and INIT mode; the NMI pin
 *                     of a processor whose APIC is off
 *
 * A local APIC's timer is not among them: its interrupt is always a maskable one (SDM 3A 11.5.1).
 */
#include "platform/platform-private.h"

/* Under the device's lock: a callback that has disarmed its timer has also moved its wire. */
static bool platform_armed(struct hv_lock *lock, const struct hv_vpt *vpt)
{
    bool armed;

    hv_lock_take(lock);
    armed = hv_load_relaxed(&vpt->running);
    hv_lock_drop(lock);
    return armed;
}

static bool platform_gsi_rouses(struct hv_platform *platform, unsigned gsi, uint64_t nmi_vcpus)
{
    struct hv_interrupt message;

    if (hv_ioapic_message(&platform->ioapic, platform_pin(gsi), &message) &&
        hv_lapics_rouses(&platform->lapics, &message, nmi_vcpus)) {
        return true;
    }
    return gsi < HV_PIC_PINS && !hv_pic_masked(&platform->pic, gsi) &&
           hv_lapic_local_rouses(&platform->lapics.lapic[0], HV_LAPIC_LVT_LINT0, nmi_vcpus);
}

/* PIT and RTC, where the HPET has not taken their place. */
static bool platform_legacy_rouses(struct hv_platform *platform, uint64_t nmi_vcpus)
{
    if (hv_hpet_replaces_legacy(&platform->hpet)) {
        return false;
    }
    if (platform_armed(&platform->pit.lock, &platform->pit.timer) &&
        platform_gsi_rouses(platform, PLATFORM_IRQ_TIMER, nmi_vcpus)) {
        return true;
    }
    return (platform_armed(&platform->rtc.lock, &platform->rtc.periodic) ||
            platform_armed(&platform->rtc.lock, &platform->rtc.update)) &&
           platform_gsi_rouses(platform, PLATFORM_IRQ_RTC, nmi_vcpus);
}

static bool platform_nmi_button_rouses(struct hv_platform *platform, uint64_t nmi_vcpus)
{
    for (unsigned i = 0; i < platform->lapics.count; i++) {
        if (hv_lapic_local_rouses(&platform->lapics.lapic[i], HV_LAPIC_LVT_LINT1, nmi_vcpus)) {
            return true;
        }
    }
    return false;
}

bool hv_platform_may_rouse(struct hv_platform *platform, uint64_t nmi_vcpus)
{
    struct hv_hpet *hpet = &platform->hpet;

    /* The PM timer's interrupt is the power button's, too. */
    if (platform_gsi_rouses(platform, HV_UART_IRQ, nmi_vcpus) ||
        platform_gsi_rouses(platform, HV_ACPI_SCI, nmi_vcpus) ||
        platform_nmi_button_rouses(platform, nmi_vcpus) ||
        platform_legacy_rouses(platform, nmi_vcpus)) {
        return true;
    }
    for (unsigned i = 0; i < HV_HPET_TIMERS; i++) {
        if (platform_armed(&hpet->lock, &hpet->timer[i].vpt) &&
            platform_gsi_rouses(platform, hv_hpet_gsi(hpet, i), nmi_vcpus)) {
            return true;
        }
    }
    return false;
}
