/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The devices of a machine: making, wiring, resetting. */
#include "platform/platform-private.h"

#include <errno.h>
#include <string.h>

#include "cpu/walk.h"
#include "sync/race.h"

#define PLATFORM_IRQ_KEYS  1u
#define PLATFORM_IRQ_MOUSE 12u

void hv_platform_fill_layout(struct hv_platform_layout *layout, unsigned vcpus,
                             unsigned timers_absent)
{
    memset(layout, 0, sizeof(*layout));
    layout->ioapic_base = HV_IOAPIC_BASE;
    layout->lapic_base = HV_LAPIC_DEFAULT_BASE;
    layout->hpet_base = timers_absent & HV_TIMER_HPET ? 0 : HV_HPET_BASE;
    layout->pm_event_port = HV_ACPI_EVENT_PORT;
    layout->pm_control_port = HV_ACPI_CONTROL_PORT;
    layout->pm_timer_port = HV_ACPI_TIMER_PORT;
    layout->sci_irq = HV_ACPI_SCI;
    layout->reset_port = HV_ACPI_RESET_PORT;
    layout->reset_value = HV_ACPI_RESET_VALUE;
    layout->s5_sleep_type = HV_ACPI_SLEEP_S5;
    layout->vcpus = vcpus;
    layout->timers_absent = timers_absent;
}

/* Wires. Each source has a wire of its own to here; one source drives a number at a time. */

static void platform_set_isa(struct hv_platform *platform, unsigned irq, bool high)
{
    hv_pic_set(&platform->pic, irq, high);
    hv_ioapic_set(&platform->ioapic, platform_pin(irq), high);
}

void hv_platform_set_gsi(struct hv_platform *platform, unsigned gsi, bool high)
{
    if (gsi < HV_PIC_PINS) {
        platform_set_isa(platform, gsi, high);
    } else {
        hv_ioapic_set(&platform->ioapic, gsi, high);
    }
}

static void platform_wire_gsi(void *context, unsigned number, bool high)
{
    hv_platform_set_gsi(context, number, high);
}

/* PIT and RTC: not while the HPET replaces them. */
static void platform_wire_legacy(void *context, unsigned number, bool high)
{
    struct hv_platform *platform = context;

    if (!hv_hpet_replaces_legacy(&platform->hpet)) {
        platform_set_isa(platform, number, high);
    }
}

static void platform_wire_intr(void *context, unsigned number, bool high)
{
    struct hv_platform *platform = context;

    (void)number;
    hv_lapic_set_lint0(&platform->lapics.lapic[0], high);
}

/* By the way that counts: platform_carries(). */
static bool platform_stands(void *context, unsigned number)
{
    struct hv_platform *platform = context;
    unsigned pin = platform_pin(number);
    struct hv_interrupt message;

    if (hv_ioapic_vector(&platform->ioapic, pin) >= 0) {
        return hv_ioapic_message(&platform->ioapic, pin, &message) &&
               hv_lapics_requested(&platform->lapics, &message);
    }
    return number < HV_PIC_PINS && hv_pic_requested(&platform->pic, number);
}

static struct hv_irq_line platform_wire(struct hv_platform *platform, unsigned number)
{
    return (struct hv_irq_line){platform_wire_gsi, platform, number, platform_stands};
}

/* What the local APICs ask for. */

static void platform_kick(void *context, uint32_t vcpu)
{
    struct hv_platform *platform = context;

    platform->ops->kick(platform->ops_context, vcpu);
}

static void platform_ipi(void *context, uint32_t from, uint32_t to)
{
    struct hv_platform *platform = context;

    if (platform->ops->ipi) {
        platform->ops->ipi(platform->ops_context, from, to);
    }
}

static void platform_nmi(void *context, uint32_t vcpu)
{
    struct hv_platform *platform = context;

    platform->ops->nmi(platform->ops_context, vcpu);
}

static void platform_init(void *context, uint32_t vcpu)
{
    struct hv_platform *platform = context;

    platform->ops->init(platform->ops_context, vcpu);
}

