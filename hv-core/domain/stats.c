/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A domain's statistics, group by group, under the names of docs/stats.md. */
#include "domain/domain.h"

#include "domain/core.h"
#include "stat/lock-table.h"

/* A machine's own locks that are told of: those that cost most (decisions D18). */
#define WORST_LOCKS 10

/* libvirt's virDomainState, for state.state. */
static uint64_t libvirt_state(const struct hv_domain *domain)
{
    switch ((enum hv_domain_state)hv_load_relaxed(&domain->state)) {
    case HV_DOMAIN_STATE_RUNNING:
        return 1; /* running */
    case HV_DOMAIN_STATE_PAUSED:
        return 3; /* paused */
    case HV_DOMAIN_STATE_NEW:
    case HV_DOMAIN_STATE_SHUTDOWN:
    case HV_DOMAIN_STATE_DYING:
    case HV_DOMAIN_STATE_DEAD:
    case HV_DOMAIN_STATE_GONE:
        return 5; /* shut off */
    }
    return 0;
}

static void add_vcpu(struct hv_stat_list *list, const struct hv_vcpu *vcpu)
{
    const struct hv_sched_counters *sched = &vcpu->entity.counters;
    uint64_t run = hv_load_relaxed(&sched->run_ns);
    uint64_t ready = hv_load_relaxed(&sched->ready_ns);
    unsigned i = vcpu->index;

    hv_stat_add(list, run, "vcpu.%u.time", i);
    hv_stat_add(list, ready, "vcpu.%u.wait", i);
    hv_stat_add(list, hv_load_relaxed(&vcpu->halts), "vcpu.%u.halts", i);
    hv_stat_add(list, run, "sched.vcpu.%u.run", i);
    hv_stat_add(list, ready, "sched.vcpu.%u.ready", i);
    hv_stat_add(list, hv_load_relaxed(&sched->blocked_ns), "sched.vcpu.%u.blocked", i);
    hv_stat_add(list, hv_load_relaxed(&sched->steal_ns), "sched.vcpu.%u.steal", i);
    hv_stat_add(list, hv_load_relaxed(&sched->migrations), "sched.vcpu.%u.migrations", i);
    hv_stat_add(list, hv_sched_home(&vcpu->entity), "sched.vcpu.%u.pcpu", i);
}

/* What is summed over the vCPUs of a machine. */
static const struct {
    const char *name;
    size_t offset;
} sched_sums[] = {
    {"sched.wakes", offsetof(struct hv_sched_counters, wakes)},
    {"sched.preempted", offsetof(struct hv_sched_counters, preempted)},
    {"sched.parked", offsetof(struct hv_sched_counters, parked)},
    {"sched.boosts", offsetof(struct hv_sched_counters, boosts)},
    {"sched.yields_attempted", offsetof(struct hv_sched_counters, yields_attempted)},
    {"sched.yields_successful", offsetof(struct hv_sched_counters, yields_successful)},
    {"sched.halt_polls", offsetof(struct hv_sched_counters, halt_polls)},
    {"sched.halt_poll_hits", offsetof(struct hv_sched_counters, halt_poll_hits)},
};

static void add_sched(struct hv_stat_list *list, const struct hv_domain *domain)
{
    struct hv_sched_parameters parameters;

    hv_group_get(&domain->group, &parameters);
    hv_stat_add(list, parameters.weight, "sched.weight");
    hv_stat_add(list, parameters.cap_percent, "sched.cap");
    for (size_t i = 0; i < HV_ARRAY_LEN(sched_sums); i++) {
        uint64_t sum = 0;

        for (unsigned vcpu = 0; vcpu < domain->vcpus; vcpu++) {
            const char *counters = (const char *)&domain->vcpu[vcpu].entity.counters;

            sum += hv_load_relaxed((const _Atomic uint64_t *)(counters + sched_sums[i].offset));
        }
        hv_stat_add(list, sum, "%s", sched_sums[i].name);
    }
}

