/* SPDX-License-Identifier: GPL-3.0-or-later */
/* ACPI fixed hardware. */
#include "platform/acpi.h"

#include <string.h>

#include "base/bits.h"
#include "platform/tick.h"
#include "sync/race.h"

/* PM1 status and enable (ACPI 6.5, tables 4.11 and 4.12); status bits are cleared by writing one. */
enum acpi_pm1 {
    ACPI_PM1_TIMER = 1u << 0,
    ACPI_PM1_GLOBAL = 1u << 5,
    ACPI_PM1_POWER_BUTTON = 1u << 8,
    ACPI_PM1_RTC = 1u << 10,
    ACPI_PM1_WAKE = 1u << 15,
    ACPI_PM1_STATUS = 0x8531,
    ACPI_PM1_ENABLE = 0x0521,
};

/* PM1 control (table 4.13). */
enum acpi_control {
    ACPI_CONTROL_SCI = 1u << 0, /* always set: ACPI mode */
    ACPI_CONTROL_TYPE_SHIFT = 10,
    ACPI_CONTROL_SLEEP = 1u << 13, /* write-only */
    ACPI_CONTROL_WRITABLE = 0x1c02,
};

/* Reset control register (PIIX3 2.5.8). */
enum acpi_reset {
    ACPI_RESET_CPU = 1u << 2, /* its rising edge resets */
    ACPI_RESET_WRITABLE = 0x0e,
};

/* The timer has 32 bits (FADT: TMR_VAL_EXT), and TMR_STS follows the top one. */
#define ACPI_TIMER_HALF (UINT64_C(1) << 31)

static uint64_t acpi_ticks(const struct hv_acpi *acpi, hv_ns now)
{
    return hv_ticks_from_ns(now.v - acpi->timer_start_ns, HV_ACPI_TIMER_HZ);
}

static void acpi_drive_locked(struct hv_acpi *acpi) HV_REQUIRES(&acpi->lock)
{
    bool high = acpi->status & acpi->enable & ACPI_PM1_ENABLE;

    if (high != acpi->sci_high) {
        acpi->sci_high = high;
        hv_irq_line_set(&acpi->sci, high);
    }
}

/* 4.8.3.3: TMR_STS is set whenever the top bit changes. Returns the moment that all is as of. */
static hv_ns acpi_settle_locked(struct hv_acpi *acpi) HV_REQUIRES(&acpi->lock)
{
    hv_ns now = hv_clock_now(acpi->clock);
    uint64_t wraps = acpi_ticks(acpi, now) / ACPI_TIMER_HALF;

    if (hv_vpt_expire(&acpi->timer, now)) {
        hv_vpt_issue(&acpi->timer);
    }
    if (wraps > acpi->timer_wraps) {
        acpi->status |= ACPI_PM1_TIMER;
        acpi->timer_wraps = wraps;
        acpi_drive_locked(acpi);
    }
    HV_RACE("acpi.settled");
    return now;
}

static void acpi_expired(void *context)
{
    struct hv_acpi *acpi = context;

    hv_lock_take(&acpi->lock);
    (void)acpi_settle_locked(acpi);
    hv_lock_drop(&acpi->lock);
}

static void acpi_arm_locked(struct hv_acpi *acpi) HV_REQUIRES(&acpi->lock)
{
    if (acpi->enable & ACPI_PM1_TIMER) {
        hv_vpt_start_grid(&acpi->timer, acpi->timer_start_ns, ACPI_TIMER_HALF, HV_ACPI_TIMER_HZ);
    } else {
        hv_vpt_stop(&acpi->timer);
    }
}

static int acpi_read(struct hv_acpi *acpi, uint32_t (*read_locked)(struct hv_acpi *acpi),
                     uint64_t offset, unsigned bytes, uint64_t *value_out)
{
    hv_lock_take(&acpi->lock);
    *value_out = hv_bytes_get(read_locked(acpi), offset, bytes);
    hv_lock_drop(&acpi->lock);
    return 0;
}

static uint32_t acpi_event_locked(struct hv_acpi *acpi) HV_REQUIRES(&acpi->lock)
{
    (void)acpi_settle_locked(acpi);
    return (uint32_t)acpi->enable << 16 | acpi->status;
}

static int acpi_event_read(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                           uint64_t *value_out)
{
    (void)vcpu;
    return acpi_read(context, acpi_event_locked, offset, bytes, value_out);
}

static int acpi_event_write(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                            uint64_t value)
{
    struct hv_acpi *acpi = context;
    uint64_t cleared = hv_bytes_put(0, offset, bytes, value);
    uint64_t enabled;

    (void)vcpu;
    hv_lock_take(&acpi->lock);
    (void)acpi_settle_locked(acpi);
    enabled = hv_bytes_put((uint64_t)acpi->enable << 16, offset, bytes, value) >> 16;
    acpi->status &= (uint16_t)~cleared;
    acpi->enable = enabled & ACPI_PM1_ENABLE;
    acpi_arm_locked(acpi);
    acpi_drive_locked(acpi);
    hv_lock_drop(&acpi->lock);
    return 0;
}

