/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Killing a domain, and watching it go. */
#include "domain/domain.h"

#include <errno.h>

#include "base/assert.h"
#include "domain/core.h"
#include "mem/foreign.h"
#include "sync/race.h"

int hv_domain_kill(struct hv_domain *domain)
{
    uint32_t state = hv_load_seq(&domain->state);

    /* The one step that kills: who takes it answers for the rest. */
    do {
        if (state >= HV_DOMAIN_STATE_DYING) {
            return -ECANCELED;
        }
        HV_ASSERT(state != HV_DOMAIN_STATE_NEW);
    } while (!hv_cas_weak_seq(&domain->state, &state, HV_DOMAIN_STATE_DYING));
    HV_RACE("domain.kill.dying");
    hv_domain_announce(domain);
    /* Long copies end with their page, vCPUs with their block. */
    hv_memory_kill(&domain->memory);
    hv_domain_ring_vcpus(domain);
    /* Last: until then the reaper does not touch what the bells stand in. */
    hv_reaper_add(domain->core->reaper, domain);
    return 0;
}

void hv_domain_destroy(struct hv_domain *domain)
{
    int rc;

    if (!domain) {
        return;
    }
    rc = hv_domain_kill(domain);
    HV_ASSERT(rc == 0 || rc == -ECANCELED);
    hv_reaper_await(domain->core->reaper, domain);
    hv_domain_put(domain);
}

void hv_domain_get_teardown(struct hv_domain *domain, struct hv_teardown_info *info_out)
{
    const struct hv_teardown *teardown = &domain->teardown;
    uint64_t total, began, ended;

    *info_out = (struct hv_teardown_info){
        /* Pairs with the store at the beginning of each phase. */
        .phase = (enum hv_teardown_phase)hv_load_acquire(&teardown->phase),
        .pages_left = hv_load_relaxed(&domain->memory.populated_frames),
        .pages_held = hv_load_seq(&domain->memory.held_frames),
    };
    info_out->pages_total = info_out->pages_left;
    if (info_out->phase <= HV_TEARDOWN_LEAVING) {
        return;
    }
    total = hv_load_relaxed(&teardown->total_frames);
    info_out->pages_total = total;
    if (info_out->phase < HV_TEARDOWN_PAGES) {
        return;
    }
    began = hv_load_relaxed(&teardown->began_ns);
    ended = hv_load_relaxed(&teardown->ended_ns);
    if (info_out->phase == HV_TEARDOWN_PAGES || ended == 0) {
        ended = hv_clock_now(&domain->core->clock).v;
    }
    info_out->pages_per_s = hv_rate_per_s(total - info_out->pages_left, ended - began);
}

size_t hv_domain_get_holds(struct hv_domain *domain, struct hv_foreign_hold *holds, size_t max)
{
    return hv_foreign_holds(domain->core->arena, hv_handle_id(domain->handle), holds, max);
}
