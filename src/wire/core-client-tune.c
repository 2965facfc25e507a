/* SPDX-License-Identifier: GPL-3.0-or-later */
/* hv/domain.h over the connection: memory, entry state, policies and reports. */
#include "wire/core-client-private.h"

#include <errno.h>
#include <hv/lock-stats.h>
#include <hv/teardown.h>
#include <string.h>

/* ---- memory ---- */

static guint take_slot(struct hv_core *core)
{
    guint slot = 0;

    pthread_mutex_lock(&core->mutex);
    while (core->slots == (1u << CORE_STAGING_SLOTS) - 1) {
        pthread_cond_wait(&core->changed, &core->mutex);
    }
    while (core->slots & (1u << slot)) {
        slot++;
    }
    core->slots |= 1u << slot;
    pthread_mutex_unlock(&core->mutex);
    return slot;
}

static void drop_slot(struct hv_core *core, guint slot)
{
    pthread_mutex_lock(&core->mutex);
    core->slots &= ~(1u << slot);
    pthread_cond_broadcast(&core->changed);
    pthread_mutex_unlock(&core->mutex);
}

static int copy_part(struct hv_domain *domain, guint slot, guint64 gpa, guint8 *buffer,
                     guint64 bytes, enum hv_copy_direction direction)
{
    guint8 *staging = domain->core->staging + slot * LODGE_CORE_COPY_BYTES;
    struct hv_op_request request;
    int rc;

    request.body.copy = (struct hv_op_copy){
        .handle = domain->handle,
        .gpa = gpa,
        .bytes = (uint32_t)bytes,
        .staging = (uint32_t)(slot * LODGE_CORE_COPY_BYTES),
        .direction = direction,
    };
    if (direction == HV_COPY_TO_GUEST) {
        memcpy(staging, buffer, bytes);
    }
    rc = core_call(domain->core, HV_OP_COPY, &request, sizeof(request.body.copy), NULL, 0, NULL);
    if (rc == 0 && direction == HV_COPY_FROM_GUEST) {
        memcpy(buffer, staging, bytes);
    }
    return rc;
}

int hv_guest_copy(struct hv_domain *domain, hv_gpa gpa, void *buffer, uint64_t bytes,
                  enum hv_copy_direction direction)
{
    guint slot = take_slot(domain->core);
    guint64 done = 0;
    int rc = 0;

    do {
        guint64 part = MIN(bytes - done, LODGE_CORE_COPY_BYTES);

        if (gpa.v + done < gpa.v) {
            rc = -EINVAL; /* it wraps */
            break;
        }
        rc = copy_part(domain, slot, gpa.v + done, (guint8 *)buffer + done, part, direction);
        done += part;
    } while (rc == 0 && done < bytes);
    drop_slot(domain->core, slot);
    return rc;
}

int hv_domain_set_boot(struct hv_domain *domain, const struct hv_boot_state *boot)
{
    struct hv_op_request request;

    request.body.set_boot = (struct hv_op_set_boot){
        .handle = domain->handle,
        .rip = boot->rip,
        .rsp = boot->rsp,
        .rsi = boot->rsi,
        .rbx = boot->rbx,
        .rax = boot->rax,
        .cr3 = boot->cr3,
        .gdt_base = boot->gdt_base,
        .gdt_limit = boot->gdt_limit,
        .cs = boot->cs,
        .ds = boot->ds,
        .long_mode = boot->long_mode,
    };
    return core_call(domain->core, HV_OP_SET_BOOT, &request, sizeof(request.body.set_boot), NULL, 0,
                     NULL);
}

/* ---- policies ---- */

int hv_domain_set_sched(struct hv_domain *domain, const struct hv_sched_parameters *parameters,
                        char *why, size_t why_size)
{
    struct hv_op_request request;
    struct hv_op_answer answer;
    int rc;

    request.body.set_sched = (struct hv_op_set_sched){domain->handle, *parameters};
    rc = core_call(domain->core, HV_OP_SET_SCHED, &request, sizeof(request.body.set_sched), &answer,
                   0, NULL);
    core_copy_why(rc, &answer, why, why_size);
    return rc;
}

void hv_domain_get_sched(const struct hv_domain *domain, struct hv_sched_parameters *parameters_out)
{
    struct hv_op_answer answer;
    int rc = core_call_domain((struct hv_domain *)(uintptr_t)domain, HV_OP_GET_SCHED, &answer,
                              sizeof(answer.body.sched));

    *parameters_out = rc == 0 ? answer.body.sched : (struct hv_sched_parameters){0};
}