static uint32_t acpi_control_locked(struct hv_acpi *acpi) HV_REQUIRES(&acpi->lock)
{
    return acpi->control | ACPI_CONTROL_SCI;
}

static int acpi_control_read(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                             uint64_t *value_out)
{
    (void)vcpu;
    return acpi_read(context, acpi_control_locked, offset, bytes, value_out);
}

static int acpi_control_write(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                              uint64_t value)
{
    struct hv_acpi *acpi = context;
    bool sleep = hv_bytes_put(0, offset, bytes, value) & ACPI_CONTROL_SLEEP;
    unsigned type;

    (void)vcpu;
    hv_lock_take(&acpi->lock);
    acpi->control = hv_bytes_put(acpi->control, offset, bytes, value) & ACPI_CONTROL_WRITABLE;
    type = acpi->control >> ACPI_CONTROL_TYPE_SHIFT;
    hv_lock_drop(&acpi->lock);
    if (!sleep) {
        return 0;
    }
    if (type == HV_ACPI_SLEEP_S5) {
        acpi->hooks.poweroff(acpi->hooks.context);
    } else {
        hv_log_guest(acpi->log_limit, hv_clock_now(acpi->clock), HV_LOG_LEVEL_INFO,
                     "the guest asked for sleep type %u, which the machine does not have", type);
    }
    return 0;
}

static int acpi_timer_read(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                           uint64_t *value_out)
{
    const struct hv_acpi *acpi = context;

    /* No lock: the start only moves while no vCPU runs. */
    (void)vcpu;
    *value_out = hv_bytes_get(acpi_ticks(acpi, hv_clock_now(acpi->clock)), offset, bytes);
    return 0;
}

/* No event has a source yet: status reads zero, enables are kept. */
static uint32_t acpi_gpe_locked(struct hv_acpi *acpi) HV_REQUIRES(&acpi->lock)
{
    return (uint32_t)acpi->gpe_enable << 16;
}

static int acpi_gpe_read(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                         uint64_t *value_out)
{
    (void)vcpu;
    return acpi_read(context, acpi_gpe_locked, offset, bytes, value_out);
}

static int acpi_gpe_write(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                          uint64_t value)
{
    struct hv_acpi *acpi = context;

    (void)vcpu;
    hv_lock_take(&acpi->lock);
    acpi->gpe_enable = (uint16_t)(hv_bytes_put(acpi_gpe_locked(acpi), offset, bytes, value) >> 16);
    hv_lock_drop(&acpi->lock);
    return 0;
}

/*
 * cf8h to cfbh are the address register of PCI configuration mechanism 1, but for a byte access to
 * cf9h. There is no PCI: a guest that probes for it must neither find it nor reset the machine.
 */
static bool acpi_is_reset(uint64_t offset, unsigned bytes)
{
    return offset == 1 && bytes == 1;
}

static int acpi_reset_read(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                           uint64_t *value_out)
{
    struct hv_acpi *acpi = context;

    (void)vcpu;
    *value_out = UINT64_MAX;
    if (acpi_is_reset(offset, bytes)) {
        hv_lock_take(&acpi->lock);
        *value_out = acpi->reset_control;
        hv_lock_drop(&acpi->lock);
    }
    return 0;
}

static int acpi_reset_write(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                            uint64_t value)
{
    struct hv_acpi *acpi = context;
    bool rises;

    (void)vcpu;
    if (!acpi_is_reset(offset, bytes)) {
        return 0;
    }
    hv_lock_take(&acpi->lock);
    rises = (value & ACPI_RESET_CPU) && !(acpi->reset_control & ACPI_RESET_CPU);
    acpi->reset_control = value & ACPI_RESET_WRITABLE;
    hv_lock_drop(&acpi->lock);
    if (rises) {
        acpi->hooks.reset(acpi->hooks.context);
    }
    return 0;
}

static const struct hv_bus_ops acpi_event_ops = {acpi_event_read, acpi_event_write};
static const struct hv_bus_ops acpi_control_ops = {acpi_control_read, acpi_control_write};
static const struct hv_bus_ops acpi_timer_ops = {acpi_timer_read, hv_bus_write_nothing};
static const struct hv_bus_ops acpi_gpe_ops = {acpi_gpe_read, acpi_gpe_write};
static const struct hv_bus_ops acpi_reset_ops = {acpi_reset_read, acpi_reset_write};