static void platform_sipi(void *context, uint32_t vcpu, uint8_t vector)
{
    struct hv_platform *platform = context;

    platform->ops->sipi(platform->ops_context, vcpu, vector);
}

static void platform_eoi(void *context, uint8_t vector)
{
    struct hv_platform *platform = context;

    hv_ioapic_eoi(&platform->ioapic, vector);
}

static struct hv_taken platform_acknowledge_extint(void *context)
{
    struct hv_platform *platform = context;

    return hv_pic_acknowledge(&platform->pic);
}

static hv_ns platform_tsc_moment(void *context, uint32_t vcpu, uint64_t tsc)
{
    struct hv_platform *platform = context;

    return platform->ops->tsc_moment ? platform->ops->tsc_moment(platform->ops_context, vcpu, tsc)
                                     : (hv_ns){tsc};
}

static void platform_look(void *context, unsigned vcpu)
{
    struct hv_platform *platform = context;

    platform->ops->look(platform->ops_context, vcpu);
}

static uint64_t platform_tsc_offset(void *context, unsigned vcpu)
{
    struct hv_platform *platform = context;

    return platform->ops->tsc_offset(platform->ops_context, vcpu);
}

/* Under anybody's lock: a vCPU's thread is to do the rest. */
static void platform_clock_moved(void *context)
{
    struct hv_platform *platform = context;

    hv_store_seq(&platform->clock_moved, true);
    platform->ops->kick(platform->ops_context, 0);
}

static void platform_poweroff(void *context)
{
    struct hv_platform *platform = context;

    platform->ops->poweroff(platform->ops_context);
}

static void platform_reset(void *context)
{
    struct hv_platform *platform = context;

    platform->ops->reset(platform->ops_context);
}

static void platform_debug_exit(void *context, uint32_t code)
{
    struct hv_platform *platform = context;

    platform->ops->debug_exit(platform->ops_context, code);
}

/* Local APICs are where each vCPU has put its own: behind the bus's ranges. */

static struct hv_lapic *platform_lapic_at(struct hv_platform *platform, uint32_t vcpu,
                                          uint64_t address)
{
    struct hv_lapic *lapic = vcpu < platform->lapics.count ? &platform->lapics.lapic[vcpu] : NULL;

    return lapic && hv_lapic_claims(lapic, address) ? lapic : NULL;
}

static int platform_fallback_read(void *context, uint32_t vcpu, uint64_t address, unsigned bytes,
                                  uint64_t *value_out)
{
    struct hv_lapic *lapic = platform_lapic_at(context, vcpu, address);

    *value_out = UINT64_MAX;
    if (lapic) {
        *value_out = hv_lapic_mmio_read(lapic, address % HV_PAGE_SIZE, bytes);
    }
    return 0;
}

static int platform_fallback_write(void *context, uint32_t vcpu, uint64_t address, unsigned bytes,
                                   uint64_t value)
{
    struct hv_lapic *lapic = platform_lapic_at(context, vcpu, address);

    if (lapic) {
        hv_lapic_mmio_write(lapic, address % HV_PAGE_SIZE, bytes, value);
    }
    return 0;
}

static const struct hv_bus_ops platform_fallback_ops = {
    platform_fallback_read,
    platform_fallback_write,
};

/* Interrupt controllers first: devices drive wires while they are made. */
static int platform_make_chips(struct hv_platform *platform,
                               const struct hv_platform_config *config)
{
    const struct hv_irq_line intr = {.set = platform_wire_intr, .context = platform};
    const struct hv_lapic_hooks hooks = {
        .kick = platform_kick,
        .ipi = platform_ipi,
        .nmi = platform_nmi,
        .init = platform_init,
        .sipi = platform_sipi,
        .eoi = platform_eoi,
        .acknowledge_extint = platform_acknowledge_extint,
        .tsc_moment = platform_tsc_moment,
        .context = platform,
    };
    const struct hv_lapics_config lapics = {
        .vcpus = config->vcpus,
        .phys_bits = HV_GUEST_PHYS_BITS,
        .clock = &platform->clock.clock,
        .timers = platform->timers,
        .hooks = &hooks,
    };
    int error = hv_lapics_init(&platform->lapics, &lapics);

    if (!error) {
        hv_bus_set_fallback(config->bus, HV_BUS_MMIO, &platform_fallback_ops, platform, 4);
        error = hv_pic_init(&platform->pic, config->bus, &intr);
    }
    if (!error) {
        error = hv_ioapic_init(&platform->ioapic, config->bus, &platform->lapics);
    }
    return error;
}

