/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Making a domain: a table of steps. When one fails, what those before it made is taken apart as
 * that of any dead domain (teardown.c), from the phase that undoes the last of them on.
 */
#include "domain/domain.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/format.h"
#include "domain/core.h"
#include "mem/heap.h"

/* RAM below this address; what does not fit starts at 4 GiB. */
#define LOW_RAM_MAX  (3 * HV_GIB)
#define HIGH_RAM     (4 * HV_GIB)
#define VGA_HOLE     0xa0000u
#define VGA_HOLE_END 0xc0000u
#define TSC_KHZ      1000000u /* guest TSC ticks are nanoseconds: exact, and the same on any host */

struct step {
    int (*make)(struct hv_domain *domain, const struct hv_domain_config *config);
    enum hv_teardown_phase undo; /* the first phase that undoes it and what was before it */
    const char *what;
};

static int make_name(struct hv_domain *domain, const struct hv_domain_config *config)
{
    (void)config;
    return hv_directory_reserve(&domain->core->directory, &domain->handle);
}

/* Whole extents are populated and freed: what the last one has beyond the guest's RAM is claimed
 * with it. */
static int make_memory(struct hv_domain *domain, const struct hv_domain_config *config)
{
    return hv_memory_init(&domain->memory, domain->core->arena, hv_handle_id(domain->handle),
                          hv_align_up(config->memory_bytes, HV_EXTENT_SIZE),
                          &hv_domain_memory_hooks, domain);
}

static int add_ram(struct hv_domain *domain, uint64_t start, uint64_t end)
{
    return start < end ? hv_memory_add_ram(&domain->memory, hv_gpa_to_gfn((hv_gpa){start}),
                                           (end - start) >> HV_PAGE_SHIFT)
                       : 0;
}

static int make_ram(struct hv_domain *domain, const struct hv_domain_config *config)
{
    struct hv_platform_layout *layout = &domain->layout;
    int rc;

    hv_platform_fill_layout(layout, config->vcpus, config->timers_absent);
    layout->low_ram_bytes = config->memory_bytes < LOW_RAM_MAX ? config->memory_bytes : LOW_RAM_MAX;
    layout->high_ram_bytes = config->memory_bytes - layout->low_ram_bytes;
    rc = add_ram(domain, 0, VGA_HOLE);
    if (rc == 0) {
        rc = add_ram(domain, VGA_HOLE_END, layout->low_ram_bytes);
    }
    if (rc == 0) {
        rc = add_ram(domain, HIGH_RAM, HIGH_RAM + layout->high_ram_bytes);
    }
    return rc;
}

static int make_engine(struct hv_domain *domain, const struct hv_domain_config *config)
{
    (void)config;
    return domain->ops->domain_create(&domain->memory, &domain->engine);
}

/* Not all could be made: nothing points at them yet. */
static void forget_vcpus(struct hv_domain *domain)
{
    for (unsigned i = 0; i < domain->vcpus; i++) {
        hv_sched_retire(domain->core->sched, &domain->vcpu[i].entity);
    }
    hv_free(domain->vcpu);
    domain->vcpu = NULL;
    domain->vcpus = 0;
}

/* kvmclock is a formula for the TSC: without that there is none. */
static unsigned pv_hidden(const struct hv_domain_config *config)
{
    return config->timers_absent & (HV_TIMER_KVMCLOCK | HV_TIMER_TSC)
               ? config->pv_hidden | HV_PV_PART_CLOCK
               : config->pv_hidden;
}

static int make_vcpus(struct hv_domain *domain, const struct hv_domain_config *config)
{
    int rc = 0;

    hv_cpu_policy_init(&domain->policy, config->vcpus, TSC_KHZ, false);
    domain->policy.tsc_hidden = config->timers_absent & HV_TIMER_TSC;
    hv_cpu_policy_show_pv(&domain->policy, pv_hidden(config));
    domain->vcpu = hv_alloc_aligned(HV_CACHE_LINE, config->vcpus * sizeof(*domain->vcpu));
    if (!domain->vcpu) {
        return -ENOMEM;
    }
    while (rc == 0 && domain->vcpus < config->vcpus) {
        rc = hv_vcpu_init(&domain->vcpu[domain->vcpus], domain, domain->vcpus);
        domain->vcpus += rc == 0;
    }
    if (rc < 0) {
        forget_vcpus(domain);
        return rc;
    }
    for (unsigned i = 0; i < config->vcpus; i++) {
        hv_memory_add_holder(&domain->memory, i, &domain->vcpu[i].holder);
    }
    return 0;
}