int hv_acpi_init(struct hv_acpi *acpi, struct hv_bus *bus, const struct hv_clock *clock,
                 struct hv_vpt_set *timers, const struct hv_irq_line *sci,
                 const struct hv_acpi_hooks *hooks, struct hv_log_limit *log_limit)
{
    const struct hv_bus_range ranges[] = {
        {HV_ACPI_EVENT_PORT, 4, &acpi_event_ops, acpi, "acpi.event", 4},
        {HV_ACPI_CONTROL_PORT, 2, &acpi_control_ops, acpi, "acpi.control", 2},
        {HV_ACPI_TIMER_PORT, 4, &acpi_timer_ops, acpi, "acpi.timer", 4},
        {HV_ACPI_GPE_PORT, 4, &acpi_gpe_ops, acpi, "acpi.gpe0", 4},
        {HV_ACPI_RESET_PORT - 1, 4, &acpi_reset_ops, acpi, "reset", 4},
    };

    memset(acpi, 0, sizeof(*acpi));
    hv_lock_init(&acpi->lock, HV_RANK_DEVICE, "platform.acpi", 0);
    acpi->clock = clock;
    acpi->sci = *sci;
    acpi->hooks = *hooks;
    acpi->log_limit = log_limit;
    acpi->timer_start_ns = hv_clock_now(clock).v;
    hv_vpt_init_plain(&acpi->timer, timers, HV_VPT_PM, acpi_expired, acpi, HV_RANK_DEVICE);
    return hv_bus_add_all(bus, HV_BUS_PORT, ranges, HV_ARRAY_LEN(ranges));
}

void hv_acpi_finish(struct hv_acpi *acpi)
{
    hv_vpt_finish(&acpi->timer);
    hv_lock_finish(&acpi->lock);
}

void hv_acpi_reset(struct hv_acpi *acpi)
{
    hv_lock_take(&acpi->lock);
    acpi->status = 0;
    acpi->enable = 0;
    acpi->control = 0;
    acpi->gpe_enable = 0;
    acpi->reset_control = 0;
    acpi->timer_start_ns = hv_clock_now(acpi->clock).v;
    acpi->timer_wraps = 0;
    acpi_arm_locked(acpi);
    acpi_drive_locked(acpi);
    hv_lock_drop(&acpi->lock);
}

void hv_acpi_press_power(struct hv_acpi *acpi)
{
    hv_lock_take(&acpi->lock);
    acpi->status |= ACPI_PM1_POWER_BUTTON;
    acpi_drive_locked(acpi);
    hv_lock_drop(&acpi->lock);
}

void hv_acpi_accepted(struct hv_acpi *acpi, unsigned vcpu)
{
    hv_lock_take(&acpi->lock);
    hv_vpt_accept(&acpi->timer, vcpu, NULL);
    hv_lock_drop(&acpi->lock);
}

void hv_acpi_save(struct hv_acpi *acpi, struct hv_acpi_record *record_out)
{
    hv_ns now;

    memset(record_out, 0, sizeof(*record_out));
    hv_lock_take(&acpi->lock);
    now = acpi_settle_locked(acpi);
    record_out->version = HV_ACPI_RECORD_VERSION;
    record_out->status = acpi->status;
    record_out->enable = acpi->enable;
    record_out->control = acpi->control;
    record_out->gpe_enable = acpi->gpe_enable;
    record_out->reset_control = acpi->reset_control;
    record_out->sci_high = acpi->sci_high;
    record_out->timer_elapsed_ns = now.v - acpi->timer_start_ns;
    record_out->timer_wraps = acpi->timer_wraps;
    hv_lock_drop(&acpi->lock);
}

const char *hv_acpi_check(const struct hv_acpi_record *record)
{
    uint64_t ticks = hv_ticks_from_ns(record->timer_elapsed_ns, HV_ACPI_TIMER_HZ);

    if (record->version != HV_ACPI_RECORD_VERSION) {
        return "acpi.version";
    }
    if (record->status & ~ACPI_PM1_STATUS) {
        return "acpi.status";
    }
    if (record->enable & ~ACPI_PM1_ENABLE) {
        return "acpi.enable";
    }
    if (record->control & ~ACPI_CONTROL_WRITABLE) {
        return "acpi.control";
    }
    if (record->reset_control & ~ACPI_RESET_WRITABLE) {
        return "acpi.reset_control";
    }
    if (record->sci_high != ((record->status & record->enable & ACPI_PM1_ENABLE) != 0)) {
        return "acpi.sci_high";
    }
    return record->timer_wraps == ticks / ACPI_TIMER_HALF ? NULL : "acpi.timer_wraps";
}

void hv_acpi_load(struct hv_acpi *acpi, const struct hv_acpi_record *record)
{
    hv_lock_take(&acpi->lock);
    acpi->status = record->status;
    acpi->enable = record->enable;
    acpi->control = record->control;
    acpi->gpe_enable = record->gpe_enable;
    acpi->reset_control = record->reset_control;
    acpi->sci_high = record->sci_high;
    acpi->timer_start_ns = hv_clock_now(acpi->clock).v - record->timer_elapsed_ns;
    acpi->timer_wraps = record->timer_wraps;
    acpi_arm_locked(acpi);
    hv_lock_drop(&acpi->lock);
}
