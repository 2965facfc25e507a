/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Structures of the core into those of messages, member by member. */
#include "control/answer.h"

#include <string.h>

#include <hv/teardown.h>

void hv_answer_made(const struct hv_domain *domain, struct hv_op_made *made_out)
{
    const char *name = hv_domain_name(domain);
    struct hv_platform_layout layout;

    hv_domain_get_layout(domain, &layout);
    *made_out = (struct hv_op_made){
        .handle = hv_domain_handle(domain).v,
        .layout =
            {
                .low_ram_bytes = layout.low_ram_bytes,
                .high_ram_bytes = layout.high_ram_bytes,
                .ioapic_base = layout.ioapic_base,
                .lapic_base = layout.lapic_base,
                .hpet_base = layout.hpet_base,
                .pm_event_port = layout.pm_event_port,
                .pm_control_port = layout.pm_control_port,
                .pm_timer_port = layout.pm_timer_port,
                .sci_irq = layout.sci_irq,
                .reset_port = layout.reset_port,
                .reset_value = layout.reset_value,
                .s5_sleep_type = layout.s5_sleep_type,
                .vcpus = layout.vcpus,
                .timers_absent = layout.timers_absent,
            },
    };
    memcpy(made_out->name, name, strnlen(name, sizeof(made_out->name) - 1));
}

void hv_answer_status(struct hv_domain *domain, struct hv_op_status *status_out)
{
    /* In this order: the end of a life is not taken for one of the life before it. */
    uint64_t life = hv_domain_life(domain);
    struct hv_domain_status status;

    hv_domain_get_status(domain, &status);
    *status_out = (struct hv_op_status){
        .state = status.state,
        .end = status.end,
        .code = status.code,
        .vcpu = status.vcpu,
        .life = life,
    };
    memcpy(status_out->reason, status.reason,
           strnlen(status.reason, sizeof(status_out->reason) - 1));
}

HV_STATIC_ASSERT(sizeof(((struct hv_op_crash *)0)->gpr) ==
                         sizeof(((struct hv_crash_report *)0)->gpr) &&
                     sizeof(((struct hv_op_crash *)0)->block_rip) ==
                         sizeof(((struct hv_crash_report *)0)->block_rip) &&
                     sizeof(((struct hv_op_crash *)0)->code) ==
                         sizeof(((struct hv_crash_report *)0)->code),
                 "copied whole");

int hv_answer_crash(struct hv_domain *domain, struct hv_op_crash *crash_out)
{
    struct hv_crash_report report = {0};
    int rc = hv_domain_get_crash(domain, &report);

    *crash_out = (struct hv_op_crash){
        .rip = report.rip,
        .rflags = report.rflags,
        .cr0 = report.cr0,
        .cr2 = report.cr2,
        .cr3 = report.cr3,
        .cr4 = report.cr4,
        .efer = report.efer,
        .fs_base = report.fs_base,
        .gs_base = report.gs_base,
        .cs = report.cs,
        .ss = report.ss,
        .ds = report.ds,
        .es = report.es,
        .fs = report.fs,
        .gs = report.gs,
        .vcpu = report.vcpu,
        .cpl = report.cpl,
        .code_bits = report.code_bits,
        .blocks = (uint8_t)report.blocks,
        .all_blocks = report.all_blocks,
        .code_bytes = report.code_bytes,
    };
    memcpy(crash_out->gpr, report.gpr, sizeof(report.gpr));
    memcpy(crash_out->block_rip, report.block_rip, sizeof(report.block_rip));
    memcpy(crash_out->code, report.code, sizeof(report.code));
    return rc;
}

void hv_answer_teardown(struct hv_domain *domain, struct hv_op_teardown *teardown_out)
{
    struct hv_teardown_info info;

    hv_domain_get_teardown(domain, &info);
    *teardown_out = (struct hv_op_teardown){
        .phase = info.phase,
        .pages_total = info.pages_total,
        .pages_left = info.pages_left,
        .pages_held = info.pages_held,
        .pages_per_s = info.pages_per_s,
    };
}

void hv_answer_holds(struct hv_domain *domain, struct hv_op_holds *holds_out)
{
    struct hv_foreign_hold holds[HV_OP_HOLDS_MAX];

    memset(holds_out, 0, sizeof(*holds_out));
    holds_out->count = hv_domain_get_holds(domain, holds, HV_OP_HOLDS_MAX);
    for (size_t i = 0; i < holds_out->count && i < HV_OP_HOLDS_MAX; i++) {
        memcpy(holds_out->hold[i].mapper, holds[i].mapper, sizeof(holds[i].mapper));
        holds_out->hold[i].frames = holds[i].frames;
    }
}