static int platform_make_pv(struct hv_platform *platform, const struct hv_platform_config *config)
{
    const struct hv_pv_hooks hooks = {platform_look, platform_tsc_offset, platform};
    const struct hv_pv_config pv = {
        .vcpus = config->vcpus,
        .features = config->pv_features,
        .memory = config->memory,
        .clock = &platform->clock.clock,
        .tsc_khz = config->tsc_khz,
        .lapics = &platform->lapics,
        .hooks = &hooks,
    };

    return hv_pv_init(&platform->pv, &pv);
}

/* Where a device stands that the machine may lack. */
static struct hv_bus *platform_bus_for(struct hv_platform *platform, enum hv_timer_part part)
{
    return platform->timers_absent & part ? &platform->nowhere : platform->bus;
}

static int platform_make_timers(struct hv_platform *platform,
                                const struct hv_platform_config *config)
{
    const struct hv_clock *clock = &platform->clock.clock;
    struct hv_vpt_set *timers = platform->timers;
    const struct hv_irq_line pit = {platform_wire_legacy, platform, PLATFORM_IRQ_TIMER,
                                    platform_stands};
    const struct hv_irq_line rtc = {platform_wire_legacy, platform, PLATFORM_IRQ_RTC,
                                    platform_stands};
    const struct hv_irq_line sci = platform_wire(platform, HV_ACPI_SCI);
    const struct hv_irq_line pin = platform_wire(platform, 0);
    const struct hv_irq_line legacy[2] = {
        platform_wire(platform, PLATFORM_IRQ_TIMER),
        platform_wire(platform, PLATFORM_IRQ_RTC),
    };
    const struct hv_acpi_hooks hooks = {platform_poweroff, platform_reset, platform};
    int error = hv_hpet_init(&platform->hpet, platform_bus_for(platform, HV_TIMER_HPET), clock,
                             timers, legacy, &pin);

    if (!error) {
        error = hv_pit_init(&platform->pit, platform_bus_for(platform, HV_TIMER_PIT), clock, timers,
                            &pit);
    }
    if (!error) {
        error = hv_rtc_init(&platform->rtc, platform_bus_for(platform, HV_TIMER_RTC), clock, timers,
                            &rtc);
    }
    if (!error) {
        error = hv_acpi_init(&platform->acpi, config->bus, clock, timers, &sci, &hooks,
                             config->log_limit);
    }
    return error;
}

static int platform_make_others(struct hv_platform *platform,
                                const struct hv_platform_config *config)
{
    const struct hv_irq_line serial = platform_wire(platform, HV_UART_IRQ);
    const struct hv_irq_line wire = platform_wire(platform, 0);
    const struct hv_irq_line keys[2] = {
        platform_wire(platform, PLATFORM_IRQ_KEYS),
        platform_wire(platform, PLATFORM_IRQ_MOUSE),
    };
    int error = hv_uart_init(&platform->uart, config->bus, &serial, config->console,
                             config->console_context);

    if (!error) {
        error = hv_i8042_init(&platform->i8042, config->bus, keys, platform_reset, platform);
    }
    if (!error && config->testdev) {
        error = hv_fwcfg_init(&platform->fwcfg, config->bus, config->memory_bytes, config->vcpus);
    }
    if (!error && config->testdev) {
        error =
            hv_testdev_init(&platform->testdev, config->bus, &wire, platform_debug_exit, platform);
    }
    return error;
}

static int platform_make_set(struct hv_platform *platform, const struct hv_platform_config *config)
{
    const struct hv_vpt_set_config timers = {
        .vcpus = config->vcpus,
        .queues = config->queues,
        .clock = &platform->clock.clock,
        .kick = platform_kick,
        .context = platform,
        .strategy = config->strategy,
    };

    return hv_vpt_set_create(&timers, &platform->timers);
}