static void add_vcpus(struct hv_stat_list *list, const struct hv_domain *domain)
{
    uint64_t time = 0, halts = 0, kicks = 0, pause_loops = 0;

    hv_stat_add(list, domain->vcpus, "vcpu.current");
    hv_stat_add(list, domain->vcpus, "vcpu.maximum");
    for (unsigned i = 0; i < domain->vcpus; i++) {
        const struct hv_vcpu *vcpu = &domain->vcpu[i];
        const struct hv_engine_counters *engine = domain->ops->counters(vcpu->engine);

        add_vcpu(list, vcpu);
        time += hv_load_relaxed(&vcpu->entity.counters.run_ns);
        halts += hv_load_relaxed(&vcpu->halts);
        kicks += hv_load_relaxed(&vcpu->kicks);
        pause_loops += hv_load_relaxed(&engine->exits[HV_EXIT_PAUSE_LOOP]);
    }
    hv_stat_add(list, time, "cpu.time");
    hv_stat_add(list, halts, "sched.halts");
    hv_stat_add(list, kicks, "sched.kicks");
    hv_stat_add(list, pause_loops, "sched.pause_loops");
}

static void add_pv(struct hv_stat_list *list, const struct hv_domain *domain)
{
    static const char *const kinds[HV_HYPERCALL_KINDS] = {
        [HV_HYPERCALL_KICK_CPU] = "kick_cpu",       [HV_HYPERCALL_SEND_IPI] = "send_ipi",
        [HV_HYPERCALL_SCHED_YIELD] = "sched_yield", [HV_HYPERCALL_POLL_IRQ] = "poll_irq",
        [HV_HYPERCALL_REFUSED] = "refused",
    };
    uint64_t calls[HV_HYPERCALL_KINDS] = {0};
    uint64_t kicks = 0, flushes = 0, refused = 0, eois = 0;

    for (unsigned i = 0; i < domain->vcpus; i++) {
        const struct hv_pv_counters *counters = &domain->platform.pv.vcpu[i].counters;

        for (unsigned kind = 0; kind < HV_HYPERCALL_KINDS; kind++) {
            calls[kind] += hv_load_relaxed(&domain->vcpu[i].hypercalls[kind]);
        }
        kicks += hv_load_relaxed(&counters->kicks);
        flushes += hv_load_relaxed(&counters->flushes);
        refused += hv_load_relaxed(&counters->areas_refused);
        eois += hv_load_relaxed(&domain->platform.lapics.lapic[i].counters.memory_eois);
    }
    for (unsigned kind = 0; kind < HV_HYPERCALL_KINDS; kind++) {
        hv_stat_add(list, calls[kind], "pv.hypercalls.%s", kinds[kind]);
    }
    hv_stat_add(list, kicks, "pv.kicked_halts");
    hv_stat_add(list, flushes, "pv.late_flushes");
    hv_stat_add(list, eois, "pv.memory_eois");
    hv_stat_add(list, refused, "pv.areas_refused");
}

static void add_engine(struct hv_stat_list *list, const struct hv_domain *domain)
{
    static const char *const exits[HV_EXIT_KINDS] = {
        [HV_EXIT_PREEMPT] = "preempt",
        [HV_EXIT_DEADLINE] = "deadline",
        [HV_EXIT_HLT] = "hlt",
        [HV_EXIT_IO] = "io",
        [HV_EXIT_HYPERCALL] = "hypercall",
        [HV_EXIT_SHUTDOWN] = "shutdown",
        [HV_EXIT_RESET_CPU] = "reset",
        [HV_EXIT_PAUSE_LOOP] = "pause_loop",
        [HV_EXIT_NO_MEMORY] = "no_memory",
        [HV_EXIT_ERROR] = "error",
    };
    uint64_t instructions = 0, blocks = 0, invalidations = 0, fills = 0;
    uint64_t exit_counts[HV_EXIT_KINDS] = {0};

    for (unsigned i = 0; i < domain->vcpus; i++) {
        const struct hv_engine_counters *one = domain->ops->counters(domain->vcpu[i].engine);

        instructions += hv_load_relaxed(&one->instructions);
        blocks += hv_load_relaxed(&one->blocks);
        invalidations += hv_load_relaxed(&one->block_invalidations);
        fills += hv_load_relaxed(&one->tlb_fills);
        for (unsigned kind = 0; kind < HV_EXIT_KINDS; kind++) {
            exit_counts[kind] += hv_load_relaxed(&one->exits[kind]);
        }
    }
    hv_stat_add_text(list, domain->ops->name, "engine.name");
    hv_stat_add_text(list, domain->engine_reason, "engine.reason");
    hv_stat_add(list, instructions, "engine.instructions");
    hv_stat_add(list, blocks, "engine.blocks");
    hv_stat_add(list, domain->ops->cache_bytes(domain->engine), "engine.block_bytes");
    hv_stat_add(list, invalidations, "engine.block_invalidations");
    hv_stat_add(list, fills, "engine.tlb_fills");
    for (unsigned kind = 0; kind < HV_EXIT_KINDS; kind++) {
        hv_stat_add(list, exit_counts[kind], "engine.exits.%s", exits[kind]);
    }
}

