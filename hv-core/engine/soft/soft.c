/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The software engine's table: its domains and vCPUs, and what the run loop asks of them. */
#include "engine/soft/soft.h"

#include "engine/soft/access.h"
#include "engine/soft/block.h"
#include "engine/soft/jump.h"
#include "engine/soft/run.h"
#include "engine/soft/thunk.h"
#include "engine/soft/trace.h"
#include "engine/soft/translate.h"

#include "base/alloc.h"

#include <errno.h>

/* It is a program: it runs wherever the core does. */
static bool probe(char *why, size_t size)
{
    if (size > 0) {
        why[0] = '\0';
    }
    return true;
}

static void domain_destroy(struct hv_engine_domain *domain)
{
    if (!domain) {
        return;
    }
    soft_thunks_destroy(domain->thunks);
    soft_code_destroy(domain->code);
    soft_exclusive_finish(&domain->exclusive);
    hv_free(domain);
}

static bool domain_shrink(struct hv_engine_domain *domain)
{
    return soft_code_shrink(domain->code);
}

static int domain_create(struct hv_memory *memory, struct hv_engine_domain **domain_out)
{
    struct hv_engine_domain *domain = hv_alloc_aligned(HV_CACHE_LINE, sizeof(*domain));
    int rc;

    *domain_out = NULL;
    if (!domain) {
        return -ENOMEM;
    }
    domain->memory = memory;
    soft_exclusive_init(&domain->exclusive);
    rc = soft_code_create(memory, &domain->code);
    if (!rc) {
        rc = soft_thunks_create(&domain->thunks);
    }
    if (rc) {
        domain_destroy(domain);
        return rc;
    }
    *domain_out = domain;
    return 0;
}

static void vcpu_destroy(struct hv_engine_vcpu *vcpu)
{
    if (!vcpu) {
        return;
    }
    soft_code_remove_vcpu(vcpu->domain->code, vcpu->index);
    soft_translator_destroy(vcpu->translator);
    soft_jumps_destroy(vcpu->jumps);
    soft_tlbs_destroy(vcpu);
    hv_free(vcpu);
}

static const uint32_t standard_pause_window = 1024;

static void vcpu_configure(struct hv_engine_vcpu *vcpu, struct hv_engine_domain *domain,
                           const struct hv_engine_vcpu_config *config)
{
    vcpu->cpu = config->cpu;
    vcpu->bell = config->bell;
    vcpu->domain = domain;
    vcpu->memory = config->memory;
    vcpu->holder = config->holder;
    vcpu->clock = config->clock;
    vcpu->pause_window = config->pause_window ? config->pause_window : &standard_pause_window;
    vcpu->io = config->io;
    vcpu->io_context = config->io_context;
    vcpu->force_io_exit = config->force_io_exit;
    vcpu->trace_blocks = config->trace_blocks;
    vcpu->index = config->index;
    vcpu->access = (struct hv_access){.ops = &soft_access_ops, .context = vcpu};
}

static int vcpu_create(struct hv_engine_domain *domain, const struct hv_engine_vcpu_config *config,
                       struct hv_engine_vcpu **vcpu_out)
{
    struct hv_engine_vcpu *vcpu = hv_alloc_aligned(HV_CACHE_LINE, sizeof(*vcpu));
    int rc;

    *vcpu_out = NULL;
    if (!vcpu) {
        return -ENOMEM;
    }
    vcpu_configure(vcpu, domain, config);
    rc = soft_tlbs_create(vcpu);
    if (!rc) {
        rc = soft_jumps_create(&vcpu->jumps);
    }
    if (!rc) {
        rc = soft_translator_create(&vcpu->translator);
    }
    if (rc) {
        vcpu_destroy(vcpu);
        return rc;
    }
    soft_code_add_vcpu(domain->code, vcpu->index, vcpu->bell);
    *vcpu_out = vcpu;
    return 0;
}

/* Everything derived is derived anew at the next run; translations may be of other tables. */
static void state_changed(struct hv_engine_vcpu *vcpu)
{
    soft_tlb_flush_all(vcpu);
    soft_insn_done(vcpu);
    vcpu->replay.event = false;
    vcpu->trap = 0;
}

static void revoke_code(struct hv_engine_domain *domain, hv_gfn gfn)
{
    soft_code_revoke(domain->code, gfn);
}

static const struct hv_engine_counters *counters(const struct hv_engine_vcpu *vcpu)
{
    return &vcpu->counters;
}

static uint64_t cache_bytes(const struct hv_engine_domain *domain)
{
    return soft_code_bytes(domain->code);
}

static const struct hv_access *access_of(struct hv_engine_vcpu *vcpu)
{
    return &vcpu->access;
}

const struct hv_engine_ops hv_engine_soft = {
    .name = "soft",
    .probe = probe,
    .domain_create = domain_create,
    .domain_shrink = domain_shrink,
    .domain_destroy = domain_destroy,
    .vcpu_create = vcpu_create,
    .vcpu_destroy = vcpu_destroy,
    .run = soft_run,
    .state_changed = state_changed,
    .serve = soft_run_serve,
    .revoke_code = revoke_code,
    .get_trace = soft_trace_get,
    .counters = counters,
    .cache_bytes = cache_bytes,
    .access = access_of,
};