static int make_engine_vcpus(struct hv_domain *domain, const struct hv_domain_config *config)
{
    int rc = 0;

    for (unsigned i = 0; rc == 0 && i < config->vcpus; i++) {
        struct hv_vcpu *vcpu = &domain->vcpu[i];
        const struct hv_engine_vcpu_config engine = {
            .index = i,
            .cpu = &vcpu->cpu,
            .memory = &domain->memory,
            .bell = &vcpu->bell,
            .holder = &vcpu->holder,
            .clock = &domain->core->clock,
            .pause_window = &vcpu->entity.pause_window,
            .io = &hv_domain_engine_io,
            .io_context = vcpu,
            .force_io_exit = config->flags & HV_DOMAIN_FORCE_IO_EXIT,
            .trace_blocks = config->flags & HV_DOMAIN_TRACE_BLOCKS,
        };

        rc = domain->ops->vcpu_create(domain->engine, &engine, &vcpu->engine);
    }
    return rc;
}

static int make_platform(struct hv_domain *domain, const struct hv_domain_config *config)
{
    struct hv_timer_queue *queues[HV_MAX_VCPUS];
    struct hv_platform_config platform = {
        .bus = &domain->bus,
        .clock = &domain->core->clock,
        .clock_policy = config->clock_policy,
        .rtc_track = config->rtc_track,
        .timers_absent = config->timers_absent,
        .queues = queues,
        .vcpus = config->vcpus,
        .memory_bytes = config->memory_bytes,
        .testdev = config->flags & HV_DOMAIN_TESTDEV,
        .pv_features = domain->policy.pv_features,
        .memory = &domain->memory,
        .tsc_khz = domain->policy.tsc_khz,
        .ops = &hv_domain_platform_ops,
        .ops_context = domain,
        .console = config->console,
        .console_context = config->console_context,
        .log_limit = &domain->log_limit,
    };

    for (unsigned i = 0; i < config->vcpus; i++) {
        queues[i] = hv_sched_timer_queue(domain->core->sched, i);
    }
    hv_bus_init(&domain->bus);
    return hv_platform_init(&domain->platform, &platform);
}

static const struct step steps[] = {
    {make_name, HV_TEARDOWN_HELD, "no domain id is free"},
    {make_memory, HV_TEARDOWN_PAGES, "not enough free memory for the machine"},
    {make_ram, HV_TEARDOWN_PAGES, "cannot map the machine's memory"},
    {make_engine, HV_TEARDOWN_CODE, "cannot start the engine"},
    {make_vcpus, HV_TEARDOWN_VCPUS, "cannot make the virtual CPUs"},
    {make_engine_vcpus, HV_TEARDOWN_VCPUS, "cannot make the virtual CPUs"},
    {make_platform, HV_TEARDOWN_DEVICES, "cannot make the devices"},
};

static void explain(char *why, size_t why_size, const char *text)
{
    size_t length;

    if (why && why_size > 0) {
        length = strnlen(text, why_size - 1);
        memcpy(why, text, length);
        why[length] = '\0';
    }
}

static uint64_t frames_to_mib(uint64_t frames)
{
    return frames * HV_PAGE_SIZE / HV_MIB;
}

/* What it needs, and what there is: who asked can then ask for less, or end others. */
static void explain_memory(const struct hv_core *core, uint64_t bytes, char *why, size_t why_size)
{
    struct hv_heap_info heap;
    uint64_t unclaimed;

    hv_heap_get_info(hv_arena_heap(core->arena), &heap);
    unclaimed = heap.free_frames > heap.claimed_frames ? heap.free_frames - heap.claimed_frames : 0;
    /* Else it is the host that has none. */
    if (why && why_size > 0 && bytes / HV_MIB > frames_to_mib(unclaimed)) {
        hv_format(why, why_size,
                  "it needs %" PRIu64 " MiB of memory, the core has %" PRIu64
                  " MiB, of which %" PRIu64 " MiB are free",
                  bytes / HV_MIB, frames_to_mib(heap.total_frames), frames_to_mib(unclaimed));
    }
}

static const char *check_time(const struct hv_domain_config *config)
{
    if (config->timers_absent & HV_TIMER_LAPIC) {
        return "a machine has local APIC timers: its virtual CPUs need them";
    }
    if (config->timers_absent & ~(unsigned)HV_TIMER_ALL) {
        return "no such timer can be absent";
    }
    if ((unsigned)config->clock_policy > HV_CLOCK_FREEZE) {
        return "the policies of a machine's clock are advance and freeze";
    }
    return (unsigned)config->rtc_track > HV_RTC_TRACK_GUEST ? "an RTC tracks wall or guest" : NULL;
}