static void platform_make_clock(struct hv_platform *platform,
                                const struct hv_platform_config *config)
{
    const struct hv_guest_clock_config clock = {
        .host = config->clock,
        .policy = config->clock_policy,
        .start_ns = config->start_ns,
        .moved = platform_clock_moved,
        .context = platform,
    };

    hv_guest_clock_init(&platform->clock, &clock);
}

static void platform_await(struct hv_platform *platform, struct hv_vpt *vpt)
{
    vpt->awaited = &platform->awaited;
    vpt->awaited_bit = 1u << vpt->source;
}

int hv_platform_init(struct hv_platform *platform, const struct hv_platform_config *config)
{
    int error;

    memset(platform, 0, sizeof(*platform));
    platform->bus = config->bus;
    platform->ops = config->ops;
    platform->ops_context = config->ops_context;
    platform->testing = config->testdev;
    platform->timers_absent = config->timers_absent;
    platform->rtc_track = config->rtc_track;
    hv_bus_init(&platform->nowhere);
    platform_make_clock(platform, config);
    error = platform_make_set(platform, config);
    if (!error) {
        error = platform_make_chips(platform, config);
    }
    if (!error) {
        error = platform_make_pv(platform, config);
    }
    if (!error) {
        error = platform_make_timers(platform, config);
    }
    if (!error) {
        error = platform_make_others(platform, config);
    }
    platform_await(platform, &platform->pit.timer);
    platform_await(platform, &platform->rtc.periodic);
    platform_await(platform, &platform->acpi.timer);
    for (unsigned i = 0; i < HV_HPET_TIMERS; i++) {
        platform_await(platform, &platform->hpet.timer[i].vpt);
    }
    if (error) {
        hv_platform_finish(platform);
    }
    return error;
}

/* Timers before what their callbacks reach. What was never made is zeroed memory. */
void hv_platform_finish(struct hv_platform *platform)
{
    hv_pit_finish(&platform->pit);
    hv_rtc_finish(&platform->rtc);
    hv_hpet_finish(&platform->hpet);
    hv_acpi_finish(&platform->acpi);
    hv_testdev_finish(&platform->testdev);
    hv_fwcfg_finish(&platform->fwcfg);
    hv_i8042_finish(&platform->i8042);
    hv_uart_finish(&platform->uart);
    hv_ioapic_finish(&platform->ioapic);
    hv_pic_finish(&platform->pic);
    hv_pv_finish(&platform->pv);
    hv_lapics_finish(&platform->lapics);
    hv_vpt_set_destroy(platform->timers);
    platform->timers = NULL;
    hv_guest_clock_finish(&platform->clock);
}

void hv_platform_reset(struct hv_platform *platform)
{
    hv_hpet_reset(&platform->hpet);
    hv_pit_reset(&platform->pit);
    hv_rtc_reset(&platform->rtc);
    hv_acpi_reset(&platform->acpi);
    hv_uart_reset(&platform->uart);
    hv_i8042_reset(&platform->i8042);
    if (platform->testing) {
        hv_fwcfg_reset(&platform->fwcfg);
        hv_testdev_reset(&platform->testdev);
    }
    hv_ioapic_reset(&platform->ioapic);
    hv_pic_reset(&platform->pic);
    hv_pv_reset(&platform->pv);
    hv_lapics_reset(&platform->lapics);
}

void hv_platform_init_cpu(struct hv_platform *platform, unsigned vcpu)
{
    hv_lapic_init_signal(&platform->lapics.lapic[vcpu]);
    hv_pv_init_cpu(&platform->pv, vcpu);
}

/*
 * Is that global system interrupt @gsi? Where both ways are open to it each of its edges is taken
 * twice, of which the one by the I/O APIC counts: a tick is accepted once.
 */
static bool platform_carries(struct hv_platform *platform, unsigned gsi,
                             const struct hv_taken *taken)
{
    int vector = hv_ioapic_vector(&platform->ioapic, platform_pin(gsi));

    return taken->extint ? vector < 0 && taken->irq == (int)gsi : vector == taken->vector;
}

