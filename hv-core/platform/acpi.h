/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * ACPI fixed hardware: power management event and control registers, the power management timer,
 * an empty general-purpose event block, and the chip set's reset register.
 *
 * The machine is always in ACPI mode (the FADT names no SMI command port).
 *
 * Threads: any; one lock, HV_RANK_DEVICE. The hooks are called without it.
 * Source: ACPI 6.5, 4.8.3 (fixed hardware), 4.8.4 (general-purpose events), 4.8.3.3 (timer); Intel
 * 82371SB (PIIX3) 2.5.8 for the reset control register.
 */
#pragma once

#include "platform/bus.h"
#include "platform/irq.h"
#include "platform/record.h"
#include "platform/vpt.h"

#define HV_ACPI_EVENT_PORT     0x600 /* PM1a status and enable */
#define HV_ACPI_CONTROL_PORT   0x604 /* PM1a control */
#define HV_ACPI_TIMER_PORT     0x608
#define HV_ACPI_GPE_PORT       0x620 /* GPE0 status and enable */
#define HV_ACPI_SCI            9
#define HV_ACPI_RESET_PORT     0xcf9
#define HV_ACPI_RESET_VALUE    0x06 /* hard reset, CPU reset */
#define HV_ACPI_SLEEP_S5       5    /* SLP_TYP of soft-off */
#define HV_ACPI_TIMER_HZ       3579545u
#define HV_ACPI_RECORD_VERSION 1

/* Called with no lock held, on the vCPU's thread. */
struct hv_acpi_hooks {
    void (*poweroff)(void *context);
    void (*reset)(void *context);
    void *context;
};

struct hv_acpi {
    struct hv_lock lock; /* HV_RANK_DEVICE */
    /* Set at creation. */
    const struct hv_clock *clock;
    struct hv_irq_line sci; /* level-triggered */
    struct hv_acpi_hooks hooks;
    struct hv_log_limit *log_limit; /* borrowed */
    /* Guarded by &lock. */
    uint16_t status, enable, control;
    uint16_t gpe_enable;
    uint8_t reset_control;
    bool sci_high;
    uint64_t timer_start_ns; /* when the timer stood at zero (modulo 2^64) */
    uint64_t timer_wraps;    /* toggles of its top bit that TMR_STS knows of */
    struct hv_vpt timer;     /* TMR_EN: the next toggle */
};

struct hv_acpi_record {
    uint32_t version;
    uint16_t status, enable, control, gpe_enable;
    uint8_t reset_control, sci_high, reserved[2];
    uint64_t timer_elapsed_ns, timer_wraps;
};

/** Make it on its ports. @sci is GSI 9; @log_limit is borrowed. As hv_pit_init(). */
HV_MUST_CHECK int hv_acpi_init(struct hv_acpi *acpi, struct hv_bus *bus,
                               const struct hv_clock *clock, struct hv_vpt_set *timers,
                               const struct hv_irq_line *sci, const struct hv_acpi_hooks *hooks,
                               struct hv_log_limit *log_limit);
void hv_acpi_finish(struct hv_acpi *acpi);
void hv_acpi_reset(struct hv_acpi *acpi);

/** The power button: the guest learns of it by an SCI, if it asked for one. Any thread. */
void hv_acpi_press_power(struct hv_acpi *acpi);

/** vCPU @vcpu has taken the SCI. No lock held. */
void hv_acpi_accepted(struct hv_acpi *acpi, unsigned vcpu);

void hv_acpi_save(struct hv_acpi *acpi, struct hv_acpi_record *record_out);
const char *hv_acpi_check(const struct hv_acpi_record *record);
void hv_acpi_load(struct hv_acpi *acpi, const struct hv_acpi_record *record);
