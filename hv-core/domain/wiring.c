/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The tables through which lower floors call upward: CPU to interrupt controllers, engine to bus,
 * platform to vCPUs and lifecycle, memory to block cache.
 */
#include "domain/domain.h"

#include "domain/core.h"

static uint64_t cr8_read(void *context)
{
    struct hv_vcpu *vcpu = context;

    return hv_platform_cr8_read(&vcpu->domain->platform, vcpu->index);
}

static void cr8_write(void *context, uint64_t value)
{
    struct hv_vcpu *vcpu = context;

    hv_platform_cr8_write(&vcpu->domain->platform, vcpu->index, value);
}

static int msr_read(void *context, uint32_t index, uint64_t *value_out)
{
    struct hv_vcpu *vcpu = context;

    return hv_platform_msr_read(&vcpu->domain->platform, vcpu->index, index, value_out);
}

static int msr_write(void *context, uint32_t index, uint64_t value)
{
    struct hv_vcpu *vcpu = context;

    return hv_platform_msr_write(&vcpu->domain->platform, vcpu->index, index, value);
}

static uint64_t tsc_read(void *context)
{
    struct hv_vcpu *vcpu = context;

    return hv_platform_tsc(&vcpu->domain->platform) + (uint64_t)vcpu->cpu.msr.tsc_offset;
}

/* The local APIC's deadline is a value of this vCPU's counter. */
static void tsc_changed(void *context)
{
    struct hv_vcpu *vcpu = context;

    hv_platform_tsc_changed(&vcpu->domain->platform, vcpu->index);
}

static bool interrupt_pending(void *context)
{
    struct hv_vcpu *vcpu = context;

    return hv_platform_interrupt_pending(&vcpu->domain->platform, vcpu->index);
}

static int interrupt_acknowledge(void *context)
{
    struct hv_vcpu *vcpu = context;

    return hv_platform_interrupt_acknowledge(&vcpu->domain->platform, vcpu->index);
}

const struct hv_cpu_hooks hv_domain_cpu_hooks = {
    .cr8_read = cr8_read,
    .cr8_write = cr8_write,
    .msr_read = msr_read,
    .msr_write = msr_write,
    .tsc_read = tsc_read,
    .tsc_changed = tsc_changed,
    .interrupt_pending = interrupt_pending,
    .interrupt_acknowledge = interrupt_acknowledge,
};

static int pio_read(void *context, uint16_t port, unsigned bytes, uint64_t *value_out)
{
    struct hv_vcpu *vcpu = context;

    return hv_bus_read(&vcpu->domain->bus, HV_BUS_PORT, vcpu->index, port, bytes, value_out);
}

static int pio_write(void *context, uint16_t port, unsigned bytes, uint64_t value)
{
    struct hv_vcpu *vcpu = context;

    return hv_bus_write(&vcpu->domain->bus, HV_BUS_PORT, vcpu->index, port, bytes, value);
}

static int mmio_read(void *context, hv_gpa gpa, unsigned bytes, uint64_t *value_out)
{
    struct hv_vcpu *vcpu = context;

    return hv_bus_read(&vcpu->domain->bus, HV_BUS_MMIO, vcpu->index, gpa.v, bytes, value_out);
}

static int mmio_write(void *context, hv_gpa gpa, unsigned bytes, uint64_t value)
{
    struct hv_vcpu *vcpu = context;

    return hv_bus_write(&vcpu->domain->bus, HV_BUS_MMIO, vcpu->index, gpa.v, bytes, value);
}

const struct hv_engine_io hv_domain_engine_io = {
    .pio_read = pio_read,
    .pio_write = pio_write,
    .mmio_read = mmio_read,
    .mmio_write = mmio_write,
};

static void revoke_code(void *context, hv_gfn gfn)
{
    struct hv_domain *domain = context;

    domain->ops->revoke_code(domain->engine, gfn);
}

/* A mapper holds the whole domain, and with it its id. */
static int hold(void *context)
{
    struct hv_domain *domain = context;
    struct hv_domain *same;

    return hv_directory_get(&domain->core->directory, domain->handle, &same);
}

static int enter(void *context)
{
    return hv_domain_enter(context);
}

static void leave(void *context)
{
    hv_domain_leave(context);
}

static void release(void *context)
{
    struct hv_domain *domain = context;

    /* Pairs with the teardown's look at what is held. */
    if (hv_load_seq(&domain->memory.held_frames) == 0) {
        hv_domain_wake_reaper(domain);
    }
    hv_domain_put(domain);
}

const struct hv_memory_hooks hv_domain_memory_hooks = {
    .revoke_code = revoke_code,
    .hold = hold,
    .enter = enter,
    .leave = leave,
    .release = release,
};

static void kick(void *context, unsigned vcpu)
{
    struct hv_domain *domain = context;

    hv_vcpu_kick(&domain->vcpu[vcpu]);
}

static void note_ipi(void *context, unsigned from, unsigned to)
{
    struct hv_domain *domain = context;

    hv_sched_note_ipi(domain->core->sched, &domain->vcpu[from].entity, to);
}

static void post_init(void *context, unsigned vcpu)
{
    struct hv_domain *domain = context;

    hv_vcpu_post_startup(&domain->vcpu[vcpu], HV_VCPU_STARTUP_INIT);
}

static void post_sipi(void *context, unsigned vcpu, uint8_t vector)
{
    struct hv_domain *domain = context;

    hv_vcpu_post_startup(&domain->vcpu[vcpu], HV_VCPU_STARTUP_SIPI | vector);
}

static void post_nmi(void *context, unsigned vcpu)
{
    struct hv_domain *domain = context;

    hv_vcpu_post_startup(&domain->vcpu[vcpu], HV_VCPU_STARTUP_NMI);
}

static hv_ns tsc_moment(void *context, unsigned vcpu, uint64_t tsc)
{
    struct hv_domain *domain = context;
    /* Modulo 2^64; a value that was reached before the clock began is long past. */
    int64_t moment = (int64_t)(tsc - (uint64_t)domain->vcpu[vcpu].cpu.msr.tsc_offset);

    return (hv_ns){moment > 0 ? (uint64_t)moment : 0};
}

static uint64_t tsc_offset(void *context, unsigned vcpu)
{
    struct hv_domain *domain = context;

    return (uint64_t)domain->vcpu[vcpu].cpu.msr.tsc_offset;
}

/* Not EVENT, which an engine serves without leaving. One that sleeps settles when it wakes. */
static void look(void *context, unsigned vcpu)
{
    struct hv_domain *domain = context;

    hv_doorbell_ring(&domain->vcpu[vcpu].bell, HV_REQUEST_STOP);
}

static void power_off(void *context)
{
    hv_domain_end(context, HV_DOMAIN_END_POWEROFF, 0, 0, "power off");
}

static void reset(void *context)
{
    hv_domain_end(context, HV_DOMAIN_END_REBOOT, 0, 0, "reset");
}

static void debug_exit(void *context, uint32_t code)
{
    hv_domain_end(context, HV_DOMAIN_END_DEBUG_EXIT, code, 0, "debug exit");
}

const struct hv_platform_ops hv_domain_platform_ops = {
    .kick = kick,
    .ipi = note_ipi,
    .init = post_init,
    .sipi = post_sipi,
    .nmi = post_nmi,
    .tsc_moment = tsc_moment,
    .tsc_offset = tsc_offset,
    .look = look,
    .poweroff = power_off,
    .reset = reset,
    .debug_exit = debug_exit,
};