/* A vCPU has taken an interrupt: were device timers waiting for that? */
static void platform_accept(struct hv_platform *platform, uint32_t awaited,
                            const struct hv_taken *taken, unsigned vcpu)
{
    if ((awaited & 1u << HV_VPT_PIT) && platform_carries(platform, PLATFORM_IRQ_TIMER, taken)) {
        hv_pit_accepted(&platform->pit, vcpu);
    }
    if ((awaited & 1u << HV_VPT_RTC) && platform_carries(platform, PLATFORM_IRQ_RTC, taken)) {
        hv_rtc_accepted(&platform->rtc, vcpu);
    }
    if ((awaited & 1u << HV_VPT_PM) && platform_carries(platform, HV_ACPI_SCI, taken)) {
        hv_acpi_accepted(&platform->acpi, vcpu);
    }
    for (unsigned i = 0; i < HV_HPET_TIMERS; i++) {
        if ((awaited & 1u << (HV_VPT_HPET0 + i)) &&
            platform_carries(platform, hv_hpet_gsi(&platform->hpet, i), taken)) {
            hv_hpet_accepted(&platform->hpet, i, vcpu);
        }
    }
}

int hv_platform_interrupt_acknowledge(struct hv_platform *platform, unsigned vcpu)
{
    struct hv_taken taken = hv_lapic_acknowledge(&platform->lapics.lapic[vcpu]);
    uint32_t awaited = hv_load_relaxed(&platform->awaited);

    if (HV_UNLIKELY(awaited) && taken.vector >= 0) {
        HV_RACE("platform.acknowledged");
        platform_accept(platform, awaited, &taken, vcpu);
    }
    return taken.vector;
}

uint64_t hv_platform_cr8_read(struct hv_platform *platform, unsigned vcpu)
{
    return hv_lapic_cr8_read(&platform->lapics.lapic[vcpu]);
}

void hv_platform_cr8_write(struct hv_platform *platform, unsigned vcpu, uint64_t value)
{
    hv_lapic_cr8_write(&platform->lapics.lapic[vcpu], value);
}

int hv_platform_msr_read(struct hv_platform *platform, unsigned vcpu, uint32_t index,
                         uint64_t *value_out)
{
    int result = hv_lapic_msr_read(&platform->lapics.lapic[vcpu], index, value_out);

    return result == -ENOENT ? hv_pv_msr_read(&platform->pv, vcpu, index, value_out) : result;
}

int hv_platform_msr_write(struct hv_platform *platform, unsigned vcpu, uint32_t index,
                          uint64_t value)
{
    int result = hv_lapic_msr_write(&platform->lapics.lapic[vcpu], index, value);

    return result == -ENOENT ? hv_pv_msr_write(&platform->pv, vcpu, index, value) : result;
}

uint64_t hv_platform_tsc(const struct hv_platform *platform)
{
    return hv_clock_now(&platform->clock.clock).v;
}

void hv_platform_tsc_changed(struct hv_platform *platform, unsigned vcpu)
{
    hv_lapic_tsc_changed(&platform->lapics.lapic[vcpu]);
    hv_pv_tsc_changed(&platform->pv, vcpu);
}

void hv_platform_press_power(struct hv_platform *platform)
{
    hv_acpi_press_power(&platform->acpi);
}

void hv_platform_press_nmi(struct hv_platform *platform)
{
    for (unsigned i = 0; i < platform->lapics.count; i++) {
        hv_lapic_raise(&platform->lapics.lapic[i], HV_LAPIC_LVT_LINT1);
    }
}

void hv_platform_msi(struct hv_platform *platform, uint64_t address, uint32_t data)
{
    hv_lapics_msi(&platform->lapics, address, data);
}

size_t hv_platform_console_input(struct hv_platform *platform, const uint8_t *data, size_t bytes)
{
    return hv_uart_input(&platform->uart, data, bytes);
}

void hv_platform_console_writable(struct hv_platform *platform)
{
    hv_uart_writable(&platform->uart);
}