static void add_memory(struct hv_stat_list *list, struct hv_domain *domain)
{
    const struct hv_platform_layout *layout = &domain->layout;
    struct hv_memory *memory = &domain->memory;
    const _Atomic uint64_t *census = memory->census.pages;
    const struct hv_flush_counters *flushes = &memory->flushes;
    const _Atomic uint64_t *leaves = memory->p2m.leaves;
    uint64_t given = (layout->low_ram_bytes + layout->high_ram_bytes) / HV_KIB;
    uint64_t writable = hv_load_relaxed(&leaves[HV_LEAF_RAM]);
    uint64_t code = hv_load_relaxed(&leaves[HV_LEAF_RAM_RO]);
    uint64_t shared = hv_load_relaxed(&leaves[HV_LEAF_SHARED]);
    uint64_t rom = hv_load_relaxed(&leaves[HV_LEAF_ROM_OVER_RAM]);

    hv_stat_add(list, given, "balloon.maximum");
    hv_stat_add(list, given, "balloon.current");
    hv_stat_add(list, (writable + code + shared + rom) * (HV_PAGE_SIZE / HV_KIB), "balloon.rss");
    hv_stat_add(list, hv_load_relaxed(&flushes->issued), "tlb.flushes_issued");
    hv_stat_add(list, hv_load_relaxed(&flushes->filtered), "tlb.flushes_filtered");
    hv_stat_add(list, hv_load_relaxed(&flushes->lazy), "tlb.flushes_lazy");
    hv_stat_add(list, hv_load_relaxed(&flushes->waited), "tlb.flushes_waited");
    hv_stat_add(list, hv_load_relaxed(&memory->type_changes), "tlb.type_changes");
    hv_stat_add(list, hv_load_relaxed(&memory->foreign_maps), "tlb.foreign_maps");
    hv_stat_add(list, hv_load_relaxed(&memory->foreign_frames), "tlb.foreign_mapped_pages");
    hv_stat_add(list, hv_load_relaxed(&leaves[HV_LEAF_UNPOPULATED]), "page.none");
    hv_stat_add(list, writable, "page.writable");
    hv_stat_add(list, code, "page.code");
    (void)hv_page_census_step(&memory->census, memory);
    hv_stat_add(list, shared, "page.cow");
    hv_stat_add(list, hv_load_relaxed(&census[HV_CENSUS_PGTABLE]), "page.pgtable");
    hv_stat_add(list, hv_load_relaxed(&census[HV_CENSUS_PINNED]), "page.pinned");
}

static void add_timers(struct hv_stat_list *list, const struct hv_domain *domain)
{
    unsigned count = hv_platform_timers(&domain->platform);

    hv_stat_add(list, count, "timer.count");
    for (unsigned i = 0; i < count; i++) {
        struct hv_platform_timer timer;

        hv_platform_get_timer(&domain->platform, i, &timer);
        hv_stat_add_text(list, timer.name, "timer.%u.name", i);
        hv_stat_add_text(list, timer.policy, "timer.%u.policy", i);
        hv_stat_add(list, timer.vcpu, "timer.%u.vcpu", i);
        hv_stat_add(list, timer.irq, "timer.%u.irq", i);
        hv_stat_add(list, timer.period_ns, "timer.%u.period_ns", i);
        hv_stat_add(list, timer.armed, "timer.%u.armed", i);
        hv_stat_add(list, timer.fired, "timer.%u.fired", i);
        hv_stat_add(list, timer.issued, "timer.%u.issued", i);
        hv_stat_add(list, timer.accepted, "timer.%u.accepted", i);
        hv_stat_add(list, timer.merged, "timer.%u.merged", i);
        hv_stat_add(list, timer.discarded, "timer.%u.discarded", i);
        hv_stat_add(list, timer.pending, "timer.%u.pending", i);
        hv_stat_add(list, timer.backlog_max, "timer.%u.backlog_max", i);
        hv_stat_add(list, timer.masked_skips, "timer.%u.masked_skips", i);
        hv_stat_add(list, timer.retargets, "timer.%u.retargets", i);
        hv_stat_add(list, timer.period_clamped, "timer.%u.period_clamped", i);
        hv_stat_add(list, timer.late_p50, "timer.%u.late.p50", i);
        hv_stat_add(list, timer.late_p99, "timer.%u.late.p99", i);
        hv_stat_add(list, timer.late_max, "timer.%u.late.max", i);
        hv_stat_add(list, timer.jitter_p50, "timer.%u.jitter.p50", i);
        hv_stat_add(list, timer.jitter_p99, "timer.%u.jitter.p99", i);
    }
}

