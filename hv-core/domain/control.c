/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The control side's operations on a paused or running domain: memory, entry state, console. */
#include "domain/domain.h"

#include <errno.h>

#include "base/format.h"
#include "cpu/segment.h"
#include "domain/core.h"

int hv_guest_copy(struct hv_domain *domain, hv_gpa gpa, void *buffer, uint64_t bytes,
                  enum hv_copy_direction direction)
{
    int rc = hv_domain_enter(domain);

    if (rc == 0) {
        rc = hv_memory_copy(&domain->memory, gpa, buffer, bytes, direction);
        hv_domain_leave(domain);
    }
    return rc;
}

void hv_domain_get_layout(const struct hv_domain *domain, struct hv_platform_layout *layout_out)
{
    *layout_out = domain->layout;
}

/* A flat segment of 4 GiB: code (execute/read) or data (read/write), DPL 0 (SDM 3A 3.4.5). */
static struct hv_segment flat_segment(uint16_t selector, bool code, bool long_mode)
{
    return (struct hv_segment){
        .selector = selector,
        .limit = UINT32_MAX,
        .attr = HV_SEG_ATTR_P | HV_SEG_ATTR_S | HV_SEG_ATTR_G | HV_SEG_ATTR_WRITABLE |
                HV_SEG_ATTR_ACCESSED | (code ? HV_SEG_ATTR_CODE : 0) |
                (code && long_mode ? HV_SEG_ATTR_L : HV_SEG_ATTR_DB),
    };
}

/* Selectors of a 32-bit entry without a descriptor table, as PVH and Multiboot loaders give them. */
#define FLAT_CS 0x08
#define FLAT_DS 0x10

static void set_boot_registers(struct hv_cpu *cpu, const struct hv_boot_state *boot)
{
    struct hv_segment code =
        flat_segment(boot->long_mode ? boot->cs : FLAT_CS, true, boot->long_mode);
    struct hv_segment data =
        flat_segment(boot->long_mode ? boot->ds : FLAT_DS, false, boot->long_mode);

    hv_cpu_reset(cpu, true);
    cpu->cr0 = HV_CR0_PE | HV_CR0_ET | HV_CR0_NE;
    if (boot->long_mode) {
        cpu->cr0 |= HV_CR0_PG;
        cpu->cr3 = boot->cr3;
        cpu->cr4 = HV_CR4_PAE;
        cpu->efer = HV_EFER_LME | HV_EFER_LMA;
    }
    cpu->gdtr = (struct hv_table_register){boot->gdt_base, boot->gdt_limit};
    hv_segment_set(cpu, HV_SEG_CS, &code);
    for (unsigned seg = HV_SEG_ES; seg < HV_SEG_COUNT; seg++) {
        if (seg != HV_SEG_CS) {
            hv_segment_set(cpu, (enum hv_seg)seg, &data);
        }
    }
    hv_segment_sync_slots(cpu);
    cpu->rip = boot->rip;
    cpu->slot[HV_REG_RSP] = boot->rsp;
    cpu->slot[HV_REG_RSI] = boot->rsi;
    cpu->slot[HV_REG_RBX] = boot->rbx;
    cpu->slot[HV_REG_RAX] = boot->rax;
    cpu->slot[HV_REG_RDX] = 0;
}

static int set_boot(struct hv_domain *domain, void *context)
{
    const struct hv_boot_state *boot = context;

    if (hv_load_seq(&domain->state) != HV_DOMAIN_STATE_PAUSED) {
        return hv_domain_refuse(domain);
    }
    hv_domain_stop_vcpus(domain);
    set_boot_registers(&domain->vcpu[0].cpu, boot);
    domain->ops->state_changed(domain->vcpu[0].engine);
    return 0;
}

int hv_domain_set_boot(struct hv_domain *domain, const struct hv_boot_state *boot)
{
    struct hv_boot_state copy = *boot;

    if (!hv_canonical(boot->rip) || (!boot->long_mode && boot->rip > UINT32_MAX)) {
        return -EINVAL;
    }
    return hv_domain_act(domain, set_boot, &copy);
}

size_t hv_domain_console_input(struct hv_domain *domain, const uint8_t *data, size_t bytes)
{
    size_t taken = 0;

    if (hv_domain_enter(domain) == 0) {
        taken = hv_platform_console_input(&domain->platform, data, bytes);
        hv_domain_leave(domain);
    }
    return taken;
}

void hv_domain_console_writable(struct hv_domain *domain)
{
    if (hv_domain_enter(domain) == 0) {
        hv_platform_console_writable(&domain->platform);
        hv_domain_leave(domain);
    }
}

