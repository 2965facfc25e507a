/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Start and end of a core. */
#include "domain/core.h"

#include <errno.h>
#include <unistd.h>

#include "base/alloc.h"
#include "domain/domain.h"
#include "domain/host-watch.h"
#include "domain/stat-export.h"
#include "mem/upkeep.h"

#include <hv/stat-pages.h>

/* More would take CPUs from machines that live. */
#define REAPERS 2u

static unsigned host_cpus(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);

    return online > 0 ? (unsigned)online : 1;
}

/* Beyond the host's CPUs they would only take them from each other, in the middle of a slice. */
static unsigned most_workers(void)
{
    unsigned cpus = host_cpus();

    return cpus < HV_SCHED_MAX_WORKERS ? cpus : HV_SCHED_MAX_WORKERS;
}

static int check_config(const struct hv_core_config *config)
{
    if (config->workers > most_workers() || config->reapers > HV_REAPER_THREADS_MAX ||
        config->memory_bytes == 0 || config->memory_bytes % HV_EXTENT_SIZE) {
        return -EINVAL;
    }
    return config->stat_period_ns == HV_STAT_EXPORT_BY_HAND ||
                   (config->stat_period_ns != 0 &&
                    config->stat_period_ns < HV_STAT_EXPORT_PERIOD_MIN)
               ? -EINVAL
               : 0;
}

static int start_upkeep(struct hv_core *core)
{
    struct hv_heap *heap = hv_arena_heap(core->arena);
    struct hv_upkeep_policy policy = hv_upkeep_default(heap);

    return hv_upkeep_create(heap, &core->clock, &policy, &core->upkeep);
}

static int make_parts(struct hv_core *core, const struct hv_core_config *config)
{
    /* Nobody maps the pool from outside so it may as well have huge pages: a random
     * guest read took 12 ns instead of 25. */
    const struct hv_arena_config arena = {HV_BACKING_KIND_ANON, config->memory_bytes};
    unsigned workers = config->workers ? config->workers : most_workers();
    unsigned reapers = workers < REAPERS ? workers : REAPERS;
    struct hv_sched_config sched = {
        /* The vCPUs' own threads are the workers; one serves their timers. */
        .workers = config->policy == HV_SCHED_POLICY_HOST ? 1 : workers,
        .policy = config->policy,
        .no_boost = config->no_boost,
        .clock = &core->clock,
    };
    int rc;

    hv_clock_init_host(&core->clock);
    rc = hv_directory_init(&core->directory);
    if (rc == 0) {
        rc = hv_arena_create(&arena, &core->arena);
    }
    if (rc == 0) {
        rc = start_upkeep(core);
    }
    if (rc == 0) {
        sched.heap = hv_arena_heap(core->arena);
        rc = hv_sched_create(&sched, &core->sched);
    }
    if (rc == 0) {
        rc = hv_reaper_create(config->reapers ? config->reapers : reapers, &core->clock,
                              &core->reaper);
    }
    if (rc == 0) {
        rc = hv_host_watch_create(core, &core->host_watch);
    }
    if (rc == 0 && config->stat_period_ns) {
        rc = hv_stat_export_create(core, config->stat_period_ns, &core->stat_export);
    }
    return rc;
}

int hv_core_create(const struct hv_core_config *config, struct hv_core **core_out)
{
    struct hv_lock_owner *before;
    struct hv_core *core;
    int rc;

    *core_out = NULL;
    rc = check_config(config);
    if (rc < 0) {
        return rc;
    }
    core = hv_alloc(1, sizeof(*core));
    if (!core) {
        return -ENOMEM;
    }
    hv_eventcount_init(&core->changes);
    hv_lock_owner_init(&core->locks, "");
    before = hv_lock_owner_use(&core->locks);
    rc = make_parts(core, config);
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
    /* First: they hold a domain now and then. */
    hv_stat_export_destroy(core->stat_export);
    hv_host_watch_destroy(core->host_watch);
    hv_reaper_destroy(core->reaper);
    hv_sched_destroy(core->sched);
    hv_upkeep_destroy(core->upkeep);
    hv_arena_destroy(core->arena);
    hv_directory_finish(&core->directory);
    hv_lock_owner_finish(&core->locks);
    hv_free(core);
}

int hv_core_stat_fd(const struct hv_core *core)
{
    return core->stat_export ? hv_stat_export_fd(core->stat_export) : -1;
}

int hv_core_write_stats(struct hv_core *core)
{
    return core->stat_export ? hv_stat_export_now(core->stat_export) : -ENOTSUP;
}