static void add_clock(struct hv_stat_list *list, const struct hv_domain *domain)
{
    const struct hv_guest_clock *clock = &domain->platform.clock;
    const struct hv_guest_clock_counters *counters = &clock->counters;
    bool freezes = clock->policy == HV_CLOCK_FREEZE;

    hv_stat_add_text(list, freezes ? "freeze" : "advance", "clock.policy");
    hv_stat_add(list, hv_load_relaxed(&clock->last_ns), "clock.time");
    hv_stat_add(list, hv_load_relaxed(&counters->stops), "clock.stops");
    hv_stat_add(list, hv_load_relaxed(&counters->stopped_ns), "clock.stopped");
    hv_stat_add(list, hv_load_relaxed(&counters->suspends), "clock.suspends");
    hv_stat_add(list, hv_load_relaxed(&counters->suspended_ns), "clock.suspended");
    hv_stat_add(list, hv_load_relaxed(&counters->withheld_ns), "clock.withheld");
    hv_stat_add(list, hv_load_relaxed(&counters->clamps), "clock.clamps");
    hv_stat_add(list, hv_load_relaxed(&counters->clamp_max_ns), "clock.clamp_max");
}

static void add_stamps(struct hv_stat_list *list, const struct hv_domain *domain)
{
    const struct hv_testdev *testdev = &domain->platform.testdev;
    unsigned count = hv_testdev_stamps(testdev);

    if (!domain->platform.testing) {
        return;
    }
    hv_stat_add(list, count, "testdev.stamp.count");
    for (unsigned i = 0; i < count; i++) {
        hv_stat_add(list, hv_load_relaxed(&testdev->stamp[i].guest), "testdev.stamp.%u.guest", i);
        hv_stat_add(list, hv_load_relaxed(&testdev->stamp[i].host), "testdev.stamp.%u.host", i);
    }
}

static void add_locks(struct hv_stat_list *list, const struct hv_domain *domain)
{
    struct hv_lock_row rows[WORST_LOCKS];
    size_t count = hv_lock_table_worst(&domain->locks, NULL, rows, WORST_LOCKS);

    hv_stat_add(list, count, "lock.count");
    for (size_t i = 0; i < count; i++) {
        hv_lock_row_add(list, i, &rows[i], domain->vcpus);
    }
}

/* Of the dead, too: these are who keeps a zombie. */
static void add_holders(struct hv_stat_list *list, const struct hv_domain *domain)
{
    const struct hv_memory *memory = &domain->memory;
    bool killed = hv_load_seq(&domain->state) >= HV_DOMAIN_STATE_DYING;
    struct hv_foreign_hold holds[HV_HOLDS_MAX];
    size_t count = hv_holds_read(&memory->holds, holds);

    hv_stat_add(list, killed ? hv_load_seq(&memory->held_frames) : 0, "page.zombie_refs");
    hv_stat_add(list, count, "page.holder.count");
    for (size_t i = 0; i < count; i++) {
        hv_stat_add_text(list, holds[i].mapper, "page.holder.%zu.name", i);
        hv_stat_add(list, holds[i].frames, "page.holder.%zu.pages", i);
    }
}

size_t hv_domain_get_stats(struct hv_domain *domain, struct hv_stat *stats, size_t max)
{
    struct hv_stat_list list = {.stats = stats, .max = stats ? max : 0};

    hv_stat_add(&list, libvirt_state(domain), "state.state");
    add_holders(&list, domain);
    if (hv_domain_enter(domain) == 0) {
        add_vcpus(&list, domain);
        add_sched(&list, domain);
        add_pv(&list, domain);
        add_engine(&list, domain);
        add_memory(&list, domain);
        add_clock(&list, domain);
        add_timers(&list, domain);
        add_stamps(&list, domain);
        add_locks(&list, domain);
        hv_domain_leave(domain);
    }
    return list.count;
}