int hv_domain_set_tick_policy(struct hv_domain *domain, enum hv_vpt_source source,
                              const struct hv_vpt_policy *policy, char *why, size_t why_size)
{
    struct hv_op_request request;
    struct hv_op_answer answer;
    int rc;

    request.body.set_tick = (struct hv_op_set_tick){
        .handle = domain->handle,
        .source = source,
        .kind = policy->kind,
        .threshold_ns = policy->threshold_ns,
        .limit_ns = policy->limit_ns,
        .slew_per_cent = policy->slew_per_cent,
    };
    rc = core_call(domain->core, HV_OP_SET_TICK, &request, sizeof(request.body.set_tick), &answer,
                   0, NULL);
    core_copy_why(rc, &answer, why, why_size);
    return rc;
}

int hv_core_set_lock_sampling(struct hv_core *core, const char *class_name, uint32_t one_in)
{
    struct hv_op_request request;
    struct hv_op_sampling *sampling = &request.body.sampling;

    if (strnlen(class_name, sizeof(sampling->class_name)) == sizeof(sampling->class_name)) {
        return -ENOENT;
    }
    memset(sampling, 0, sizeof(*sampling));
    g_strlcpy(sampling->class_name, class_name, sizeof(sampling->class_name));
    sampling->one_in = one_in;
    return core_call(core, HV_OP_SAMPLING, &request, sizeof(*sampling), NULL, 0, NULL);
}

/* ---- reports ---- */

int hv_domain_get_crash(struct hv_domain *domain, struct hv_crash_report *report_out)
{
    struct hv_op_answer answer;
    const struct hv_op_crash *crash = &answer.body.crash;
    int rc = core_call_domain(domain, HV_OP_CRASH, &answer, sizeof(*crash));

    if (rc < 0) {
        return rc;
    }
    *report_out = (struct hv_crash_report){
        .vcpu = crash->vcpu,
        .rip = crash->rip,
        .rflags = crash->rflags,
        .cr0 = crash->cr0,
        .cr2 = crash->cr2,
        .cr3 = crash->cr3,
        .cr4 = crash->cr4,
        .efer = crash->efer,
        .cs = crash->cs,
        .ss = crash->ss,
        .ds = crash->ds,
        .es = crash->es,
        .fs = crash->fs,
        .gs = crash->gs,
        .fs_base = crash->fs_base,
        .gs_base = crash->gs_base,
        .cpl = crash->cpl,
        .code_bits = crash->code_bits,
        .blocks = MIN(crash->blocks, G_N_ELEMENTS(report_out->block_rip)),
        .all_blocks = crash->all_blocks != 0,
        .code_bytes = MIN(crash->code_bytes, G_N_ELEMENTS(report_out->code)),
    };
    memcpy(report_out->gpr, crash->gpr, sizeof(report_out->gpr));
    memcpy(report_out->block_rip, crash->block_rip, sizeof(report_out->block_rip));
    memcpy(report_out->code, crash->code, sizeof(report_out->code));
    return 0;
}

void hv_domain_get_teardown(struct hv_domain *domain, struct hv_teardown_info *info_out)
{
    struct hv_op_answer answer;
    const struct hv_op_teardown *teardown = &answer.body.teardown;

    if (core_call_domain(domain, HV_OP_TEARDOWN, &answer, sizeof(*teardown)) < 0) {
        *info_out = (struct hv_teardown_info){.phase = HV_TEARDOWN_DONE};
        return;
    }
    *info_out = (struct hv_teardown_info){
        .phase = (enum hv_teardown_phase)MIN(teardown->phase, HV_TEARDOWN_DONE),
        .pages_total = teardown->pages_total,
        .pages_left = teardown->pages_left,
        .pages_held = teardown->pages_held,
        .pages_per_s = teardown->pages_per_s,
    };
}

size_t hv_domain_get_holds(struct hv_domain *domain, struct hv_foreign_hold *holds, size_t max)
{
    struct hv_op_answer answer;
    const struct hv_op_holds *list = &answer.body.holds;

    if (core_call_domain(domain, HV_OP_HOLDS, &answer, sizeof(*list)) < 0) {
        return 0;
    }
    for (gsize i = 0; i < MIN(MIN(list->count, HV_OP_HOLDS_MAX), max); i++) {
        g_strlcpy(holds[i].mapper, list->hold[i].mapper, sizeof(holds[i].mapper));
        holds[i].frames = list->hold[i].frames;
    }
    return (size_t)list->count;
}