static uint8_t code_bits(const struct hv_cpu *cpu)
{
    if (hv_cpu_code64(cpu)) {
        return 64;
    }
    return cpu->seg[HV_SEG_CS].attr & HV_SEG_ATTR_DB ? 32 : 16;
}

struct sched_change {
    const struct hv_sched_parameters *parameters;
    char *why;
    size_t why_size;
};

static int set_sched(struct hv_domain *domain, void *context)
{
    const struct sched_change *change = context;

    return hv_sched_set_parameters(domain->core->sched, &domain->group, change->parameters,
                                   change->why, change->why_size);
}

int hv_domain_set_sched(struct hv_domain *domain, const struct hv_sched_parameters *parameters,
                        char *why, size_t why_size)
{
    struct sched_change change = {parameters, why, why_size};

    hv_format(why, why_size, "the machine is being destroyed");
    return hv_domain_act(domain, set_sched, &change);
}

void hv_domain_get_sched(const struct hv_domain *domain, struct hv_sched_parameters *parameters_out)
{
    hv_group_get(&domain->group, parameters_out);
}

struct tick_change {
    enum hv_vpt_source source;
    const struct hv_vpt_policy *policy;
};

static int set_tick_policy(struct hv_domain *domain, void *context)
{
    const struct tick_change *change = context;

    hv_platform_set_tick_policy(&domain->platform, change->source, change->policy);
    return 0;
}

int hv_domain_set_tick_policy(struct hv_domain *domain, enum hv_vpt_source source,
                              const struct hv_vpt_policy *policy, char *why, size_t why_size)
{
    struct tick_change change = {source, policy};
    const char *wrong = hv_vpt_policy_check(source, policy);

    if (!wrong && hv_platform_lacks(&domain->platform, source)) {
        wrong = "the machine has no such timer";
    }
    hv_format(why, why_size, "%s", wrong ? wrong : "the machine is being destroyed");
    return wrong ? -EINVAL : hv_domain_act(domain, set_tick_policy, &change);
}

static void fill_crash(const struct hv_domain *domain, const struct hv_vcpu *vcpu,
                       struct hv_crash_report *report_out)
{
    const struct hv_cpu *cpu = &vcpu->cpu;
    struct hv_engine_trace trace = {0};

    domain->ops->get_trace(vcpu->engine, &trace);
    *report_out = (struct hv_crash_report){
        .vcpu = vcpu->index,
        .rip = cpu->rip,
        .rflags = hv_cpu_rflags(cpu),
        .cr0 = cpu->cr0,
        .cr2 = cpu->cr2,
        .cr3 = cpu->cr3,
        .cr4 = cpu->cr4,
        .efer = cpu->efer,
        .cs = cpu->seg[HV_SEG_CS].selector,
        .ss = cpu->seg[HV_SEG_SS].selector,
        .ds = cpu->seg[HV_SEG_DS].selector,
        .es = cpu->seg[HV_SEG_ES].selector,
        .fs = cpu->seg[HV_SEG_FS].selector,
        .gs = cpu->seg[HV_SEG_GS].selector,
        .fs_base = cpu->seg[HV_SEG_FS].base,
        .gs_base = cpu->seg[HV_SEG_GS].base,
        .cpl = cpu->cpl,
        .code_bits = code_bits(cpu),
        .blocks = trace.count,
        .all_blocks = trace.complete,
        .code_bytes = trace.code_bytes,
    };
    for (unsigned i = 0; i < HV_REG_COUNT; i++) {
        report_out->gpr[i] = cpu->slot[i];
    }
    for (unsigned i = 0; i < trace.count; i++) {
        report_out->block_rip[i] = trace.block_rip[i];
    }
    for (unsigned i = 0; i < trace.code_bytes; i++) {
        report_out->code[i] = trace.code[i];
    }
}

/* Under the lifecycle lock throughout: a resume in between would be stopped for good. */
static int get_crash(struct hv_domain *domain, void *context)
{
    uint32_t state = hv_load_seq(&domain->state);
    struct hv_domain_status status;

    if (state != HV_DOMAIN_STATE_SHUTDOWN && state != HV_DOMAIN_STATE_PAUSED) {
        return hv_domain_refuse(domain);
    }
    hv_domain_stop_vcpus(domain);
    hv_domain_get_status(domain, &status);
    fill_crash(domain, &domain->vcpu[status.vcpu], context);
    return 0;
}

int hv_domain_get_crash(struct hv_domain *domain, struct hv_crash_report *report_out)
{
    return hv_domain_act(domain, get_crash, report_out);
}