static int check_config(const struct hv_core *core, const struct hv_domain_config *config,
                        char *why, size_t why_size)
{
    const char *wrong = check_time(config);
    struct hv_heap_info heap;
    int rc;
    size_t name_length =
        config->name ? strnlen(config->name, sizeof(((struct hv_domain *)0)->name)) : 0;

    if (name_length == 0 || name_length >= sizeof(((struct hv_domain *)0)->name)) {
        explain(why, why_size, "a machine's name has 1 to 63 bytes");
        return -EINVAL;
    }
    if (!config->engine) {
        explain(why, why_size, "a machine has an engine");
        return -EINVAL;
    }
    if (config->vcpus == 0 || config->vcpus > HV_MAX_VCPUS) {
        explain(why, why_size, "a machine has 1 to 64 virtual CPUs");
        return -EINVAL;
    }
    if (config->pv_hidden & ~(unsigned)HV_PV_PART_ALL) {
        explain(why, why_size, "no such part of the paravirtual interface can be hidden");
        return -EINVAL;
    }
    if (config->memory_bytes < HV_EXTENT_SIZE || config->memory_bytes % HV_MIB) {
        explain(why, why_size, "memory is a multiple of 1 MiB, at least 2 MiB");
        return -EINVAL;
    }
    if (wrong) {
        explain(why, why_size, wrong);
        return -EINVAL;
    }
    rc = hv_sched_check(core->sched, &config->sched, why, why_size);
    if (rc < 0) {
        return rc;
    }
    hv_heap_get_info(hv_arena_heap(core->arena), &heap);
    if (config->memory_bytes >> HV_PAGE_SHIFT > heap.total_frames) {
        explain_memory(core, config->memory_bytes, why, why_size);
        return -EINVAL;
    }
    return 0;
}

/* All steps, or none. The locks that they make are the domain's. */
static int make_steps(struct hv_domain *domain, const struct hv_domain_config *config, char *why,
                      size_t why_size)
{
    struct hv_lock_owner *before = hv_lock_owner_use(&domain->locks);
    size_t made = 0;
    int rc;

    hv_lock_init(&domain->lifecycle, HV_RANK_LIFECYCLE, "domain.lifecycle", 0);
    hv_group_init(&domain->group, &config->sched);
    hv_ending_init(&domain->ending);
    domain->ops = hv_engine_find(config->engine, why, why_size);
    domain->engine_reason = strcmp(config->engine, "auto") == 0 ? "the first one that can run here"
                                                                : "it was asked for";
    rc = domain->ops ? 0 : -ENOTSUP;
    while (rc == 0 && made < HV_ARRAY_LEN(steps)) {
        rc = steps[made].make(domain, config);
        if (rc < 0) {
            explain(why, why_size, steps[made].what);
        } else {
            made++;
        }
    }
    if (rc == -ENOMEM && steps[made].make == make_memory) {
        explain_memory(domain->core, config->memory_bytes, why, why_size);
    }
    if (rc < 0 && made > 0) {
        hv_teardown_undo(domain, steps[made - 1].undo);
    }
    hv_lock_owner_use(before);
    return rc;
}

int hv_domain_create(struct hv_core *core, const struct hv_domain_config *config,
                     struct hv_domain **domain_out, char *why, size_t why_size)
{
    struct hv_domain *domain;
    int rc;

    *domain_out = NULL;
    explain(why, why_size, "the host has not enough memory");
    rc = check_config(core, config, why, why_size);
    if (rc < 0) {
        return rc;
    }
    domain = hv_alloc_aligned(HV_CACHE_LINE, sizeof(*domain));
    if (!domain) {
        return -ENOMEM;
    }
    domain->core = core;
    memcpy(domain->name, config->name, strnlen(config->name, sizeof(domain->name) - 1));
    hv_list_init(&domain->reaping.link);
    hv_lock_owner_init(&domain->locks, domain->name);
    rc = make_steps(domain, config, why, why_size);
    if (rc < 0) {
        hv_domain_free(domain);
        return rc;
    }
    explain(why, why_size, "");
    hv_store_seq(&domain->state, HV_DOMAIN_STATE_PAUSED);
    *domain_out = domain;
    /* Last: from here on others may find it, and kill it. The caller's reference, and the core's. */
    hv_directory_publish(&core->directory, domain->handle, domain, 2);
    return 0;
}
